"""The policy's limits hold for what is set below the policy, and for nothing else."""

from typing import Any

import pytest

from config.examples import made_from, operator, pods, policy, resolved, sandbox
from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.policy import AgentEntry, AgentSandboxPolicySpec
from sandkeeper.config.allowlists import is_image_listed, shown
from sandkeeper.config.capabilities import DEFAULT

GPUS = operator(ceilings={"gpus": True})

EXCEEDED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"memory": "1g"}, {"memory": "1025m"}, "limits.memory: 1g"),
    ({"memory": "1Gi"}, {"memory": "1073741825"}, "limits.memory: 1Gi"),
    ({"cpus": 1}, {"cpus": 1.01}, "limits.cpus: 1.0"),
    ({"pidsLimit": 100}, {"pidsLimit": 101}, "limits.pidsLimit: 100"),
    ({"gpus": False}, {"gpus": "1"}, "limits.gpus: none"),
    ({"images": ["a", "b:*"]}, {"image": "c"}, "limits.images: a, b:*"),
    ({"images": []}, {"image": "c"}, "limits.images: none"),
    ({"images": list("abcdefg")}, {"image": "h"}, "limits.images: a, b, c, d, e, and 2 more"),
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
        assert resolution.problem.message == told(f"container.{field}: {value}", owner, limit)
        assert resolution.key is not None, "what runs under the key is frozen, not forgotten"
        assert resolution.config is None


def told(what: str, owner: str, limit: str) -> str:
    """What is said of something above a limit: field, value, who set it, the limit, and the fix."""
    return (
        f"{what}, set by {owner}, is not within the policy's {limit}; "
        "choose within that, or have it changed in the policy"
    )


@pytest.mark.parametrize(("limits", "said", "limit"), EXCEEDED)
def test_the_policy_itself_may(limits: dict[str, Any], said: dict[str, Any], limit: str) -> None:
    assert resolved(under=policy(limits=limits, container=said), operated=GPUS).problem is None


@pytest.mark.parametrize(("limits", "said"), WITHIN)
def test_within_the_limits(limits: dict[str, Any], said: dict[str, Any]) -> None:
    spec = sandbox(scope="session", container=said)

    assert resolved(spec, under=policy(limits=limits), operated=GPUS).problem is None


JOIN = {"network": "container:x", "dangerouslyAllowContainerNamespaceJoin": True}
SECCOMP = {"seccompProfile": "Unconfined", "dangerouslyAllowUnconfinedSeccomp": True}
APPARMOR = {"apparmorProfile": "unconfined", "dangerouslyAllowUnconfinedApparmor": True}
GENEROUS = operator(
    ceilings={
        "bindRoots": ["/"],
        "networks": ["lan", "Lan", "lan2"],
        "users": ["0"],
        "capabilities": ["ALL"],
        "breakGlass": ["containerNamespaceJoin", "unconfinedSeccomp", "unconfinedApparmor"],
    }
)
"""What is above a limit is not above these."""

