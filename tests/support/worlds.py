"""The same sandbox as a container and as a Pod: one test asks for it, looks into it, and looks at its host.

Both run on this very machine, so a directory of it is the container's host's as well as the Pod's node's.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from sandkeeper.api.names import Label
from sandkeeper.api.policy import Backend
from support.cluster import Cluster
from support.engine import run_in
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.pods import POD_IMAGE
from support.waiting import wait_for
from testbed.images import BASE
from testbed.providers import Provider

__all__ = ["BACKENDS", "Done", "World", "a_world"]

USER = 1000
"""Whom the directories of agents belong to, and as whom their sandboxes run."""


@dataclass(frozen=True)
class Done:
    """How a command in a sandbox ended, and all that it printed."""

    code: int
    output: str


class World:
    """One backend, one namespace, and one directory of the host below which everything may be bound."""

    def __init__(
        self,
        backend: Backend,
        *,
        cluster: Cluster,
        engine: docker.DockerClient,
        namespace: str,
        root: Path,
        start: OperatorFactory,
    ) -> None:
        self.backend = backend
        self.root = root
        self.sandboxes = Sandboxes(cluster, namespace, BASE if backend is Backend.DOCKER else POD_IMAGE)
        self._engine = engine
        self._start = start

    def operate(self, *, ceilings: dict[str, Any] | None = None, **config: Any) -> OperatorProcess:
        """Start an operator whose sandboxes are of this backend, and wait until it is ready."""
        allowed = {"bindRoots": [str(self.root)], **(ceilings or {})}
        serves = {"backends": ["docker", "pod"], "defaultBackend": self.backend.value}
        return self._start(ceilings=allowed, **serves, **config).wait_ready()

    def directory(self, name: str, *, owner: int = USER, mode: int = 0o700) -> Path:
        """Make a directory of somebody's, as an administrator would."""
        path = self.root / name
        path.mkdir()
        os.chown(path, owner, owner)
        path.chmod(mode)
        return path

    def file(self, path: Path, text: str, *, owner: int = USER) -> Path:
        """Write a file of somebody's."""
        path.write_text(text, encoding="utf-8")
        os.chown(path, owner, owner)
        return path

    def run(self, name: str, *command: str) -> Done:
        """Run a command in a sandbox that is ready, as a user would with the engine's or the cluster's own tools."""
        runtime = self.sandboxes.status(name)["runtime"]
        if self.backend is Backend.DOCKER:
            code, output = run_in(self._engine, runtime["id"], command)
            return Done(code, output.decode(errors="replace"))
        try:
            said = self.sandboxes.kubectl("exec", runtime["name"], "--", *command)
        except subprocess.CalledProcessError as error:
            return Done(error.returncode, f"{error.stdout}{error.stderr}")
        return Done(0, said)

    def sh(self, name: str, script: str) -> Done:
        """Run a script in a sandbox that is ready."""
        return self.run(name, "sh", "-c", script)

    def python(self, name: str, program: str, *arguments: str) -> Done:
        """Run a Python program in a sandbox that is ready."""
        return self.run(name, "python3", "-I", "-c", program, *arguments)

    def containers(self, name: str) -> list[Any]:
        """The containers that there are for a Sandbox, running or not."""
        key = self.sandboxes.status(name).get("key", "")
        labels = [f"{Label.NAMESPACE}={self.sandboxes.namespace}", f"{Label.KEY}={key}"]
        found: list[Any] = self._engine.containers.list(
            all=True, filters={"label": labels}, ignore_removed=True
        )
        return found

    def message(self, name: str) -> str:
        """What the Sandbox says of itself."""
        return str(self.sandboxes.status(name).get("message", ""))

    def replaced(self, name: str, before: str) -> dict[str, Any]:
        """Wait until another runtime than the one with this id is ready, and return the status."""

        def is_another() -> bool:
            status = self.sandboxes.status(name)
            return (status.get("runtime") or {}).get("id") not in {None, before}

        wait_for(is_another, what=f"{name} has another runtime", tell=lambda: self.message(name))
        return self.sandboxes.wait(name, "Running")


BACKENDS = [
    pytest.param(Backend.DOCKER, id="docker", marks=pytest.mark.engine),
    pytest.param(Backend.POD, id="pod"),
]


@pytest.fixture(params=BACKENDS)
def world(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    namespace: str,
    docker_client: docker.DockerClient,
    operator_factory: OperatorFactory,
) -> Iterator[World]:
    """One backend after the other, with a directory of this machine that goes with the test."""
    with a_world(
        request.param, cluster=cluster, engine=docker_client, namespace=namespace, start=operator_factory
    ) as made:
        yield made


@contextmanager
def a_world(
    backend: Backend,
    *,
    cluster: Cluster,
    engine: docker.DockerClient,
    namespace: str,
    start: OperatorFactory,
) -> Iterator[World]:
    """Make a world, and take it down before its operators go."""
    if os.geteuid() != 0 or cluster.known.provider is not Provider.LOCAL:
        pytest.skip("it needs directories of the host and the node, which have to be this machine")
    with tempfile.TemporaryDirectory(prefix="sk-world-") as root:
        Path(root).chmod(0o755)
        made = World(
            backend, cluster=cluster, engine=engine, namespace=namespace, root=Path(root), start=start
        )
        try:
            yield made
        finally:
            # Before the directories go, whatever has them mounted. The operator may have ended: containers go with it.
            with suppress(subprocess.CalledProcessError):
                made.sandboxes.kubectl("delete", "sandboxes", "--all", "--timeout=30s")
            made.sandboxes.kubectl("delete", "pods", "--all", "--timeout=50s")
