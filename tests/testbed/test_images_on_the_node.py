from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import docker
import pytest

from support.waiting import wait_for
from testbed import images

if TYPE_CHECKING:
    from support.cluster import Cluster


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("a:b", "docker.io/library/a:b"),
        ("a/b:c", "docker.io/a/b:c"),
        ("a.b/c:d", "a.b/c:d"),
        ("localhost/a:b", "localhost/a:b"),
        ("localhost:5000/a:b", "localhost:5000/a:b"),
    ],
)
def test_a_short_name_becomes_the_one_that_pods_use(image: str, expected: str) -> None:
    assert images.full_name(image) == expected


@pytest.mark.cluster
def test_a_pod_runs_the_small_image(cluster: Cluster, namespace: str, tiny_pod_image: str) -> None:
    pod = ("-n", namespace, "run", "tiny", f"--image={tiny_pod_image}", "--image-pull-policy=Never")
    cluster.kubectl(*pod, "--restart=Never", "--command", "--", "sh", "-c", "echo here; exec sleep 1000")
    cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/tiny", "--timeout=60s")
    assert cluster.kubectl("-n", namespace, "logs", "tiny") == "here\n"


@pytest.mark.cluster
def test_an_image_goes_to_the_node_and_away_again(
    cluster: Cluster, docker_client: docker.DockerClient, tiny_image: str
) -> None:
    name = f"sandkeeper-twice-{secrets.token_hex(4)}:test"
    # With a label of its own, so that it is an image that nobody else has.
    container = docker_client.containers.create(tiny_image, ["sh"], labels={"mine": name})
    try:
        image_id = str(container.commit(*name.split(":")).id)
    finally:
        container.remove()
    names = [f"docker.io/library/{name}", image_id]
    try:
        cluster.load_image(name)
        wait_for(
            lambda: all(images.node_has(each, cluster.layout) for each in names), what="both names are there"
        )
        cluster.unload_image(name)
        assert not any(images.node_has(each, cluster.layout) for each in names)
        # Once more does no harm.
        cluster.unload_image(name)
    finally:
        docker_client.images.remove(name)
