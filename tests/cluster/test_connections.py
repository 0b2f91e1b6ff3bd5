"""Requests whose connection is taken away from under them, on the real API server."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sandkeeper.cluster.api import ApiError, KubeApi
from sandkeeper.cluster.commands import run_command
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.resources import NAMESPACES
from sandkeeper.telemetry.metrics import Metrics
from support.closing import hang_up
from support.cluster import Cluster
from support.engine import eventually

pytestmark = pytest.mark.cluster


@pytest.fixture
async def busy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    """A connection to the API server that has room for one request, and a watch that has that room."""
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(cluster.kubeconfig))
    connection = Connection(limit=1)
    watch = f"{connection.server}/api/v1/namespaces?watch=true"
    async with connection.session.get(watch):
        yield connection
    await connection.close()
    await hang_up()


async def waits(connection: Connection) -> None:
    connector = connection.session.connector
    assert connector is not None
    await eventually(lambda: bool(connector._waiters), what="the request waits for a connection")


async def test_who_waits_for_a_connection_is_told_that_it_was_closed(busy: Connection) -> None:
    """As kopf does where credentials were refused; to its task that looks as if somebody had cancelled it."""
    asked = asyncio.create_task(KubeApi(busy, metrics=Metrics()).get(NAMESPACES, name="kube-system"))
    await waits(busy)
    await busy.session.close()
    with pytest.raises(ApiError, match="its connections were closed"):
        await asked


async def test_who_waits_with_a_command_is_told_so_too(busy: Connection) -> None:
    command = run_command(
        busy, namespace="none", pod="none", container="none", command=["true"], on_output=lambda _: None
    )
    asked = asyncio.create_task(command)
    await waits(busy)
    await busy.session.close()
    with pytest.raises(ApiError, match="the connection to the command was lost: its connections were closed"):
        await asked


async def test_who_is_cancelled_is_cancelled(busy: Connection) -> None:
    asked = asyncio.create_task(KubeApi(busy, metrics=Metrics()).get(NAMESPACES, name="kube-system"))
    await waits(busy)
    asked.cancel()
    await busy.session.close()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_a_watch_is_as_old_as_what_it_heard_last(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(cluster.kubeconfig))
    connection = Connection()
    assert connection.watch_ages() == {}
    await KubeApi(connection, metrics=Metrics()).get(NAMESPACES, name="kube-system")
    assert connection.watch_ages() == {}, "it is no watch"
    async with connection.session.get(f"{connection.server}/api/v1/namespaces?watch=true") as response:
        await asyncio.sleep(0.5)
        assert connection.watch_ages()["namespaces"] >= 0.5
        async for _ in response.content.iter_chunked(1 << 16):
            break
        assert connection.watch_ages()["namespaces"] < 0.5
    refused = f"{connection.server}/api/v1/pods?watch=true&resourceVersion=nonsense"
    async with connection.session.get(refused) as response:
        assert not response.ok
    assert connection.watch_ages().keys() == {"namespaces"}
    await connection.close()
    await hang_up()
