"""A write that may not be made any more does not go out, however long it had to wait."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sandkeeper.cluster.api import KubeApi
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.leadership import NotLeader
from sandkeeper.cluster.resources import EVENTS, LEASES, PODS
from sandkeeper.telemetry.metrics import Metrics
from support.proxy import ApiProxy
from support.trouble import PASS, Fate

pytestmark = [pytest.mark.cluster]


@pytest.fixture
def slow_reads(api_proxy: ApiProxy, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """A connection by which one thing is done at a time, and reading takes a second."""
    location = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(location, str(api_proxy.kubeconfig))
    return Connection(limit=1)


def pod(name: str) -> dict[str, object]:
    container = {"name": "main", "image": "nothing.invalid/nothing"}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def test_who_lost_the_lead_while_it_waited_for_a_connection_writes_nothing(
    api_proxy: ApiProxy, namespace: str, slow_reads: Connection
) -> None:
    api = KubeApi(slow_reads, metrics=Metrics())
    leads = True

    def check(where: str) -> None:
        assert where == namespace
        if not leads:
            raise NotLeader("no more")

    api.may_write = check
    try:
        with api_proxy.judged_by(lambda asked: PASS if asked.writes else Fate(delay=1)):
            reading = asyncio.create_task(api.get(PODS, name="none", namespace=namespace))
            await asyncio.sleep(0.2)
            writing = asyncio.create_task(api.create(PODS, pod("late"), namespace=namespace))
            await asyncio.sleep(0.2)
            assert list(api.writing) == [namespace], "whoever gives the namespace up waits for it"
            leads = False
            with pytest.raises(NotLeader, match="no more"):
                await writing
            await asyncio.gather(reading, return_exceptions=True)
        assert api_proxy.count(verb="create") == 0
        assert list(api.writing) == []
        leads = True
        made = await api.create(PODS, pod("in-time"), namespace=namespace)
        assert made["metadata"]["name"] == "in-time"
    finally:
        await slow_reads.close()


async def test_every_kind_of_write_is_guarded_but_for_who_leads_and_what_only_tells(
    api: KubeApi, namespace: str
) -> None:
    made = await api.create(PODS, pod("one"), namespace=namespace)

    def refuse(_where: str) -> None:
        raise NotLeader("no")

    api.may_write = refuse
    found = {"name": "one", "namespace": namespace}
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: api.create(PODS, pod("two"), namespace=namespace),
        lambda: api.create(PODS, pod("two"), namespace=namespace, dry_run=True),
        lambda: api.replace(PODS, made, **found),
        lambda: api.patch(PODS, {"metadata": {"labels": {"a": "b"}}}, **found),
        lambda: api.delete(PODS, uid=made["metadata"]["uid"], **found),
    ]
    for write in writes:
        with pytest.raises(NotLeader):
            await write()
    now = await api.get(PODS, **found)
    assert "labels" not in now["metadata"]
    assert "deletionTimestamp" not in now["metadata"]
    await api.create(LEASES, {"metadata": {"name": "one"}, "spec": {}}, namespace=namespace)
    involved = {"kind": "Pod", "namespace": namespace, "name": "one"}
    await api.create(EVENTS, {"metadata": {"name": "one"}, "involvedObject": involved}, namespace=namespace)
