"""Helm as the tests use it: the chart rendered, and installed for real with the operator's own image."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from support.cluster import Cluster
from support.images import loaded
from testbed import helm, operator_image, shipped_images
from testbed.images import full_name
from testbed.paths import Layout

__all__ = ["CHART", "Helm", "Refused", "documents"]

CHART = Path(__file__).resolve().parents[2] / "charts/sandkeeper"

Object = dict[str, Any]


class Refused(Exception):  # noqa: N818 - an answer, often the one that was asked for
    """Helm said no; the text is what it said."""


@dataclass(frozen=True)
class Helm:
    """The program, and the cluster that it speaks to, if any."""

    program: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, seconds: float = 180) -> str:
        """Run it and return what it prints; :class:`Refused` with what it complains of."""
        done = subprocess.run(
            [self.program, *arguments],
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig or os.devnull)},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def template(
        self, *arguments: str, chart: Path = CHART, release: str = "sk", namespace: str = "ns", **values: Any
    ) -> list[Object]:
        """Render the chart with values, and return its objects, hooks among them."""
        set_values = [
            part for name, value in values.items() for part in ("--set-json", f"{name}={json.dumps(value)}")
        ]
        return documents(
            self.run("template", release, str(chart), "--namespace", namespace, *set_values, *arguments)
        )


def documents(text: str) -> list[Object]:
    """Read manifests."""
    # The CRDs are long: by the library in C.
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


@pytest.fixture(scope="session")
def helm_program() -> Path:
    """The program, built if it is not."""
    return helm.ensure(Layout.from_environment(os.environ))


@pytest.fixture(scope="session")
def renderer(helm_program: Path) -> Helm:
    """Helm without a cluster."""
    return Helm(helm_program)


@pytest.fixture(scope="session")
def operator_image_archive() -> Path:
    """The archive of the operator's image, as the sources are now."""
    if not shipped_images.can_build():
        pytest.skip("building the image needs Linux and root")
    return operator_image.ensure(Layout.from_environment(os.environ), os.environ)


@pytest.fixture(scope="session")
def operator_on_engine(
    cluster: Cluster, operator_image_archive: Path, docker_client: docker.DockerClient
) -> Iterator[str]:
    """The operator's image on the engine, by a name of our own."""
    with loaded(cluster.docker_host, operator_image_archive, name="sandkeeper-operator") as image:
        yield image


@pytest.fixture(scope="session")
def operator_on_node(cluster: Cluster, operator_on_engine: str) -> Iterator[str]:
    """The operator's image where Pods run: its full name."""
    with ExitStack() as stack:
        stack.callback(cluster.unload_image, operator_on_engine)
        cluster.load_image(operator_on_engine)
        yield full_name(operator_on_engine)
