"""The images that we ship, on the test bed's engine, and containers of them as strict as sandboxes are."""

# ruff: noqa: S108 - paths inside containers

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from support.engine import run_in
from testbed import locks, shipped_images
from testbed.paths import Layout

__all__ = ["Inside", "inside", "loaded"]

_LOADING_SECONDS = 600


@contextmanager
def _shipped(engine: str, name: str) -> Iterator[str]:
    if not shipped_images.can_build():
        pytest.skip("building the images needs Linux and root")
    layout = Layout.from_environment(os.environ)
    shipped_images.ensure(layout, os.environ)
    with loaded(engine, shipped_images.archive(layout, name), name=f"sandkeeper-{name}") as image:
        yield image


@contextmanager
def loaded(engine: str, archive: Path, *, name: str) -> Iterator[str]:
    """Give an engine the image of an archive under a name that nobody else uses.

    An engine removes an image with the last of its names. So it goes with the last one who had it loaded, and one that
    has a name of somebody else's stays.
    """
    layout = Layout.from_environment(os.environ)
    mine = f"{name}-{secrets.token_hex(4)}:test"
    client = docker.DockerClient(base_url=engine, timeout=_LOADING_SECONDS)
    lock = layout.state.with_name(f"{layout.state.name}.images.lock")
    try:
        # Until it has its name, another one's removal would take it away.
        with locks.exclusive(lock):
            shipped_images.load(client, archive, mine)
        try:
            yield mine
        finally:
            with locks.exclusive(lock):
                client.images.remove(mine)
    finally:
        client.close()


@pytest.fixture(scope="session")
def base_image(docker_client: docker.DockerClient, cluster: Any) -> Iterator[str]:
    """What sandboxes run by default."""
    with _shipped(cluster.docker_host, "base") as image:
        yield image


@pytest.fixture(scope="session")
def common_image(docker_client: docker.DockerClient, cluster: Any) -> Iterator[str]:
    """The image for developing software."""
    with _shipped(cluster.docker_host, "common") as image:
        yield image


@pytest.fixture(scope="session")
def browser_image(docker_client: docker.DockerClient, cluster: Any) -> Iterator[str]:
    """The image with a browser."""
    with _shipped(cluster.docker_host, "browser") as image:
        yield image


class Inside:
    """A container of an image, seen from inside."""

    def __init__(self, client: docker.DockerClient, container: Container) -> None:
        self._client, self._container = client, container

    def try_run(self, command: str, *, user: str = "") -> tuple[int, str]:
        """Run a shell's command, as the sandbox's user unless said otherwise; its exit code, and what it says."""
        code, said = run_in(self._client, str(self._container.id), ["bash", "-c", command], user=user)
        return code, said.decode(errors="replace")

    def run(self, command: str, *, user: str = "") -> str:
        """Run a shell's command that is to succeed; what it says."""
        code, said = self.try_run(command, user=user)
        assert code == 0, f"{command}: {code}\n{said}"
        return said

    def is_running(self) -> bool:
        """Tell whether its main process is there."""
        self._container.reload()
        return self._container.status == "running"

    def logs(self) -> str:
        """What its main process says."""
        return self._container.logs().decode(errors="replace")


@contextmanager
def inside(
    client: docker.DockerClient,
    image: str,
    *,
    command: list[str] | None = None,
    env: dict[str, str] | None = None,
) -> Iterator[Inside]:
    """Run a container as sandboxes are run: nothing may be written but temporary folders and the workspace."""
    container = client.containers.create(
        image,
        command,
        init=True,
        read_only=True,
        tmpfs={"/tmp": "", "/var/tmp": "", "/run": ""},
        network_mode="none",
        user="1000:1000",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        working_dir="/workspace",
        volumes=["/workspace"],
        environment=env or {},
    )
    try:
        container.start()
        yield Inside(client, container)
    finally:
        container.remove(force=True, v=True)
