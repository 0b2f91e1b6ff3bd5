"""The operator as a process of its own, serving one test's namespace: it can be killed like a real one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from sandkeeper.api.names import Label
from support.manifests import to_json
from support.waiting import wait_for

__all__ = ["OperatorFactory", "OperatorProcess", "operators"]


class OperatorProcess:
    """One run of the operator. ``crash`` names the step at which it kills itself (:mod:`support.crashing`).

    Without a ``lease`` it need not wait for one that its predecessor left behind: for tests that kill many, one at a
    time. A ``newer`` one has a raised epoch (:mod:`support.newer`).
    """

    def __init__(
        self,
        *,
        config: Path,
        log: Path,
        env: dict[str, str],
        crash: str | None,
        lease: bool = True,
        verbose: bool = False,
        log_format: str = "text",
        newer: bool = False,
    ) -> None:
        self.config = config
        self.log = log
        module = ["support.crashing", crash] if crash else ["support.newer" if newer else "sandkeeper"]
        arguments = ["run", "--config", str(config), "--health-host", "127.0.0.1", "--health-port", "0"]
        arguments += [] if lease else ["--no-leader-election"]
        arguments += ["--log-format", log_format]
        arguments += ["--verbose"] if verbose else []
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *module, *arguments],
                stdout=sink,
                stderr=sink,
                env=env,
                start_new_session=True,
            )

    def url(self, path: str) -> str:
        """The address of a page of its health server."""
        ports = re.findall(r"on port (\d+)", self.log.read_text())
        return f"http://127.0.0.1:{ports[-1]}{path}"

    def ready(self) -> bool:
        """Whether the readiness probe says yes."""
        try:
            with urllib.request.urlopen(self.url("/readyz"), timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, IndexError):
            return False

    def read(self, path: str, *, accept: str = "*/*") -> str:
        """Read a page, whatever its status."""
        request = urllib.request.Request(self.url(path), headers={"Accept": accept})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.read().decode())

    def wait_ready(self) -> "OperatorProcess":
        """Wait until the readiness probe says yes."""

        def is_ready() -> bool:
            assert self.process.poll() is None, f"the operator ended:\n{self.log.read_text()[-4000:]}"
            return self.ready()

        wait_for(is_ready, what="the operator is ready")
        return self

    def stop(self, *, timeout: float = 40) -> int:
        """Send SIGTERM and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)

    def wait_dead(self, *, timeout: float = 60) -> int:
        """Wait until it has ended by itself."""
        return self.process.wait(timeout)


OperatorFactory = Callable[..., OperatorProcess]


