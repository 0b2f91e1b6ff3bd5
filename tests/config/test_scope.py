"""Mode and scope resolve first; then a level narrower than the scope does not apply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import made_from, policy, resolved, sandbox
from sandkeeper.api.policy import Scope
from sandkeeper.config.scope import identify, scope_key

AGENT_IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
SESSION_KEYS = st.text(min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("mode", "session", "sandboxed"),
    [
        ("off", "main", False),
        ("off", "other", False),
        ("non-main", "main", False),
        ("non-main", "Main", True),
        ("non-main", "group:7", True),
        ("all", "main", True),
        (None, "main", True),
    ],
)
def test_mode_decides_who_is_sandboxed(*, mode: str | None, session: str, sandboxed: bool) -> None:
    assert identify(sandbox(sessionKey=session), policy(mode=mode)).sandboxed is sandboxed


def test_not_sandboxed_has_neither_key_nor_configuration_nor_problem() -> None:
    resolution = resolved(under=policy(mode="off", container={"network": "bridge"}, hotWindowSeconds=7))

    assert (resolution.key, resolution.config, resolution.config_hash, resolution.problem) == (None,) * 4
    assert resolution.policy == "team/default"
    assert resolution.windows.hot.total_seconds() == 7


def test_the_main_session_key_can_be_another() -> None:
    renamed = policy(mode="non-main", mainSessionKey="root", agents=[{"id": "x", "mainSessionKey": "top"}])

    assert not identify(sandbox(sessionKey="root"), renamed).sandboxed
    assert identify(sandbox(sessionKey="main"), renamed).sandboxed
    assert identify(sandbox(agentId="x", sessionKey="root"), renamed).sandboxed
    assert not identify(sandbox(agentId="x", sessionKey="top"), renamed).sandboxed


def test_an_agents_mode_counts_whatever_the_scope() -> None:
    shared = policy(scope="shared", agents=[{"id": "dev", "mode": "off"}])

    assert resolved(under=shared).key is None


@pytest.mark.parametrize(
    ("policy_scope", "agent_scope", "own_scope", "expected"),
    [
        (None, None, None, "agent"),
        ("session", None, None, "session"),
        ("session", "shared", None, "shared"),
        ("session", "shared", "agent", "agent"),
        (None, None, "session", "session"),
    ],
)
def test_the_narrowest_level_names_the_scope(
    policy_scope: str | None, agent_scope: str | None, own_scope: str | None, expected: str
) -> None:
    under = policy(scope=policy_scope, agents=[{"id": "dev", "scope": agent_scope}])

    assert identify(sandbox(scope=own_scope), under).scope == expected


LEVELS = policy(
    container={"image": "of-policy", "pidsLimit": 1},
    backend="docker",
    agents=[{"id": "dev", "container": {"image": "of-agent", "pidsLimit": 2}, "hotWindowSeconds": 9}],
)


@pytest.mark.parametrize(
    ("scope", "key", "image", "pids", "hot"),
    [
        (Scope.SHARED, "shared", "of-policy", 1, 300),
        (Scope.AGENT, "agent:dev", "of-agent", 2, 9),
        (Scope.SESSION, "agent:dev:session:s:1", "of-sandbox", 2, 9),
    ],
)
def test_a_level_narrower_than_the_scope_does_not_apply(
    scope: Scope, key: str, image: str, pids: int, hot: int
) -> None:
    # Admission refuses a container section without scope session; this is for objects that passed it by.
    own = sandbox(scope="session", sessionKey="s:1", container={"image": "of-sandbox"})
    spec = own.model_copy(update={"scope": scope})

    resolution = resolved(spec, under=LEVELS)

    assert resolution.key is not None
    assert resolution.key.scope == key
    config = made_from(resolution)
    assert (config.image, config.pids_limit) == (image, pids)
    assert resolution.windows.hot.total_seconds() == hot


def test_another_agents_entry_does_not_apply() -> None:
    assert made_from(resolved(sandbox(agentId="ops"), under=LEVELS)).image == "of-policy"


def test_sharers_agree_whoever_asks() -> None:
    agents = [{"id": "a", "container": {"image": "x"}}, {"id": "b", "container": {"memory": "1g"}}]
    under = policy(scope="shared", agents=agents)

    hashes = {resolved(sandbox(agentId=agent), under=under).config_hash for agent in ("a", "b", "c")}

    assert len(hashes) == 1


@given(
    one=st.tuples(st.sampled_from(Scope), AGENT_IDS, SESSION_KEYS),
    other=st.tuples(st.sampled_from(Scope), AGENT_IDS, SESSION_KEYS),
)
def test_scope_keys_are_equal_exactly_for_sharers(
    one: tuple[Scope, str, str], other: tuple[Scope, str, str]
) -> None:
    def shares(claim: tuple[Scope, str, str]) -> tuple[str, ...]:
        scope, agent, session = claim
        return {Scope.SHARED: (), Scope.AGENT: (agent,), Scope.SESSION: (agent, session)}[scope]

    def key(claim: tuple[Scope, str, str]) -> str:
        return scope_key(claim[0], agent_id=claim[1], session_key=claim[2])

    assert (key(one) == key(other)) == (shares(one) == shares(other))
