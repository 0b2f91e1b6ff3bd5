"""Where ``sandkeeper exec`` is tried."""

import secrets
from collections.abc import Iterator

import pytest

from cli.executing import Executing, PlayedPod
from support.cluster import Cluster


@pytest.fixture(scope="module")
def played_pod(cluster: Cluster, crds: None) -> Iterator[PlayedPod]:
    """One Pod for the tests of a module: none of them does it any harm."""
    namespace = f"t-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", namespace)
    try:
        cluster.kubectl("-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        made = PlayedPod(cluster, namespace)
        made.make()
        yield made
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def in_pod(cluster: Cluster, played_pod: PlayedPod) -> Executing:
    """The command, where the Sandbox rain is a Pod."""
    return Executing(cluster, played_pod.namespace)
