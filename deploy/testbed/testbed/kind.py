"""kind as a provider, through pytest-kind."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from testbed import progress, providers

if TYPE_CHECKING:
    from testbed.paths import Layout


class _Cluster(Protocol):
    """What we use of pytest-kind, which ships no types."""

    def create(self) -> None: ...

    def delete(self) -> None: ...

    def load_docker_image(self, docker_image: str) -> None: ...


def _cluster(layout: Layout, kind: str) -> _Cluster:
    # It pulls in a client library and pytest: only who uses kind is to wait for that.
    from pytest_kind import KindCluster  # noqa: PLC0415

    made: _Cluster = KindCluster(
        f"sandkeeper-{layout.identity}",
        kubeconfig=layout.kubeconfig,
        image=providers.NODE_IMAGE,
        kind_path=Path(kind),
    )
    return made


def up(layout: Layout, kind: str) -> None:
    """Create the cluster, unless it is there."""
    layout.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    # pytest-kind makes its folder where it stands.
    with progress.step("Creating a kind cluster"), chdir(layout.state):
        _cluster(layout, kind).create()


def down(layout: Layout, kind: str) -> None:
    """Delete the cluster."""
    with progress.step("Deleting the kind cluster"), chdir(layout.state):
        _cluster(layout, kind).delete()


def load(layout: Layout, kind: str, image: str) -> None:
    """Copy an image from the engine to the nodes."""
    with chdir(layout.state):
        _cluster(layout, kind).load_docker_image(image)