OF_AGENTS: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    (
        {"images": ["a"]},
        {"imageFallback": True},
        "imageFallback: debian:bookworm-slim",
        "images: a",
    ),
    ({"bindRoots": ["/srv/a"]}, {"binds": ["/srv/ab:/x"]}, "binds: /srv/ab:/x", "bindRoots: /srv/a"),
    ({"bindRoots": ["/srv/a"]}, {"binds": ["/srv/a/../b:/x"]}, "binds: /srv/a/../b:/x", "bindRoots: /srv/a"),
    ({"bindRoots": ["/srv/a"]}, {"binds": ["/srv/a/b:/a", "/srv:/b"]}, "binds: /srv:/b", "bindRoots: /srv/a"),
    ({"bindRoots": []}, {"binds": ["/srv/a:/x"]}, "binds: /srv/a:/x", "bindRoots: none"),
    ({"networks": ["lan"]}, {"network": "lan2"}, "network: lan2", "networks: lan"),
    ({"networks": ["lan"]}, {"network": "Lan"}, "network: Lan", "networks: lan"),
    ({"networks": []}, JOIN, "network: container:x", "networks: none"),
    ({"users": ["1000", "2000"]}, {"user": "1000:3000"}, "user: 1000:3000", "users: 1000, 2000"),
    ({"users": ["1000"]}, {"user": "0"}, "user: 0", "users: 1000"),
    ({"users": ["1000"]}, {"user": "1000:00"}, "user: 1000:00", "users: 1000"),
    ({"users": ["auto"]}, {"user": "1000"}, "user: 1000", "users: auto"),
    (
        {"capabilities": ["CAP_CHOWN"]},
        {"capDrop": [name for name in DEFAULT if name not in {"CHOWN", "KILL", "MKNOD"}]},
        "capDrop: KILL, MKNOD not dropped",
        "capabilities: CAP_CHOWN",
    ),
    ({"breakGlass": []}, JOIN, "network: container:x", "breakGlass: none"),
    (
        {"breakGlass": ["unconfinedApparmor"]},
        SECCOMP,
        "seccompProfile: Unconfined",
        "breakGlass: unconfinedApparmor",
    ),
    (
        {"breakGlass": ["unconfinedSeccomp"]},
        APPARMOR,
        "apparmorProfile: unconfined",
        "breakGlass: unconfinedSeccomp",
    ),
]
"""What only policies and their agents' entries may say, and only entries are limited in."""

OF_AGENTS_WITHIN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"images": ["sandkeeper-*", "debian:bookworm-slim"]}, {"imageFallback": True}),
    ({"images": ["sandkeeper-*"]}, {"imageFallback": False}),
    ({"bindRoots": ["/srv/a", "/srv/x/../b"]}, {"binds": ["/srv/a:/a", "/srv/b/c:/b", "/srv/x/../b:/c"]}),
    ({"bindRoots": []}, {"binds": []}),
    ({"networks": ["lan"]}, {"network": "lan"}),
    ({"networks": []}, {"network": "none"}),
    ({"networks": ["container:x"]}, JOIN),
    ({"users": ["01000", "2000"]}, {"user": "1000:2000"}),
    ({"users": ["2000"]}, {"user": "2000"}),
    ({"users": []}, {}),
    ({"capabilities": ["CAP_CHOWN"]}, {"capDrop": [f"CAP_{name}" for name in DEFAULT if name != "CHOWN"]}),
    ({"capabilities": ["ALL"]}, {"capDrop": []}),
    ({"capabilities": []}, {"capDrop": ["ALL"]}),
    ({"breakGlass": ["containerNamespaceJoin"]}, JOIN),
    ({"breakGlass": ["unconfinedSeccomp"]}, SECCOMP),
    ({"breakGlass": ["unconfinedApparmor"]}, APPARMOR),
    ({}, {**JOIN, **SECCOMP, "user": "0", "capDrop": [], "binds": ["/srv/a:/a"]}),
]


@pytest.mark.parametrize(("limits", "said", "what", "limit"), OF_AGENTS)
def test_no_agent_may_exceed(limits: dict[str, Any], said: dict[str, Any], what: str, limit: str) -> None:
    problem = resolved(
        under=policy(limits=limits, agents=[{"id": "dev", "container": said}]), operated=GENEROUS
    ).problem

    assert problem is not None
    assert problem.reason is Reason.LIMIT_EXCEEDED
    assert problem.message == told(f"container.{what}", "agents[dev]", f"limits.{limit}")
    made_from(resolved(under=policy(limits=limits, container=said), operated=GENEROUS))


@pytest.mark.parametrize(("limits", "said"), OF_AGENTS_WITHIN)
def test_agents_within_the_limits(limits: dict[str, Any], said: dict[str, Any]) -> None:
    under = policy(limits=limits, agents=[{"id": "dev", "container": said}])

    made_from(resolved(under=under, operated=GENEROUS))


def test_the_owner_of_a_directory_is_listed_as_such() -> None:
    def under(*users: str) -> AgentSandboxPolicySpec:
        return policy(
            limits={"users": users},
            workspace={"volume": {"hostPath": {"path": "/srv/sandboxes"}}},
            agents=[{"id": "dev", "container": {"user": "auto"}}],
        )

    problem = resolved(under=under("1000"), operated=GENEROUS).problem

    assert problem is not None
    assert problem.message == told("container.user: auto", "agents[dev]", "limits.users: 1000")
    made_from(resolved(under=under("1000", "auto"), operated=GENEROUS))


