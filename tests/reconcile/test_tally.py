"""How many runtimes there are is known at every moment, without anybody counting; and which fields were changed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.reconcile.claims import Claims
from sandkeeper.reconcile.tally import Tally
from sandkeeper.telemetry.memory import Capped

UID = "ns-team"


class World:
    def __init__(self, *, most_policies: int = 100) -> None:
        self.tally = Tally(Capped(most_policies))
        self.claims = Claims(OperatorConfig(), enqueue=lambda _: None, tally=self.tally)
        self._versions = iter(range(1, 1_000_000))
        self.claims.namespaces.put(self._raw("team", namespace=None, uid=UID))

    def _raw(
        self, name: str, *, namespace: str | None = "team", uid: str = "", **rest: Any
    ) -> dict[str, Any]:
        metadata = {
            "name": name,
            "uid": uid or name,
            "resourceVersion": str(next(self._versions)),
            "creationTimestamp": "2026-01-02T03:00:00Z",
        }
        return {"metadata": metadata | ({"namespace": namespace} if namespace else {}), **rest}

    def sandbox(self, name: str, *, phase: str | None = None, key: str | None = None, **spec: Any) -> None:
        status = {"phase": phase, "key": key or f"agent:{name}", "backend": "docker"} if phase else {}
        made = self._raw(name, spec={"agentId": name, **spec}, status=status)
        self.claims.sandboxes.put(made)

    def policy(self, name: str = "default", **spec: Any) -> None:
        self.claims.policies.put(self._raw(name, spec=spec))

    def delete(self, name: str) -> None:
        self.claims.sandboxes.drop(self._raw(name))


def test_one_counts_where_its_status_says() -> None:
    world = World()
    world.sandbox("rain")
    assert world.tally.counts == {("docker", "Pending", "default"): 1}
    world.sandbox("rain", phase="Ready")
    world.sandbox("snow", phase="Ready")
    assert world.tally.counts == {("docker", "Ready", "default"): 2}
    world.sandbox("rain", phase="Pruned")
    world.delete("snow")
    assert world.tally.counts == {("docker", "Pruned", "default"): 1}
    world.delete("rain")
    assert world.tally.counts == {}


def test_those_who_share_a_runtime_count_once_and_the_oldest_speaks() -> None:
    world = World()
    world.sandbox("a", agentId="rain", phase="Ready", key="agent:rain")
    world.sandbox("b", agentId="rain", phase="Failed", key="agent:rain")
    world.sandbox("c", agentId="rain")  # new: its word is no word yet
    assert world.tally.counts == {("docker", "Ready", "default"): 1}
    world.delete("a")
    assert world.tally.counts == {("docker", "Failed", "default"): 1}


def test_policies_that_nobody_wrote_are_others() -> None:
    world = World(most_policies=2)
    world.sandbox("lost", policyRef={"name": "nowhere"})
    for name in ("one", "two", "three"):
        world.policy(name)
        world.sandbox(name, policyRef={"name": name})
    assert world.tally.counts == {
        ("none", "Pending", "other"): 1,
        ("docker", "Pending", "one"): 1,
        ("docker", "Pending", "two"): 1,
        ("docker", "Pending", "other"): 1,
    }


def test_a_policy_that_moves_a_sandbox_is_told_at_both_places_until_it_has_moved() -> None:
    world = World()
    world.sandbox("rain", phase="Ready")
    world.policy(scope="shared")
    assert world.tally.counts == {("docker", "Ready", "default"): 2}
    world.sandbox("rain", phase="Ready", key="shared")
    assert world.tally.counts == {("docker", "Ready", "default"): 1}


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["Ready", "Failed", "delete", None])), max_size=30
    )
)
def test_it_is_always_what_counting_anew_would_tell(steps: list[tuple[str, str | None]]) -> None:
    world = World()
    for name, step in steps:
        if step == "delete":
            world.delete(name)
        else:
            agent = "shared" if name in "ab" else name
            world.sandbox(name, agentId=agent, phase=step, key=f"agent:{agent}")
        anew = Tally(Capped(100))
        for key in world.claims.keys():  # noqa: SIM118 - not a mapping
            anew.count(key, world.claims.of(key))
        assert world.tally.counts == anew.counts


def changed(world: World) -> tuple[str, ...]:
    (claim,) = world.claims.of(RuntimeKey("team", UID, "default", "agent:rain"))
    return claim.changed


def test_the_names_of_fields_that_were_changed_are_kept_until_that_runs() -> None:
    world = World()
    world.policy()
    world.sandbox("rain", phase="Ready")
    assert changed(world) == ()
    world.policy(container={"env": {"TOKEN_LIKE": "hidden"}})
    assert changed(world) == ("env",)
    world.policy(container={"env": {"TOKEN_LIKE": "hidden"}, "readOnlyRoot": False})
    assert changed(world) == ("env", "readOnlyRoot")
    (claim,) = world.claims.of(RuntimeKey("team", UID, "default", "agent:rain"))
    made = world._raw(
        "rain",
        spec={"agentId": "rain"},
        status={"phase": "Ready", "key": "agent:rain", "configHash": claim.resolution.config_hash},
    )
    world.claims.sandboxes.put(made)
    assert changed(world) == ()
