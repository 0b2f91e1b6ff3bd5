"""Which keys a change concerns, and under which a Sandbox is found."""

from typing import Any

from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.reconcile.claims import Claims, is_private

VERSIONS = iter(range(1, 10_000))


def raw(kind: str, name: str, namespace: str | None = "team", **rest: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "uid": f"{kind}-{name}",
        "resourceVersion": str(next(VERSIONS)),
        "creationTimestamp": "2026-01-02T03:00:00Z",
    }
    return {"metadata": metadata | ({"namespace": namespace} if namespace else {}), **rest}


class World:
    def __init__(self) -> None:
        self.enqueued: list[RuntimeKey] = []
        self.claims = Claims(OperatorConfig(), enqueue=self.enqueued.append)
        self.claims.namespaces.put(raw("ns", "team", None))

    def sandbox(self, name: str, status: Any = None, **spec: Any) -> dict[str, Any]:
        made = raw("sbx", name, spec={"agentId": name, **spec}, status=status or {})
        self.claims.sandboxes.put(made)
        return made

    def policy(self, name: str = "default", namespace: str = "team", **spec: Any) -> dict[str, Any]:
        made = raw("asp", name, namespace, spec=spec)
        self.claims.policies.put(made)
        return made

    def scopes(self) -> set[str]:
        told = {key.scope for key in self.enqueued}
        self.enqueued.clear()
        return told


def test_a_sandbox_is_found_under_its_key_and_under_the_one_it_records() -> None:
    world = World()
    world.policy(scope="shared")
    world.sandbox("rain", status={"key": "agent:rain"})
    assert world.scopes() == {"shared", "agent:rain"}
    for scope in ("shared", "agent:rain"):
        key = RuntimeKey("team", "ns-team", "default", scope)
        assert [claim.sandbox.name for claim in world.claims.of(key)] == ["rain"]


def test_a_policy_concerns_the_sandboxes_of_its_namespace_that_it_changes() -> None:
    world = World()
    world.sandbox("rain")
    world.sandbox("other", policyRef={"name": "special"})
    world.scopes()
    world.policy(container={"env": {"A": "b"}})
    assert world.scopes() == {"agent:rain"}
    world.policy(namespace="elsewhere")
    assert world.scopes() == set()


def test_the_operators_default_policy_concerns_every_namespace_without_one() -> None:
    world = World()
    world.sandbox("rain")
    world.scopes()
    world.policy(namespace="sandkeeper-system", container={"env": {"A": "b"}})
    assert world.scopes() == {"agent:rain"}
    world.policy(scope="shared")
    assert world.scopes() == {"agent:rain", "shared"}


def test_what_is_not_sandboxed_has_a_private_key() -> None:
    world = World()
    world.policy(mode="off")
    world.sandbox("rain")
    (key,) = {key for key in world.enqueued if key.scope.startswith("object:")}
    assert is_private(key)
    assert [claim.sandbox.name for claim in world.claims.of(key)] == ["rain"]


def test_what_cannot_be_resolved_any_more_stays_where_it_is() -> None:
    world = World()
    policy = world.policy()
    world.sandbox("rain", status={"key": "agent:rain", "policy": "team/default"})
    world.scopes()
    world.claims.policies.drop(policy | {"metadata": policy["metadata"] | {"resourceVersion": "99999"}})
    assert world.scopes() == {"agent:rain"}
    claim = world.claims.get(("team", "rain"))
    assert claim is not None
    assert claim.resolution.problem is not None
    assert claim.resolved.scope == "agent:rain"


def test_a_namespace_that_comes_again_is_another_one() -> None:
    world = World()
    world.sandbox("rain")
    again = raw("ns", "team", None)
    again["metadata"]["uid"] = "another"
    world.scopes()
    world.claims.namespaces.put(again)
    assert {key.namespace_uid for key in world.enqueued} == {"ns-team", "another"}


def test_a_spec_that_cannot_be_read_is_a_problem_and_not_a_crash() -> None:
    world = World()
    world.sandbox("rain", colour="blue")
    claim = world.claims.get(("team", "rain"))
    assert claim is not None
    assert claim.resolution.problem is not None
    assert "colour" in claim.resolution.problem.message


def test_a_sandbox_that_is_gone_leaves_nothing_in_the_index() -> None:
    world = World()
    made = world.sandbox("rain")
    world.claims.sandboxes.drop(made | {"metadata": made["metadata"] | {"resourceVersion": "99999"}})
    assert list(world.claims.keys()) == []
    assert world.claims.get(("team", "rain")) is None


def test_what_an_edited_policy_concerns_can_wait() -> None:
    now: list[RuntimeKey] = []
    later: list[RuntimeKey] = []
    claims = Claims(OperatorConfig(), enqueue=now.append, enqueue_later=later.append)
    claims.namespaces.put(raw("ns", "team", None))
    claims.sandboxes.put(raw("sbx", "rain", spec={"agentId": "rain"}))
    assert (len(now), len(later)) == (1, 0)
    claims.policies.put(raw("asp", "default", spec={"container": {"env": {"A": "b"}}}))
    assert (len(now), len(later)) == (1, 1)


def test_what_a_pass_writes_concerns_no_key_but_one_that_it_moves_to_or_from() -> None:
    world = World()
    made = world.sandbox("rain", status={"key": "agent:rain"})
    world.scopes()

    def written(**status: Any) -> set[str]:
        made["metadata"]["resourceVersion"] = str(next(VERSIONS))
        world.claims.sandboxes.take_in({**made, "status": status})
        return world.scopes()

    assert written(key="agent:rain", message="Made.") == set()
    assert written(key="shared") == {"shared"}
    assert written(key="agent:rain") == {"shared"}
