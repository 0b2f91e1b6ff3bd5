"""A process of which no watch hears anything ends; one whose watches have not begun as yet does not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sandkeeper.cluster.api import KubeApi
from sandkeeper.cluster.connection import Connection
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.reconcile.claims import Claims
from sandkeeper.reconcile.sources import Sources
from sandkeeper.telemetry.metrics import Metrics
from support.closing import hang_up

pytestmark = [pytest.mark.cluster]


@pytest.fixture
async def sources(
    api: KubeApi, crds: None, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Sources]:
    """Caches that are compared ten times a second, and that no watch tells of anything."""
    monkeypatch.setattr("sandkeeper.reconcile.sources._FEW_SECONDS", 0.1)
    monkeypatch.setattr("sandkeeper.reconcile.sources._MANY_SECONDS", 0.1)
    connection = Connection()
    made = Sources(
        api=KubeApi(connection, metrics=Metrics()),
        connection=connection,
        claims=Claims(OperatorConfig(), enqueue=lambda _: None),
        namespaces=[namespace],
        own_namespace=namespace,
    )
    await made.list_all()
    yield made
    await connection.close()
    await hang_up()


async def test_a_watch_that_has_not_begun_is_waited_for(sources: Sources) -> None:
    # Of ten thousand objects kopf tells one by one first; in that time they are compared more than once.
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await sources.keep_exact()


async def test_but_not_for_ever(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandkeeper.reconcile.sources._DEAF_SECONDS", 0.5)
    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(60):
            await sources.keep_exact()
    assert "though they can be listed" in str(raised.value.exceptions[0])
