"""Fixtures over the test bed: a real API server and a real Docker engine.

What is up already is used and left up. Otherwise the first that asks brings it up, and the last one
takes it down; with pytest-xdist these may be different processes, so users are counted in a file.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import docker
import pytest

from testbed import bed, images, locks, processes
from testbed.engine import Engine, EngineOptions
from testbed.fake_nodes import fake_nodes
from testbed.paths import MODULES, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from testbed.fake_nodes import FakeNodes

FINALIZER = "sandkeeper.dev/finalizer"
GROUP = "sandkeeper.dev"

_OWN_PREFIX = "sk-own-"
_OWNER = "owner.json"
"""Below the state folder of a cluster that is one process's own: that process."""

HARDENED_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "hardened"},
    "spec": {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "shareProcessNamespace": True,
        "securityContext": {
            "runAsUser": 1000,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "main",
                "image": "docker.io/library/debian:bookworm-slim",
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", "echo here; exec sleep 1000"],
                "resources": {"limits": {"memory": "64Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            },
        ],
    },
}
"""A Pod as strict as they come, from the image that every node of the test bed has."""


@dataclass(frozen=True)
class Cluster:
    """What tests need to know of the cluster."""

    kubeconfig: Path
    docker_host: str
    server: str
    program: str
    """The kubectl that fits this cluster."""
    layout: Layout

    def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = 60.0) -> str:
        """Run kubectl and give its output; CalledProcessError, with the reason in its notes."""
        try:
            return subprocess.run(
                [self.program, "--kubeconfig", str(self.kubeconfig), *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                check=True,
                timeout=seconds,
            ).stdout
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr)
            raise

    def get(self, *arguments: str) -> dict[str, Any]:
        """Run ``kubectl get`` and read the answer."""
        read: dict[str, Any] = json.loads(self.kubectl("get", "-o", "json", *arguments))
        return read

    @property
    def known(self) -> bed.Bed:
        """What the test bed knows of it."""
        known = bed.load(self.layout)
        assert known is not None
        return known

    def load_image(self, image: str) -> None:
        """Copy an image from the engine to where Pods run; they name it in full."""
        bed.load_image(self.layout, self.known, image)

    def unload_image(self, image: str) -> None:
        """Take it away again from where Pods run."""
        bed.unload_image(self.layout, self.known, image)

    def fake_nodes(self, count: int = 1, *, prefix: str = "fake") -> AbstractContextManager[FakeNodes]:
        """Give a group of fake nodes; see :mod:`testbed.fake_nodes`."""
        return fake_nodes(self.layout, self.known, count=count, prefix=prefix)


@dataclass(frozen=True)
class OwnCluster(Cluster):
    """A control plane that nobody else uses, so that a test may break it. It has no node and no Docker engine."""

    def stop_api_server(self) -> None:
        """Stop the API server; whoever speaks to it finds nobody."""
        bed.stop_api_server(self.layout, self.known)

    def kill_api_server(self) -> None:
        """Kill the API server, in the middle of whatever it does."""
        bed.stop_api_server(self.layout, self.known, crash=True)

    def start_api_server(self) -> None:
        """Start the API server again where it was, and wait until it is ready."""
        bed.start_api_server(self.layout, self.known)

    def restart_api_server(self) -> None:
        """Let the API server lose all that it remembered; its watches end."""
        self.stop_api_server()
        self.start_api_server()

    @contextmanager
    def without_controllers(self) -> Iterator[None]:
        """Freeze the controller-manager: nothing is garbage-collected meanwhile."""
        manager = processes.load(self.layout.pids / "kube-controller-manager.json")
        assert manager is not None
        manager.freeze()
        try:
            yield
        finally:
            manager.send(signal.SIGCONT)

    def compact_etcd(self) -> int:
        """Let etcd forget all revisions before the present one, which is returned.

        The API server remembers recent changes itself: only a restart after this takes old revisions away.
        """
        return bed.compact_etcd(self.layout, self.known)


AnyCluster = TypeVar("AnyCluster", bound=Cluster)


