"""Who a Pod belongs to, on the real API server."""

from datetime import UTC, datetime, timedelta

import pytest

from runtimes.pod_orders import INSTALLATION, order
from sandkeeper.cluster.api import KubeApi, NotFound
from sandkeeper.cluster.resources import PODS
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import Ceilings, PodSettings
from sandkeeper.config.pod import PodShape
from sandkeeper.lifecycle.model import Observed, RuntimeState
from sandkeeper.runtimes.pod.backend import PodRuntimes
from sandkeeper.runtimes.protocol import Owner
from support.engine import eventually

pytestmark = pytest.mark.cluster


async def test_who_finds_that_the_pod_is_gone_looks_again(api: KubeApi, namespace: str) -> None:
    """The watch may be cut, and where the cache knows it already, nobody is ever told."""
    key = RuntimeKey(namespace, "uid", "default", "agent:rain")
    rain, evening = Owner(name="rain", uid="0000-rain"), Owner(name="evening", uid="0000-evening")
    pods = PodRuntimes(
        PodSettings(),
        Ceilings(),
        INSTALLATION,
        api=api,
        connection=api._connection,
        is_live=lambda _namespace, _owner: True,
    )
    wanted = order(key, owners=(rain,), pod=PodShape(node_selector={"nowhere": "at-all"}))
    made = await pods.create(wanted)

    async def gone() -> bool:
        try:
            await api.delete(PODS, name=made.name, namespace=namespace, uid=made.id)
            await api.get(PODS, name=made.name, namespace=namespace)
        except NotFound:
            return True
        return False

    await eventually(gone, what="somebody removed it")
    assert pods.knows(key)
    with pytest.raises(NotFound):
        await pods.uphold(key, runtime_id=made.id, owners=(rain, evening), config=wanted.config, use="now")
    assert not pods.knows(key)


async def test_one_that_should_have_gone_long_ago_is_asked_for(api: KubeApi, namespace: str) -> None:
    """That it has gone may have been told while nobody listened."""
    key = RuntimeKey(namespace, "uid", "default", "agent:rain")
    rain = Owner(name="rain", uid="0000-rain")
    pods = PodRuntimes(
        PodSettings(),
        Ceilings(),
        INSTALLATION,
        api=api,
        connection=api._connection,
        is_live=lambda _namespace, _owner: True,
    )
    wanted = order(key, owners=(rain,), pod=PodShape(node_selector={"nowhere": "at-all"}))
    raw = await api.create(PODS, pods._body(wanted), namespace=namespace)
    name = raw["metadata"]["name"]
    await api.delete(PODS, name=name, namespace=namespace, uid=raw["metadata"]["uid"])
    for ends, seen in (
        (datetime.now(UTC) + timedelta(seconds=60), RuntimeState.TERMINATING),
        (datetime.now(UTC) - timedelta(seconds=60), None),
    ):
        version = str(int(raw["metadata"]["resourceVersion"]) + 1)
        raw["metadata"] |= {"deletionTimestamp": f"{ends:%Y-%m-%dT%H:%M:%SZ}", "resourceVersion": version}
        pods.watched[2][1].put(raw)
        observed = await pods.observe(key, node=None, name=name)
        assert (observed.state if isinstance(observed, Observed) else observed) == seen
