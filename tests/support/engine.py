"""A very small image for tests that make containers, and the Docker backend as those tests use it."""

# ruff: noqa: S108 - paths inside containers

import asyncio
import io
import secrets
import shutil
import tarfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import docker
import pytest

from sandkeeper.api.names import Label
from sandkeeper.api.policy import Backend
from sandkeeper.config.canonical import config_hash
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import Ceilings, DockerSettings
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.lifecycle.model import Observed
from sandkeeper.runtimes.docker import DockerRuntimes
from sandkeeper.runtimes.docker.running import RunningCommand
from sandkeeper.runtimes.docker.transport import Connect, connect_to
from sandkeeper.runtimes.protocol import Order
from support.cluster import Cluster

__all__ = [
    "Changes",
    "Sandboxing",
    "Sh",
    "a_config",
    "an_order",
    "eventually",
    "import_tiny",
    "run_in",
    "run_in_shell",
]

Sh = Callable[[Observed, str], tuple[int, str]]
"""Runs a shell command in a sandbox; see :func:`run_in_shell`."""

_PROGRAMS = (
    "sh",
    "sleep",
    "cat",
    "echo",
    "id",
    "ls",
    "env",
    "touch",
    "head",
    "tail",
    "kill",
    "dd",
    "true",
    "false",
    "yes",
    "ps",
)


@cache
def _tiny_archive() -> bytes:
    """Make a root file system of 2 MB: one static busybox under the names of a few programs."""
    busybox = shutil.which("busybox", path="/bin:/usr/bin")
    if busybox is None:
        raise RuntimeError(
            "tests that make containers need /bin/busybox, statically linked: install busybox-static"
        )
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, mode, owner in (
            ("bin", 0o755, 0),
            ("etc", 0o755, 0),
            ("tmp", 0o1777, 0),
            ("workspace", 0o755, 1000),
        ):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            directory.uid = directory.gid = (
                owner  # the workspace is the sandbox's user's, as in the images for sandboxes
            )
            archive.addfile(directory)
        program = archive.gettarinfo(Path(busybox).resolve(), "bin/busybox")
        program.mode, program.uid, program.gid = 0o755, 0, 0
        with Path(busybox).open("rb") as file:
            archive.addfile(program, file)
        for name in _PROGRAMS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return sink.getvalue()


def import_tiny(client: docker.DockerClient) -> str:
    """Give an engine the small image under a name that nobody else uses, and return that name."""
    repository = f"sandkeeper-tiny-{secrets.token_hex(4)}"
    client.api.import_image_from_data(_tiny_archive(), repository=repository, tag="test")
    return f"{repository}:test"


@pytest.fixture(scope="session")
def tiny_image(docker_client: docker.DockerClient) -> Iterator[str]:
    """Name of a small image with sh, sleep and a few more; containers of it start and go quickly."""
    image = import_tiny(docker_client)
    try:
        yield image
    finally:
        docker_client.images.remove(image, force=True)


class _As:
    """An engine's client whose commands run as somebody."""

    def __init__(self, client: docker.APIClient, user: str) -> None:
        self._client, self._user = client, user

    def exec_create(self, *arguments: Any, **named: Any) -> Any:
        return self._client.exec_create(*arguments, **{**named, "user": self._user})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def run_in(
    client: docker.DockerClient, container: str, command: Sequence[str], *, user: str = ""
) -> tuple[int, bytes]:
    """Run a command in a container, as its user unless said otherwise; return the exit code and what it says.

    Its output is in front of its errors: which of both the engine sends first is a matter of luck. Not by docker-py's
    exec_run, which may lose the beginning of what is said.
    """
    api: Any = _As(client.api, user)
    with RunningCommand(api, container, command, stdin=False) as running:
        frames = sorted(running.frames(), key=lambda frame: frame[0])
        return running.exit_code() or 0, b"".join(data for _, data in frames)