def _testbed(*command: str, state: Path | None = None) -> str:
    """Run the command in a process of its own: what it starts must not be a child of pytest."""
    done = subprocess.run(
        [sys.executable, "-m", "testbed", *command],
        env=os.environ
        | {"PYTHONPATH": str(MODULES.parent)}
        | ({} if state is None else {"SANDKEEPER_STATE": str(state)}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"`testbed {' '.join(command)}` failed:\n{done.stderr}")
    return done.stdout


class Users:
    """Who uses the test bed now, and whether one of them brought it up."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._file = layout.state.with_name(f"{layout.state.name}.users")
        self._lock = layout.state.with_name(f"{layout.state.name}.users.lock")
        self._me = processes.myself()

    def join(self) -> None:
        with locks.exclusive(self._lock):
            users, ours = self._read()
            if not users:
                ours = bed.load(self._layout) is None
            _testbed("up")
            self._write([*users, self._me], ours=ours)

    def leave(self) -> None:
        with locks.exclusive(self._lock):
            users, ours = self._read()
            # Only one of our places: a test may use the bed beside the fixture of its own session.
            if self._me in users:
                users.remove(self._me)
            if users:
                self._write(users, ours=ours)
                return
            self._file.unlink(missing_ok=True)
            if ours:
                _testbed("down")

    def _read(self) -> tuple[list[processes.Record], bool]:
        try:
            read = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return [], False
        users = [processes.Record(**user) for user in read["users"]]
        # One that was killed never leaves.
        return [user for user in users if user.alive], read["ours"]

    def _write(self, users: list[processes.Record], *, ours: bool) -> None:
        listed = [asdict(user) for user in users]
        self._file.write_text(json.dumps({"users": listed, "ours": ours}), encoding="utf-8")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Give the cluster, brought up if it is not."""
    with shared_cluster() as found:
        yield found


@contextmanager
def shared_cluster() -> Iterator[Cluster]:
    """Give the cluster that everybody shares, brought up if it is not."""
    layout = Layout.from_environment(os.environ)
    users = Users(layout)
    users.join()
    try:
        yield _describe(Cluster, layout)
    finally:
        users.leave()


def _describe(kind: type[AnyCluster], layout: Layout) -> AnyCluster:
    known = bed.load(layout)
    assert known is not None
    found = kind(
        kubeconfig=Path(known.kubeconfig),
        docker_host=known.docker_host,
        server="",
        program=f"{known.bin_dir}/kubectl" if known.bin_dir else "kubectl",
        layout=layout,
    )
    view = "jsonpath={.clusters[0].cluster.server}"
    return replace(found, server=found.kubectl("config", "view", "--minify", "-o", view))


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[OwnCluster]:
    """Give a control plane of the module's own, beside the test bed that all others share."""
    if os.geteuid() != 0:
        pytest.skip("a control plane of our own needs root")
    with own_control_plane() as made:
        yield made


@contextmanager
def own_control_plane() -> Iterator[OwnCluster]:
    """Make a control plane that nobody else uses, and take it down again; only root can."""
    _remove_stale()
    layout = replace(
        Layout.from_environment(os.environ), state=Path(tempfile.mkdtemp(prefix=_OWN_PREFIX)).absolute()
    )
    processes.save(processes.myself(), layout.state / _OWNER)
    try:
        _testbed("up", "--nodeless", state=layout.state)
        yield _describe(OwnCluster, layout)
    finally:
        _testbed("down", state=layout.state)
        shutil.rmtree(layout.state, ignore_errors=True)


def _remove_stale() -> None:
    """Take down what those left who were killed."""
    for note in Path(tempfile.gettempdir()).glob(f"{_OWN_PREFIX}*/{_OWNER}"):
        if note.stat().st_uid == os.geteuid() and not _is_alive(processes.load(note)):
            _testbed("down", state=note.parent)
            shutil.rmtree(note.parent, ignore_errors=True)


def _is_alive(owner: processes.Record | None) -> bool:
    return owner is None or owner.alive


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Give a namespace of the test's own, in which Pods can start at once."""
    with new_namespace(cluster) as name:
        yield name


@contextmanager
def new_namespace(cluster: Cluster) -> Iterator[str]:
    """Give a namespace of a cluster, in which Pods can start at once."""
    name = f"t-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    try:
        cluster.kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")
        _release_leftovers(cluster, name)


def _release_leftovers(cluster: Cluster, namespace: str) -> None:
    """Take our finalizer off what is left: nobody is there any more who would, and it would hang."""
    listed = cluster.kubectl("api-resources", f"--api-group={GROUP}", "--namespaced", "-o", "name")
    for kind in listed.split():
        for found in cluster.get("-n", namespace, kind)["items"]:
            kept = [one for one in found["metadata"].get("finalizers", []) if one != FINALIZER]
            if kept != found["metadata"].get("finalizers", []):
                patch = json.dumps({"metadata": {"finalizers": kept}})
                # It may go by itself meanwhile.
                with suppress(subprocess.CalledProcessError):
                    cluster.kubectl(
                        *("-n", namespace, "patch", kind, found["metadata"]["name"]),
                        *("--type=merge", "-p", patch),
                    )


@pytest.fixture(scope="session")
def docker_client(cluster: Cluster) -> Iterator[docker.DockerClient]:
    """Connect to the test bed's Docker engine, which has the base image."""
    client = docker.DockerClient(base_url=cluster.docker_host)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def new_engine() -> Iterator[Callable[..., Engine]]:
    """Give a maker of Docker engines that a test may break; each runs, and goes with the test."""
    made: list[Engine] = []
    # Not pytest's own folder: its name is too long for the sockets below.
    with tempfile.TemporaryDirectory(prefix="sk-", ignore_cleanup_errors=True) as folder:

        def make(options: EngineOptions | None = None, *, base: bool = False) -> Engine:
            engine = Engine(Path(folder) / str(len(made)), options)
            made.append(engine)
            engine.start()
            engine.wait_ready()
            if base:
                images.ensure_base(engine.url, Layout.from_environment(os.environ))
            return engine

        try:
            yield make
        finally:
            for engine in made:
                engine.destroy()
