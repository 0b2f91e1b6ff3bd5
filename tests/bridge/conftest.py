"""Where the bridge is tried."""

import os
from collections.abc import Iterator

import docker
import pytest

from bridge import yards
from sandkeeper.cluster.api import KubeApi
from support.cluster import Cluster


@pytest.fixture(scope="session")
def _namespace() -> Iterator[yards.Yard]:
    if os.geteuid() != 0:
        pytest.skip("a name space with mounts of its own needs root")
    with yards.namespace() as made:
        yield made


@pytest.fixture(scope="session")
def _container(docker_client: docker.DockerClient, cluster: Cluster) -> Iterator[yards.Yard]:
    with yards.container(docker_client, cluster.docker_host) as made:
        yield made


@pytest.fixture(scope="session")
def made_pod(cluster: Cluster) -> Iterator[yards.Pod]:
    """The Pod that is one of the places."""
    with yards.pod(cluster) as made:
        yield made


@pytest.fixture
async def _pod(made_pod: yards.Pod, api: KubeApi) -> yards.Yard:
    return made_pod.yard(api)


REMOTE = [
    pytest.param("container", marks=pytest.mark.engine),
    pytest.param("pod", marks=pytest.mark.cluster),
]


@pytest.fixture(params=["namespace", *REMOTE])
def _any(request: pytest.FixtureRequest) -> yards.Yard:
    found: yards.Yard = request.getfixturevalue(f"_{request.param}")
    return found


@pytest.fixture(params=REMOTE)
def _remote(request: pytest.FixtureRequest) -> yards.Yard:
    found: yards.Yard = request.getfixturevalue(f"_{request.param}")
    return found


@pytest.fixture
async def yard(_any: yards.Yard) -> yards.Yard:
    """One of the places, with nothing in it."""
    await _any.clean()
    return _any


@pytest.fixture
async def remote(_remote: yards.Yard) -> yards.Yard:
    """One of the places that an engine or a cluster lies in front of."""
    await _remote.clean()
    return _remote


@pytest.fixture
async def namespace_yard(_namespace: yards.Yard) -> yards.Yard:
    """The place on this machine, for what is the same in all of them."""
    await _namespace.clean()
    return _namespace
