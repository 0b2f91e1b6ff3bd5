"""The CustomResourceDefinitions, installed once into the cluster of the tests, and a client to speak with it."""

import time
from collections.abc import Iterator
from pathlib import Path

import kubernetes.client
import kubernetes.config
import pytest

from sandkeeper.api import crd
from sandkeeper.api.names import GROUP, VERSION
from support.cluster import Cluster

__all__ = ["CRDS", "api_client", "crds", "install_crds", "wait_until_served"]

CRDS = Path(__file__).resolve().parents[2] / "crds"

ESTABLISHING_SECONDS = 30


@pytest.fixture(scope="session")
def api_client(cluster: Cluster) -> Iterator[kubernetes.client.ApiClient]:
    """A client of the official library, for the test cluster."""
    with _client(cluster) as client:
        yield client


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    """Both kinds are there and served. They are left there: other test runs may be using them."""
    install_crds(cluster)


def install_crds(cluster: Cluster) -> None:
    """Install both kinds, and wait until they are served."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    with _client(cluster) as client:
        wait_until_served(client, group=GROUP)


def wait_until_served(api_client: kubernetes.client.ApiClient, *, group: str) -> None:
    """Ask for both kinds until the API server knows them, which is a moment later than it says."""
    objects = kubernetes.client.CustomObjectsApi(api_client)
    give_up_at = time.monotonic() + ESTABLISHING_SECONDS
    for resource in (crd.SANDBOX, crd.POLICY):
        while True:
            try:
                objects.list_cluster_custom_object(group, VERSION, resource.plural, limit=1)
            except kubernetes.client.ApiException:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.05)
            else:
                break


def _client(cluster: Cluster) -> kubernetes.client.ApiClient:
    made: kubernetes.client.ApiClient = kubernetes.config.new_client_from_config(  # type: ignore[no-untyped-call]
        config_file=str(cluster.kubeconfig)
    )
    return made
