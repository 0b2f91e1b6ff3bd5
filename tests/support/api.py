"""The operator's own client, for tests of what stands on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandkeeper.cluster.api import KubeApi
from sandkeeper.cluster.connection import Connection
from sandkeeper.telemetry.metrics import Metrics
from support.cluster import Cluster


@pytest.fixture
async def api(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Speak to the test cluster as the operator does, and with the administrator's rights."""
    async with api_of(cluster, monkeypatch) as speaking:
        yield speaking


@pytest.fixture
async def operator_api(
    cluster: Cluster, operator_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubeApi]:
    """Speak to the test cluster with the operator's rights: for what takes an operator too long in a test."""
    async with api_of(replace(cluster, kubeconfig=operator_kubeconfig), monkeypatch) as speaking:
        yield speaking


@asynccontextmanager
async def api_of(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Speak to any cluster as the operator does."""
    async with api_at(cluster.kubeconfig, monkeypatch) as speaking:
        yield speaking
    await all_is_closed()


@asynccontextmanager
async def api_at(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Speak to whatever a kubeconfig leads to, be it the test's own server, as the operator does."""
    # The client reads the environment when it is imported, which may have been before.
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    connection = Connection()
    yield KubeApi(connection, metrics=Metrics())
    await connection.close()


async def all_is_closed() -> None:
    """Wait until aiohttp has let go of its TLS connections, which it does in the background, and needs the loop for."""
    loop: Any = asyncio.get_running_loop()
    for _ in range(100):
        if len(loop._selector.get_map()) <= 1:  # the loop's own way to wake itself
            return
        await asyncio.sleep(0.05)
