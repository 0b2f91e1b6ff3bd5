"""A removal is announced on condition that nothing was written since it was decided, however late the news came."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandkeeper.api.names import Annotation
from sandkeeper.api.policy import Backend
from sandkeeper.cluster.api import Conflict, KubeApi
from sandkeeper.cluster.events import EventPoster
from sandkeeper.cluster.leadership import AlwaysLeader
from sandkeeper.cluster.resources import NAMESPACES, POLICIES, SANDBOXES
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import OperatorConfig, RemovalRate
from sandkeeper.lifecycle import Observed, Removal, RuntimeState
from sandkeeper.reconcile.belonging import Belonging
from sandkeeper.reconcile.claims import Claims
from sandkeeper.reconcile.counting import Counting
from sandkeeper.reconcile.deadlines import Deadlines
from sandkeeper.reconcile.effects import Effects
from sandkeeper.reconcile.finalizers import Finalizers
from sandkeeper.reconcile.keeper import Keeper
from sandkeeper.reconcile.passes import Reconciler
from sandkeeper.reconcile.queue import KeyedQueue
from sandkeeper.reconcile.removals import RemovalBudget
from sandkeeper.reconcile.rollouts import Rollouts
from sandkeeper.telemetry.metrics import Metrics

pytestmark = [pytest.mark.cluster]


def now() -> datetime:
    return datetime.now(UTC)


class SlowEngine:
    """An engine that takes so long to answer that a touch arrives meanwhile: what no real one does on demand."""

    backend = Backend.DOCKER
    missing = None
    is_certain = True

    def __init__(self, api: KubeApi, claims: Claims, namespace: str) -> None:
        self._api, self._claims, self._namespace = api, claims, namespace
        self.touching = False
        self.removed: list[str] = []

    def knows(self, key: RuntimeKey) -> bool:
        return not self.removed

    async def observe(self, key: RuntimeKey, *, node: str | None, name: str | None) -> Observed | None:
        if self.removed:
            return None
        if self.touching:
            self.touching = False
            touched = {"metadata": {"annotations": {Annotation.LAST_USED: now().isoformat()}}}
            raw = await self._api.patch(SANDBOXES, touched, name="rain", namespace=self._namespace)
            self._claims.sandboxes.put(raw)
        return Observed(
            backend="docker",
            id="abc",
            name="rain",
            node="ENGINE",
            state=RuntimeState.RUNNING,
            created_at=now() - timedelta(hours=1),
            config_hash="v1-other",
            image="image",
            has_setup=False,
        )

    async def uphold(self, key: RuntimeKey, **_: Any) -> None:
        return None

    async def preflight(self, order: Any) -> None:
        return None

    async def remove(self, runtime_id: str, **_: Any) -> None:
        self.removed.append(runtime_id)


async def test_a_touch_that_arrives_while_the_engine_answers_cancels_the_removal(
    api: KubeApi, crds: None, namespace: str
) -> None:
    queue: KeyedQueue[RuntimeKey] = KeyedQueue()
    claims = Claims(OperatorConfig(), enqueue=queue.add)
    claims.namespaces.put(await api.get(NAMESPACES, name=namespace))
    head = {"apiVersion": "sandkeeper.dev/v1alpha1", "metadata": {"namespace": namespace}}
    windows = {"hotWindowSeconds": 1, "prune": {"idleSeconds": 1}}
    policy = {**head, "kind": "AgentSandboxPolicy", "metadata": {"name": "default"}, "spec": windows}
    claims.policies.put(await api.create(POLICIES, policy, namespace=namespace))
    sandbox = {**head, "kind": "Sandbox", "metadata": {"name": "rain"}, "spec": {"agentId": "rain"}}
    claims.sandboxes.put(await api.create(SANDBOXES, sandbox, namespace=namespace))
    (key,) = {key for key in claims.keys() if key.scope == "agent:rain"}  # noqa: SIM118 - not a mapping
    engine = SlowEngine(api, claims, namespace)
    runtimes: Any = {Backend.DOCKER: engine}
    keeper = Keeper(api=api, claims=claims, events=EventPoster(api, metrics=Metrics()), lead=AlwaysLeader())
    clock_ahead = timedelta(0)
    budgets: dict[Removal, RemovalBudget[RuntimeKey]] = {
        removal: RemovalBudget(RemovalRate()) for removal in (Removal.REPLACE, Removal.PRUNE)
    }
    reconciler = Reconciler(
        api=api,
        claims=claims,
        belonging=Belonging(claims, runtimes),
        effects=Effects(runtimes, Metrics()),
        counting=Counting(Metrics()),
        keeper=keeper,
        finalizers=Finalizers(keeper=keeper, claims=claims, metrics=Metrics()),
        lead=AlwaysLeader(),
        budgets=budgets,
        rollouts=Rollouts(
            claims,
            rate=budgets[Removal.REPLACE],
            enqueue=queue.add,
            enqueue_later=queue.add_later,
            now=now,
            epoch=1,
        ),
        removals_forbidden=False,
        queue=queue,
        deadlines=Deadlines(now=now, on_due=queue.add),
        now=lambda: now() + clock_ahead,
        epoch=1,
    )
    await reconciler.look(key)  # nobody recorded it yet: it is taken as used now
    assert engine.removed == []
    clock_ahead = timedelta(seconds=20)  # cold by now
    engine.touching = True
    with pytest.raises(Conflict):
        await reconciler.look(key)
    assert engine.removed == []
    clock_ahead = timedelta(seconds=40)  # nobody touches it any more
    await reconciler.look(key)
    assert engine.removed == ["abc"], "it was the touch that kept it"
