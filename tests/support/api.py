"""The operator's own client, for tests of what stands on it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sandkeeper.cluster.api import KubeApi
from sandkeeper.cluster.connection import Connection
from sandkeeper.telemetry.metrics import Metrics
from support.closing import hang_up
from support.cluster import Cluster


@pytest.fixture
async def api(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Speak to the test cluster as the operator does, and with the administrator's rights."""
    async with api_at(cluster.kubeconfig, monkeypatch) as speaking:
        yield speaking


@pytest.fixture
async def operator_api(operator_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Speak to the test cluster with the operator's rights: for what takes an operator too long in a test."""
    async with api_at(operator_kubeconfig, monkeypatch) as speaking:
        yield speaking


@asynccontextmanager
async def api_at(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Speak to whatever a kubeconfig leads to, be it the test's own server, as the operator does."""
    # The client reads the environment when it is imported, which may have been before.
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    connection = Connection()
    try:
        yield KubeApi(connection, metrics=Metrics())
    finally:
        await connection.close()
        await hang_up()
