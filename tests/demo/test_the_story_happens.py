"""The whole demo, up for both backends and down, as ``make demo`` and ``make demo-down`` run it."""

import os
import subprocess
import sys
from collections.abc import Iterator

import docker
import pytest

from demo import image
from demo.places import SOURCE, Places
from demo.story import CHAPTERS
from sandkeeper.api.names import Label
from support.cluster import Cluster
from testbed import images

pytestmark = [pytest.mark.cluster, pytest.mark.engine, pytest.mark.timeout(1200)]


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = ("deploy/testbed", "deploy/demo", "controller")
    return subprocess.run(
        [sys.executable, "-m", "demo", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(SOURCE / path) for path in paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture
def places(cluster: Cluster, crds: None) -> Iterator[Places]:
    found = Places.from_environment(os.environ)
    if found.made.exists():
        pytest.skip("somebody plays with the demo on this test bed")
    yield found
    demo("down")


def test_it_happens_on_either_backend_and_leaves_nothing(
    places: Places, cluster: Cluster, docker_client: docker.DockerClient
) -> None:
    # One after the other on the same stage: what one left, the next has to clear away.
    for backend in ("docker", "pod"):
        up = demo("up", "--backend", backend)
        assert up.returncode == 0, up.stdout + up.stderr
        for title, _ in CHAPTERS:
            assert f"== {title}" in up.stdout

    down = demo("down")
    assert down.returncode == 0, down.stdout + down.stderr
    assert not cluster.kubectl("get", "namespace", "household", "--ignore-not-found")
    assert not docker_client.containers.list(all=True, filters={"label": f"{Label.NAMESPACE}=household"})
    assert not docker_client.images.list(filters={"label": "sandkeeper.dev/demo"})
    assert not images.node_has(images.full_name(image.TAG), places.layout)
    assert not places.state.exists()
    assert not places.household.exists()
