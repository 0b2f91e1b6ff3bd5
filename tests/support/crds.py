"""The CustomResourceDefinitions, installed once into the cluster of the tests, and a client to speak with it."""

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import kubernetes.client
import kubernetes.config
import pytest

from sandkeeper.api import crd
from sandkeeper.api.names import GROUP, VERSION
from support.cluster import Cluster, OwnCluster
from support.waiting import wait_for

__all__ = [
    "CRDS",
    "api_client",
    "crds",
    "find_crds",
    "install_crds",
    "remove_crds",
    "wait_until_gone",
]

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


def install_crds(cluster: Cluster, *options: str) -> None:
    """Install both kinds, and wait until they are served."""
    cluster.kubectl("apply", *(options or ("--server-side", "--force-conflicts")), "-f", str(CRDS))
    with _client(cluster) as client:
        _wait_until_served(client)


def _wait_until_served(client: kubernetes.client.ApiClient) -> None:
    """Ask for both kinds until the API server knows them, which is a moment later than it says."""
    objects = kubernetes.client.CustomObjectsApi(client)
    give_up_at = time.monotonic() + ESTABLISHING_SECONDS
    for resource in (crd.SANDBOX, crd.POLICY):
        while True:
            try:
                objects.list_cluster_custom_object(GROUP, VERSION, resource.plural, limit=1)
            except kubernetes.client.ApiException:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.05)
            else:
                break


def find_crds(cluster: Cluster) -> list[str]:
    """Name the definitions that are there, as kubectl does."""
    listed = cluster.kubectl("get", "crd", "-o", "name").split()
    return [name for name in listed if name.endswith(f".{GROUP}")]


def remove_crds(cluster: OwnCluster) -> None:
    """Take both kinds away, and wait until they are gone."""
    if there := find_crds(cluster):
        cluster.kubectl("delete", "--ignore-not-found", "--wait=false", *there)
    wait_until_gone(cluster)


def wait_until_gone(cluster: OwnCluster) -> None:
    """Wait for both kinds to go, who are on their way out.

    An API server that finds the storage of a kind not ready as yet (``storage is (re)initializing``) may leave it at
    that until the definition changes, or for five minutes (seen with 1.34.4): so it is made to look again.
    """
    wait_for(partial(_are_gone, cluster), what="both kinds are gone", timeout=240, pause=1)


def _are_gone(cluster: OwnCluster) -> bool:
    there = find_crds(cluster)
    for name in there:
        try:
            cluster.kubectl("annotate", "--overwrite", name, f"sandkeeper.test/looked-at={time.time_ns()}")
        except subprocess.CalledProcessError:
            continue  # it went in between
    return not there


def _client(cluster: Cluster) -> kubernetes.client.ApiClient:
    made: kubernetes.client.ApiClient = kubernetes.config.new_client_from_config(  # type: ignore[no-untyped-call]
        config_file=str(cluster.kubeconfig)
    )
    return made
