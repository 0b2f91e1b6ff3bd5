"""The policy's limits hold for what is set below the policy, and for nothing else."""

from typing import Any

import pytest

from config.examples import made_from, operator, pods, policy, resolved, sandbox
from sandkeeper.api.conditions import Reason
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.config.limits import is_image_allowed

GPUS = operator(ceilings={"gpus": True})

EXCEEDED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"memory": "1g"}, {"memory": "1025m"}, "limits.memory: 1g"),
    ({"memory": "1Gi"}, {"memory": "1073741825"}, "limits.memory: 1Gi"),
    ({"cpus": 1}, {"cpus": 1.01}, "limits.cpus: 1.0"),
    ({"pidsLimit": 100}, {"pidsLimit": 101}, "limits.pidsLimit: 100"),
    ({"gpus": False}, {"gpus": "1"}, "limits.gpus: none"),
    ({"images": ["a", "b:*"]}, {"image": "c"}, "limits.images: a, b:*"),
    ({"images": []}, {"image": "c"}, "limits.images: none"),
]
WITHIN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"memory": "1g"}, {"memory": "1024m"}),
    ({"memory": "1g"}, {}),
    ({"cpus": 1}, {"cpus": 1.0}),
    ({"pidsLimit": 100}, {"pidsLimit": 100}),
    ({"gpus": True}, {"gpus": "all"}),
    ({}, {"gpus": "all", "memory": "64g", "image": "x"}),
    ({"images": ["a", "b:*"]}, {"image": "b:1"}),
    ({"images": []}, {}),
]


@pytest.mark.parametrize(("limits", "said", "limit"), EXCEEDED)
def test_neither_an_agent_nor_a_sandbox_may_exceed(
    limits: dict[str, Any], said: dict[str, Any], limit: str
) -> None:
    field, value = next(iter(said.items()))
    by_agent = policy(limits=limits, agents=[{"id": "dev", "container": said}])
    by_sandbox = sandbox(scope="session", container=said)

    for owner, resolution in (
        ("agents[dev]", resolved(under=by_agent, operated=GPUS)),
        ("the Sandbox", resolved(by_sandbox, under=policy(limits=limits), operated=GPUS)),
    ):
        assert resolution.problem is not None
        assert resolution.problem.reason is Reason.LIMIT_EXCEEDED
        assert resolution.problem.message == (
            f"container.{field}: {value}, set by {owner}, is not within the policy's {limit}"
        )
        assert resolution.key is not None, "what runs under the key is frozen, not forgotten"
        assert resolution.config is None


@pytest.mark.parametrize(("limits", "said", "limit"), EXCEEDED)
def test_the_policy_itself_may(limits: dict[str, Any], said: dict[str, Any], limit: str) -> None:
    assert resolved(under=policy(limits=limits, container=said), operated=GPUS).problem is None


@pytest.mark.parametrize(("limits", "said"), WITHIN)
def test_within_the_limits(limits: dict[str, Any], said: dict[str, Any]) -> None:
    spec = sandbox(scope="session", container=said)

    assert resolved(spec, under=policy(limits=limits), operated=GPUS).problem is None


def test_what_counts_is_the_value_in_force() -> None:
    under = policy(limits={"memory": "1g"}, agents=[{"id": "dev", "container": {"memory": "2g"}}])
    spec = sandbox(scope="session", container={"memory": "512m"})

    assert made_from(resolved(spec, under=under)).memory == 512 * 1024**2


def test_limits_do_not_reach_an_agents_entry_that_does_not_apply() -> None:
    under = policy(
        scope="shared", limits={"memory": "1g"}, agents=[{"id": "dev", "container": {"memory": "2g"}}]
    )

    assert resolved(under=under).problem is None


@pytest.mark.parametrize(
    ("image", "pattern", "allowed"),
    [
        ("registry.example/team/x:1", "registry.example/team/*", True),
        ("registry.example/team/x:1", "registry.example/team/x:1", True),
        ("registry.example/team/x:1", "registry.example/team/x", False),
        ("registry.example.net/x", "registry.example/*", False),
        ("x", "*", True),
        ("x*", "x*", True),
        ("X", "x*", False),
        ("abc", "*c", False),
        ("a", "", False),
    ],
)
def test_image_patterns(*, image: str, pattern: str, allowed: bool) -> None:
    assert is_image_allowed(image, [pattern]) is allowed
    assert not is_image_allowed(image, [])


def test_what_nobody_says_is_as_much_as_the_limits_allow() -> None:
    config = resolved(under=policy(limits={"memory": "1g", "cpus": 2, "pidsLimit": 100})).config
    assert config is not None
    assert (config.memory, config.milli_cpus, config.pids_limit) == (2**30, 2000, 100)


LANS = {"ceilings": {"networks": ["lan"], "egress": ["internet"]}}
ISOLATED = {"requireNetworkIsolation": True}


@pytest.mark.parametrize(
    "under",
    [
        policy(limits=ISOLATED, container={"network": "lan"}),
        policy(limits=ISOLATED, agents=[{"id": "dev", "container": {"network": "lan"}}]),
    ],
)
def test_isolation_that_is_required_holds_for_the_policy_itself_too(under: AgentSandboxPolicySpec) -> None:
    problem = resolved(under=under, operated=operator(**LANS)).problem

    assert problem is not None
    assert problem.reason is Reason.NETWORK_NOT_ISOLATED
    assert problem.message.startswith("container.network: 'lan' is not isolated")
    assert "use none" in problem.message


def test_a_container_without_a_network_is_isolated() -> None:
    made_from(resolved(under=policy(limits=ISOLATED)))


@pytest.mark.parametrize("required", [False, None])
def test_isolation_that_nobody_requires(*, required: bool | None) -> None:
    limits = {} if required is None else {"requireNetworkIsolation": required}

    made_from(resolved(under=policy(limits=limits, container={"network": "lan"}), operated=operator(**LANS)))
    made_from(resolved(under=policy(limits=limits), operated=pods()))


@pytest.mark.parametrize("enforced", [True, False])
@pytest.mark.parametrize("egress", [{}, {"internet": True}])
def test_a_pod_is_isolated_where_the_installer_says_so(*, enforced: bool, egress: dict[str, Any]) -> None:
    operated = pods(**LANS, pod={"networkPolicyEnforced": enforced})
    under = policy(limits=ISOLATED, pod={"egress": egress})

    resolution = resolved(under=under, operated=operated)

    assert resolution.network_enforced is enforced
    if enforced:
        made_from(resolution)
    else:
        assert resolution.problem is not None
        assert resolution.problem.reason is Reason.NETWORK_NOT_ISOLATED
        assert resolution.problem.message.startswith("limits.requireNetworkIsolation: ")
        assert "pod.networkPolicyEnforced" in resolution.problem.message


def test_isolation_is_told_where_nobody_requires_it() -> None:
    assert not resolved(operated=pods()).network_enforced
    assert resolved(operated=pods(pod={"networkPolicyEnforced": True})).network_enforced