def test_a_danger_is_set_by_whoever_turns_the_key_to_it() -> None:
    """Admission lets nobody say half of it, but an object may be older than a rule."""
    half = ContainerTemplate.model_construct(seccomp_profile="unconfined")
    other = ContainerTemplate.model_construct(dangerously_allow_unconfined_seccomp=True)
    entry = AgentEntry(id="dev").model_copy(update={"container": other})
    under = policy(limits={"breakGlass": []}).model_copy(update={"container": half, "agents": [entry]})

    problem = resolved(under=under, operated=GENEROUS).problem

    assert problem is not None
    assert problem.message == told(
        "container.seccompProfile: unconfined", "agents[dev]", "limits.breakGlass: none"
    )


def test_a_bind_of_the_policy_is_not_an_agents() -> None:
    under = policy(
        limits={"bindRoots": ["/srv/a"]},
        container={"binds": ["/srv/shared:/shared"]},
        agents=[{"id": "dev", "container": {"binds": ["/srv/a/dev:/own"]}}],
    )

    assert len(made_from(resolved(under=under, operated=GENEROUS)).binds) == 2


@pytest.mark.parametrize("place", ["agent", "volume"])
def test_workspaces_on_hosts_are_limited_as_binds_are(place: str) -> None:
    def placed(path: str) -> dict[str, Any]:
        return {"workspace": {place: {"hostPath": {"path": path}}}}

    operated = pods(ceilings={"bindRoots": ["/srv"]})
    limits = {"bindRoots": ["/srv/a"]}

    for path in ("/srv/b/{agentId}", "/srv/a/../{agentId}"):
        under = policy(limits=limits, agents=[{"id": "dev", **placed(path)}])
        problem = resolved(under=under, operated=operated).problem
        assert problem is not None
        assert problem.message == told(
            f"workspace.{place}.hostPath: {path}", "agents[dev]", "limits.bindRoots: /srv/a"
        )
    within = policy(limits=limits, agents=[{"id": "dev", **placed("/srv/a/{agentId}")}])
    made_from(resolved(under=within, operated=operated))
    made_from(resolved(under=policy(limits=limits, **placed("/srv/b")), operated=operated))


def test_binds_of_a_browser_are_limited_too() -> None:
    browser = {"browser": {"binds": ["/srv/b:/b"]}}
    limits = {"bindRoots": ["/srv/a"]}

    problem = resolved(
        under=policy(limits=limits, agents=[{"id": "dev", **browser}]), operated=GENEROUS
    ).problem

    assert problem is not None
    assert problem.message == told("browser.binds: /srv/b:/b", "agents[dev]", "limits.bindRoots: /srv/a")
    made_from(resolved(under=policy(limits=limits, **browser), operated=GENEROUS))


def test_a_bind_that_cannot_be_read_is_not_within_the_limits() -> None:
    """Admission refuses it, but an object may be older than a rule."""
    said = ContainerTemplate.model_construct(binds=["volume:/data"])
    entry = AgentEntry(id="dev").model_copy(update={"container": said})
    under = policy(limits={"bindRoots": ["/srv/a"]}).model_copy(update={"agents": [entry]})

    problem = resolved(under=under, operated=GENEROUS).problem

    assert problem is not None
    assert "container.binds: volume:/data, set by agents[dev], is not within the policy's" in problem.message


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
    assert is_image_listed(image, [pattern]) is allowed
    assert not is_image_listed(image, [])


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


@pytest.mark.parametrize(
    ("count", "end"),
    [(0, "none"), (4, "c, d"), (5, "d, e"), (6, "d, e, and 1 more"), (9, "d, e, and 4 more")],
)
def test_lists_are_told_as_far_as_anybody_reads(count: int, end: str) -> None:
    assert shown("abcdefghi"[:count]).endswith(end)


def test_a_limit_that_nobody_means_is_told() -> None:
    problem = resolved(under=policy(limits={"memory": "8388608t"})).problem

    assert problem is not None
    assert problem.message.startswith("limits.memory: ")
