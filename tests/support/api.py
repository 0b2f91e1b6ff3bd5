"""The operator's own client, for tests of what stands on it."""

from collections.abc import AsyncIterator

import pytest

from sandkeeper.cluster.api import KubeApi
from sandkeeper.cluster.connection import Connection
from sandkeeper.telemetry.metrics import Metrics
from support.cluster import Cluster


@pytest.fixture
async def api(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Speak to the test cluster as the operator does."""
    # The client reads the environment when it is imported, which may have been before.
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(cluster.kubeconfig))
    connection = Connection()
    yield KubeApi(connection, metrics=Metrics())
    await connection.close()