@contextmanager
def operators(
    cluster: Any,
    docker_client: docker.DockerClient,
    *,
    namespace: str,
    folder: Path,
    kubeconfig: Path | None = None,
) -> Iterator[OperatorFactory]:
    """Start operators for a namespace; at the end stop them and remove what they made.

    Without a ``kubeconfig`` of their own they may do whatever the administrator may.
    """
    started: list[OperatorProcess] = []

    def start(
        *,
        crash: str | None = None,
        env: dict[str, str] | None = None,
        lease: bool = True,
        verbose: bool = False,
        log_format: str = "text",
        newer: bool = False,
        **config: Any,
    ) -> OperatorProcess:
        path = folder / f"operator-{len(started)}.yaml"
        settings = {"namespace": namespace, "release": "test", "watchNamespaces": [namespace], **config}
        path.write_text(yaml.safe_dump(settings))
        environment = os.environ | {
            "KUBECONFIG": str(kubeconfig or cluster.kubeconfig),
            "DOCKER_HOST": str(cluster.docker_host),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        process = OperatorProcess(
            config=path,
            log=folder / "operator.log",
            env=environment | (env or {}),
            crash=crash,
            lease=lease,
            verbose=verbose,
            log_format=log_format,
            newer=newer,
        )
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
        for container in docker_client.containers.list(
            all=True, filters={"label": f"{Label.NAMESPACE}={namespace}"}, ignore_removed=True
        ):
            with suppress(docker.errors.NotFound):  # the engine may have been at it already
                container.remove(force=True, v=True)


@pytest.fixture
def operator_factory(
    cluster: Any,
    namespace: str,
    docker_client: docker.DockerClient,
    tmp_path: Path,
    operator_kubeconfig: Path,
) -> Iterator[OperatorFactory]:
    """Start operators for the test's namespace, with the chart's rights; at the end remove what they made."""
    with operators(
        cluster, docker_client, namespace=namespace, folder=tmp_path, kubeconfig=operator_kubeconfig
    ) as start:
        yield start


@pytest.fixture
def operator(operator_factory: OperatorFactory) -> OperatorProcess:
    """One operator, ready, for the test's namespace, without a lease."""
    return operator_factory().wait_ready()


class Sandboxes:
    """Sandboxes and policies of one namespace, by kubectl, as a user writes them."""

    def __init__(self, cluster: Any, namespace: str, image: str) -> None:
        self._cluster = cluster
        self.namespace = namespace
        self.image = image

    def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = 60.0) -> str:
        """Run kubectl in the namespace and return what it prints."""
        return str(self._cluster.kubectl("-n", self.namespace, *arguments, stdin=stdin, seconds=seconds))

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", stdin=to_json(*objects))

    def sandbox(self, name: str, **spec: Any) -> dict[str, Any]:
        """Make a Sandbox as a manifest; the agent is called like the Sandbox unless said otherwise."""
        return {
            "apiVersion": "sandkeeper.dev/v1alpha1",
            "kind": "Sandbox",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"agentId": name, **spec},
        }

    def policy(self, name: str = "default", **spec: Any) -> dict[str, Any]:
        """Make a policy as a manifest, with the tests' small image."""
        container = {"image": self.image, **spec.pop("container", {})}
        return {
            "apiVersion": "sandkeeper.dev/v1alpha1",
            "kind": "AgentSandboxPolicy",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"container": container, **spec},
        }

    def get(self, name: str) -> dict[str, Any]:
        """Return a Sandbox."""
        result: dict[str, Any] = json.loads(self.kubectl("get", "sandbox", name, "-o", "json"))
        return result

    def status(self, name: str) -> dict[str, Any]:
        """Return a Sandbox's status."""
        result: dict[str, Any] = self.get(name).get("status", {})
        return result

    def condition(self, name: str, kind: str = "Ready") -> tuple[str, str]:
        """Return a condition's status and reason; empty where it is not there."""
        return _condition(self.status(name), kind)

    def wait(self, name: str, reason: str, *, kind: str = "Ready", timeout: float = 60) -> dict[str, Any]:
        """Wait until a condition has a reason, and return the status."""
        status: dict[str, Any] = {}

        def has_it() -> bool:
            # What is returned is what was waited for, and not what may have become of it since.
            nonlocal status
            status = self.status(name)
            return _condition(status, kind)[1] == reason

        wait_for(
            has_it,
            what=f"{name}: {kind} has the reason {reason}",
            timeout=timeout,
            tell=lambda: self.kubectl("get", "sandboxes", "-o", "yaml"),
        )
        return status

    def annotate(self, name: str, **annotations: str) -> None:
        """Set annotations of ours; ``last_used="..."`` is sandkeeper.dev/last-used."""
        pairs = [f"sandkeeper.dev/{key.replace('_', '-')}={value}" for key, value in annotations.items()]
        self.kubectl("annotate", "--overwrite", "sandbox", name, *pairs)

    def touch(self, name: str) -> None:
        """Say that the Sandbox is used now."""
        self.annotate(name, last_used=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    for condition in status.get("conditions", []):
        if condition["type"] == kind:
            return condition["status"], condition["reason"]
    return "", ""


@pytest.fixture
def sandboxes(cluster: Any, crds: Any, namespace: str, tiny_image: str) -> Sandboxes:
    """The test's Sandboxes."""
    return Sandboxes(cluster, namespace, tiny_image)


@pytest.fixture
def containers(docker_client: docker.DockerClient, namespace: str) -> Callable[[], list[Any]]:
    """The containers that were made for the test's namespace, as they are at the moment."""

    def find() -> list[Any]:
        return list(
            docker_client.containers.list(
                all=True, filters={"label": f"{Label.NAMESPACE}={namespace}"}, ignore_removed=True
            )
        )

    return find
