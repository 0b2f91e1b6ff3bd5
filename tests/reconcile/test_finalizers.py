"""A deletion waits for its container; for a dead engine five minutes at most, by a clock that can be trusted."""

from datetime import timedelta

import pytest

from sandkeeper.api.names import FINALIZER
from sandkeeper.cluster.api import KubeApi, NotFound
from sandkeeper.cluster.events import EventPoster
from sandkeeper.cluster.leadership import AlwaysLeader
from sandkeeper.cluster.resources import NAMESPACES, SANDBOXES
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.reconcile.claims import Claims
from sandkeeper.reconcile.finalizers import Finalizers
from sandkeeper.reconcile.keeper import Keeper
from sandkeeper.telemetry.metrics import Metrics

pytestmark = [pytest.mark.cluster]


async def test_a_deletion_waits_for_a_silent_engine_and_then_no_longer(
    api: KubeApi, crds: None, namespace: str
) -> None:
    claims = Claims(OperatorConfig(), enqueue=lambda _: None)
    claims.namespaces.put(await api.get(NAMESPACES, name=namespace))
    metadata = {"name": "rain", "finalizers": [FINALIZER]}
    body = {"apiVersion": "sandkeeper.dev/v1alpha1", "kind": "Sandbox", "metadata": metadata}
    made = await api.create(SANDBOXES, {**body, "spec": {"agentId": "rain"}}, namespace=namespace)
    await api.delete(SANDBOXES, name="rain", namespace=namespace, uid=made["metadata"]["uid"])
    metrics = Metrics()
    keeper = Keeper(api=api, claims=claims, events=EventPoster(api, metrics=Metrics()), lead=AlwaysLeader())
    finalizers = Finalizers(keeper=keeper, claims=claims, metrics=metrics)

    async def let_go(minutes: int, *, trusted: bool = True) -> bool:
        sandbox = claims.sandboxes.put(await api.get(SANDBOXES, name="rain", namespace=namespace))
        assert sandbox.deleting_since is not None
        now = sandbox.deleting_since + timedelta(minutes=minutes)
        claim = claims.resolve(sandbox)
        again = await finalizers.let_go((claim,), nothing_left=False, now=now, clock_trusted=trusted)
        return again is None

    assert not await let_go(4)
    status = (await api.get(SANDBOXES, name="rain", namespace=namespace))["status"]
    assert status["conditions"][0]["reason"] == "Terminating"
    assert not await let_go(6, trusted=False)
    assert await let_go(6)
    with pytest.raises(NotFound):
        await api.get(SANDBOXES, name="rain", namespace=namespace)
    # Its answer has the version that it had before. Who went by that would try to let it go once more.
    assert claims.sandboxes.get((namespace, "rain")) is None
    assert metrics.registry.get_sample_value("sandkeeper_finalizers_released_unproven_total") == 1