def run_in_shell(client: docker.DockerClient, container: str, command: str) -> tuple[int, str]:
    """Run a shell's command in a container, as its user; return the exit code and what it says, stripped."""
    code, said = run_in(client, container, ["/bin/sh", "-c", command])
    return code, said.decode().strip()


def a_config(image: str, **changes: Any) -> RuntimeConfig:
    """Make a configuration as the built-in level has it, but for the image and the changes."""
    config = RuntimeConfig(
        backend=Backend.DOCKER,
        image=image,
        container_prefix="sk-test-",
        workdir="/workspace",
        read_only_root=True,
        tmpfs=("/tmp", "/var/tmp", "/run"),
        network="none",
        user="1000:1000",
        cap_drop=("ALL",),
        env={"LANG": "C.UTF-8"},
        setup_command=None,
        setup_timeout_seconds=300,
        pids_limit=None,
        memory=None,
        memory_swap=None,
        milli_cpus=None,
        gpus=None,
        ulimits={},
        seccomp_profile=None,
        apparmor_profile=None,
        dns=(),
        extra_hosts=(),
        binds=(),
        init=True,
        image_fallback=False,
    )
    return replace(config, **changes)


def an_order(config: RuntimeConfig, scope: str = "agent:main") -> Order:
    """Order a runtime of that configuration."""
    key = RuntimeKey(namespace="team", namespace_uid="0000-1111", policy="default", scope=scope)
    return Order(key=key, config=config, config_hash=config_hash(config))


class Changes:
    """Remembers which keys were told to have changed, and when."""

    def __init__(self) -> None:
        self.told: list[tuple[float, RuntimeKey]] = []

    def __call__(self, key: RuntimeKey) -> None:
        self.told.append((time.monotonic(), key))

    async def of(self, key: RuntimeKey, *, since: float, within: float = 60) -> float:
        """Wait until the key is told, and return how long after ``since`` that was."""

        def times() -> list[float]:
            return [at - since for at, told in self.told if told == key and at >= since]

        await eventually(lambda: bool(times()), what=f"{key} is told", within=within)
        return times()[0]


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], *, what: str, within: float = 30, pause: float = 0.02
) -> None:
    """Wait on the event loop until something is true."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if answer if isinstance(answer, bool) else await answer:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        await asyncio.sleep(pause)


class Sandboxing:
    """Docker backends of one test, each of an installation of its own unless said otherwise."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.installation = f"test{secrets.token_hex(6)}"

    def backend(
        self,
        *,
        ceilings: Ceilings | None = None,
        url: str | None = None,
        connect: Connect | None = None,
        **settings: Any,
    ) -> DockerRuntimes:
        """Make a backend that nobody runs."""
        return DockerRuntimes(
            DockerSettings(**settings),
            ceilings or Ceilings(),
            self.installation,
            connect=connect or connect_to(url or self.url),
        )

    @asynccontextmanager
    async def running(
        self, *, listed: bool = True, **options: Any
    ) -> AsyncIterator[tuple[DockerRuntimes, Changes]]:
        """Run a backend, here once it has listed everything unless there is nothing to list."""
        backend, changes = self.backend(**options), Changes()
        task = asyncio.create_task(backend.run(changes))
        try:
            if listed:
                await eventually(lambda: backend.missing is None or task.done(), what="everything is listed")
            yield backend, changes
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            backend.close()

    def clean(self) -> None:
        """Remove the containers of this test's installation."""
        client = docker.APIClient(base_url=self.url, version="auto")
        try:
            filters = {"label": f"{Label.INSTALLATION}={self.installation}"}
            for container in client.containers(all=True, filters=filters):
                with suppress(docker.errors.NotFound):
                    client.remove_container(container["Id"], force=True, v=True)
        finally:
            client.close()


@pytest.fixture
def sandboxing(docker_client: docker.DockerClient, cluster: Cluster) -> Iterator[Sandboxing]:
    """Docker backends on the test bed's engine; what they made goes with the test."""
    made = Sandboxing(cluster.docker_host)
    try:
        yield made
    finally:
        made.clean()
