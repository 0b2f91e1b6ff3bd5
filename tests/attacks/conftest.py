"""The household that the attacks share."""

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from attacks.stage import CONTAINERS, PODS, Stage
from support.cluster import Cluster, new_namespace
from support.operator import operators
from support.worlds import a_world


@pytest.fixture(scope="session", params=[CONTAINERS, PODS])
def stage(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    docker_client: docker.DockerClient,
    tmp_path_factory: pytest.TempPathFactory,
    operator_kubeconfig: Path,
) -> Iterator[Stage]:
    """One backend after the other, with a household that stays until all tests are done."""
    folder = tmp_path_factory.mktemp("attacks")
    with (
        new_namespace(cluster) as namespace,
        operators(
            cluster, docker_client, namespace=namespace, folder=folder, kubeconfig=operator_kubeconfig
        ) as start,
        a_world(
            request.param, cluster=cluster, engine=docker_client, namespace=namespace, start=start
        ) as world,
    ):
        yield Stage(world, kubeconfig=cluster.kubeconfig)
