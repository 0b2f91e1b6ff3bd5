"""Looking the policy up, and what a resolution holds when something is wrong."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import (
    NAMESPACE,
    OPERATOR_NAMESPACE,
    container,
    made_from,
    operator,
    pods,
    policy,
    resolved,
    sandbox,
)
from sandkeeper.api.conditions import Reason
from sandkeeper.api.policy import Backend
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.resolution import Problem, Resolution
from sandkeeper.config.resolve import resolve

OWN = (NAMESPACE, "default")
OPERATORS = (OPERATOR_NAMESPACE, "default")
OWN_NAME = "team/default"
OPERATORS_NAME = "sandkeeper-system/default"


@pytest.mark.parametrize(
    ("there", "recorded", "applied"),
    [
        ([], None, "built-in"),
        ([], "built-in", "built-in"),
        ([OPERATORS], None, OPERATORS_NAME),
        ([OPERATORS], "built-in", OPERATORS_NAME),
        ([OPERATORS], OPERATORS_NAME, OPERATORS_NAME),
        ([OWN, OPERATORS], None, OWN_NAME),
        ([OWN, OPERATORS], OPERATORS_NAME, OWN_NAME),
        ([OWN], OPERATORS_NAME, OWN_NAME),
        ([OWN], OWN_NAME, OWN_NAME),
        # What was applied and is gone is not found, whatever else there is.
        ([], OWN_NAME, None),
        ([OPERATORS], OWN_NAME, None),
        ([], OPERATORS_NAME, None),
        # The operator was moved to another namespace.
        ([], "old-system/default", None),
        ([OPERATORS], "old-system/default", OPERATORS_NAME),
    ],
)
def test_looking_default_up(there: list[tuple[str, str]], recorded: str | None, applied: str | None) -> None:
    resolution = resolved(policies=dict.fromkeys(there, policy()), recorded=recorded)

    assert resolution.policy == applied
    if applied is None:
        assert_not_found(resolution)
        assert resolution.problem is not None
        assert repr(recorded) in resolution.problem.message
    else:
        made_from(resolution)


@pytest.mark.parametrize("recorded", [None, "team/strict", "built-in"])
def test_another_name_is_looked_up_in_the_namespace_alone(recorded: str | None) -> None:
    spec = sandbox(policyRef={"name": "strict"})
    elsewhere = {(OPERATOR_NAMESPACE, "strict"): policy(), OWN: policy()}

    assert_not_found(resolved(spec, policies=elsewhere, recorded=recorded))
    assert (
        resolved(spec, policies={(NAMESPACE, "strict"): policy()}, recorded=recorded).policy == "team/strict"
    )


def test_in_the_operators_own_namespace_there_is_one_place_to_look() -> None:
    operated = operator(namespace=NAMESPACE)

    assert resolved(operated=operated).policy == "built-in"
    assert_not_found(resolved(operated=operated, recorded=OWN_NAME))
    assert resolved(operated=operated, under=policy()).policy == OWN_NAME


def assert_not_found(resolution: Resolution) -> None:
    assert resolution.problem is not None
    assert resolution.problem.reason is Reason.POLICY_NOT_FOUND
    assert (resolution.policy, resolution.key, resolution.config, resolution.config_hash) == (None,) * 4
    assert resolution.windows == resolved().windows, "the built-in ones"


def test_a_policy_that_cannot_be_read_is_not_passed_over() -> None:
    unreadable = Problem(reason=Reason.INVALID_CONFIG, message="spec.container.colour is not known")

    resolution = resolved(policies={OWN: unreadable, OPERATORS: policy()})

    assert resolution.problem == unreadable
    assert resolution.policy == OWN_NAME
    assert (resolution.key, resolution.config) == (None, None)
    assert resolution.windows == resolved().windows


def test_the_key_holds_all_that_tells_runtimes_apart() -> None:
    spec = sandbox(policyRef={"name": "strict"}, scope="session", sessionKey="s")

    resolution = resolved(spec, policies={(NAMESPACE, "strict"): policy()})

    assert resolution.key == RuntimeKey(NAMESPACE, "0f6c", "strict", "agent:dev:session:s")


def test_the_operators_default_policy_serves_each_namespace_apart() -> None:
    policies = {OPERATORS: policy(scope="shared")}

    keys = {
        resolve(
            namespace=namespace,
            namespace_uid=uid,
            spec=sandbox(),
            policies=policies,
            recorded_policy=None,
            operator=operator(),
        ).key
        for namespace, uid in (("a", "1"), ("b", "2"), ("a", "3"))
    }

    assert len(keys) == 3


@pytest.mark.parametrize(
    ("under", "reason"),
    [
        ({"backend": "pod"}, Reason.BACKEND_UNAVAILABLE),
        ({"container": {"memory": "1m"}}, Reason.INVALID_CONFIG),
        (
            {"limits": {"pidsLimit": 1}, "agents": [{"id": "dev", "container": {"pidsLimit": 2}}]},
            Reason.LIMIT_EXCEEDED,
        ),
        ({"workspace": {"volume": {"claim": {"name": "a"}}}}, Reason.UNSUPPORTED_FIELD),
        (
            {"limits": {"requireNetworkIsolation": True}, "container": {"network": "lan"}},
            Reason.NETWORK_NOT_ISOLATED,
        ),
        ({"container": {"network": "lan"}}, Reason.CEILING_EXCEEDED),
        ({"container": {"binds": ["/etc:/x"]}}, Reason.BIND_REFUSED),
    ],
)
def test_once_the_key_is_known_it_is_told(under: dict[str, Any], reason: Reason) -> None:
    resolution = resolved(under=policy(**under, hotWindowSeconds=7))

    assert resolution.key is not None
    assert resolution.policy == OWN_NAME
    assert resolution.windows.hot.total_seconds() == 7
    assert resolution.problem is not None
    assert resolution.problem.reason is reason
    assert (resolution.config, resolution.config_hash) == (None, None)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (4, Reason.INVALID_CONFIG),
        (3, Reason.UNSUPPORTED_FIELD),
        (2, Reason.LIMIT_EXCEEDED),
        (1, Reason.CEILING_EXCEEDED),
    ],
)
def test_what_cannot_be_made_is_told_before_what_may_not(wrong: int, reason: Reason) -> None:
    said: list[dict[str, Any]] = [
        {"capDrop": []},
        {"memory": "2g"},
        {"imageFallback": True},
        {"workdir": "/proc"},
    ]
    container = {name: value for part in said[:wrong] for name, value in part.items()}
    under = policy(limits={"memory": "1g"}, agents=[{"id": "dev", "container": container}])

    problem = resolved(under=under, operated=pods()).problem

    assert problem is not None
    assert problem.reason is reason


def test_more_problems_than_anybody_reads() -> None:
    under = policy(container={"binds": [f"/etc/{n}:/x{n}" for n in range(9)]})

    problem = resolved(under=under).problem

    assert problem is not None
    assert problem.message.count("/etc/") == 5
    assert problem.message.endswith("; and 4 more")


def test_as_many_problems_as_anybody_reads() -> None:
    problem = resolved(under=policy(container={"binds": [f"/etc/{n}:/x{n}" for n in range(5)]})).problem

    assert problem is not None
    assert problem.message.count("/etc/") == 5
    assert " more" not in problem.message


FREE_TEXTS = (
    "network",
    "user",
    "memory",
    "memory_swap",
    "workdir",
    "seccomp_profile",
    "apparmor_profile",
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    env=st.dictionaries(TEXT, TEXT, max_size=3),
    binds=st.lists(TEXT | st.builds("/{}:/{}:{}".format, TEXT, TEXT, TEXT), max_size=3),
    texts=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(FREE_TEXTS, TEXT),
    ),
    tmpfs=st.lists(TEXT | st.builds("/{}:{}".format, TEXT, TEXT), max_size=3),
    capabilities=st.lists(TEXT, max_size=3),
    operated=st.sampled_from([operator(), pods(ceilings={"egress": ["dns"]})]),
)
def test_resolving_never_raises_and_never_lets_garbage_through(
    *,
    env: dict[str, str],
    binds: list[str],
    texts: dict[str, str],
    tmpfs: list[str],
    capabilities: list[str],
    operated: OperatorConfig,
) -> None:
    # As if admission had been passed by altogether.
    said = container().model_copy(
        update={"env": env, "binds": binds, "tmpfs": tmpfs, "cap_drop": capabilities, **texts}
    )

    under = policy(pod={"egress": {"dns": True}}).model_copy(update={"container": said})
    resolution = resolved(under=under, operated=operated)

    assert (resolution.config is None) == (resolution.problem is not None)
    if resolution.config is not None:
        assert not resolution.config.binds, "without bind roots no bind gets through"
        assert resolution.config.network == "none"
        user = resolution.config.user
        assert user == "auto" or all(int(number) > 0 for number in user.split(":", maxsplit=1))
        assert user == "auto" or ":" in user, "an engine would take root's group"


def test_the_same_input_gives_the_same_answer() -> None:
    under = policy(container={"env": {"A": "1", "B": "2"}, "memory": "1g"})

    assert resolved(under=under) == resolved(under=under)


@pytest.mark.parametrize(
    ("backends", "told"), [(["docker"], "docker"), ([], "none"), (["docker", "docker"], "docker, docker")]
)
def test_a_backend_that_nobody_serves(backends: list[str], told: str) -> None:
    operated = operator().model_copy(update={"backends": tuple(map(Backend, backends))})

    problem = resolved(under=policy(backend="pod"), operated=operated).problem

    assert problem is not None
    assert problem.message.startswith(f"backend: this operator does not serve pod; it serves {told}")
