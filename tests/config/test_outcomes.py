"""What is remembered is what would have been found out anew, for whomever it is told."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from config.examples import NAMESPACE, operator, policy, sandbox
from sandkeeper.config.outcomes import Outcomes
from sandkeeper.config.policies import Policies
from sandkeeper.config.resolution import Resolution
from sandkeeper.config.resolve import resolve

OPERATOR = operator(ceilings={"bindRoots": ["/srv"]})
AGENTS = ["dev", "ops", "rain"]
IMAGES = st.sampled_from(["debian:12", "alpine:3", "team/tools:1"])

containers = st.fixed_dictionaries({}, optional={"image": IMAGES, "memory": st.sampled_from(["1g", "64Mi"])})
workspaces = st.sampled_from([{}, {"agent": {"hostPath": {"path": "/srv/agents/{agentId}"}}, "access": "rw"}])


def agent_of(entry: Any) -> str:
    """Whose entry it is."""
    return str(entry["id"])


entries = st.fixed_dictionaries(
    {"id": st.sampled_from(AGENTS), "container": containers}, optional={"workspace": workspaces}
)
policies = st.fixed_dictionaries(
    {},
    optional={
        "scope": st.sampled_from(["shared", "agent", "session"]),
        "mode": st.sampled_from(["off", "all", "non-main"]),
        "container": containers,
        "workspace": workspaces,
        "agents": st.lists(entries, max_size=2, unique_by=agent_of),
    },
)
sandboxes = st.fixed_dictionaries(
    {"agentId": st.sampled_from(AGENTS)},
    optional={"sessionKey": st.sampled_from(["main", "s1"])},
) | st.fixed_dictionaries(
    {"agentId": st.sampled_from(AGENTS), "scope": st.just("session"), "container": containers}
)


def found(spec: dict[str, Any], known: Policies, outcomes: Outcomes | None) -> Resolution:
    return resolve(
        namespace=NAMESPACE,
        namespace_uid="0f6c",
        spec=sandbox(**spec),
        policies=known,
        recorded_policy=None,
        operator=OPERATOR,
        outcomes=outcomes,
    )


@given(st.lists(policies, min_size=1, max_size=3), st.lists(sandboxes, min_size=1, max_size=8))
def test_a_memory_changes_nothing(edits: list[dict[str, Any]], specs: list[dict[str, Any]]) -> None:
    """However often the policy is edited, and back again."""
    outcomes = Outcomes()
    for edit in [*edits, *edits]:
        known = {(NAMESPACE, "default"): policy(**edit)}
        for spec in specs:
            assert found(spec, known, outcomes) == found(spec, known, None)


def test_sandboxes_that_come_to_the_same_share_it() -> None:
    known = {(NAMESPACE, "default"): policy(agents=[{"id": "ops", "container": {"image": "x"}}])}
    outcomes = Outcomes()
    dev, rain, ops = (found({"agentId": agent}, known, outcomes) for agent in ("dev", "rain", "ops"))
    assert dev.config is rain.config
    assert ops.config is not None
    assert (ops.config.image, dev.key == rain.key) == ("x", False)


def test_a_memory_that_is_full_begins_anew() -> None:
    known = {
        (NAMESPACE, "default"): policy(
            workspace={"agent": {"hostPath": {"path": "/srv/{agentId}"}}, "access": "rw"}
        )
    }
    outcomes = Outcomes()
    for number in range(1500):
        resolution = found({"agentId": f"agent-{number}"}, known, outcomes)
        assert f"/srv/agent-{number}" in repr(resolution.config)
