"""``sandkeeper exec`` as a process of its own, and a Pod to run it in whose operator the test plays."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from support.cluster import Cluster
from support.manifests import to_json

POD = "rain-pod"
_NEVER_BEFORE = "2026-01-01T00:00:00Z"


class Executing:
    """The command in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    @property
    def environment(self) -> dict[str, str]:
        """What the command's process finds in its environment."""
        return os.environ | {
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "DOCKER_HOST": self.cluster.docker_host,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "CALLERS_OWN": "secret",
        }

    def words(self, *arguments: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "sandkeeper.cli", "exec", "-n", self.namespace, *arguments]

    def __call__(
        self, *arguments: str, stdin: bytes | None = None, **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end; where it does not come to one, tell where each of its threads is."""
        with subprocess.Popen(
            self.words(*arguments),
            env=self.environment | variables | {"PYTHONFAULTHANDLER": "1"},
            stdin=None if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                output, errors = process.communicate(stdin, timeout=90)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)
                _, errors = process.communicate(timeout=30)
                raise AssertionError(f"it does not end:\n{errors.decode()}") from None
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


class PlayedPod:
    """A Pod made by hand, and the Sandbox rain that says it runs there."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self.namespace = namespace

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace."""
        return self._cluster.kubectl("-n", self.namespace, *arguments, stdin=stdin)

    def make(self) -> None:
        """Make both, and wait until a command may be run."""
        container = {
            "name": "sandbox",
            "image": "docker.io/library/debian:bookworm-slim",
            "imagePullPolicy": "Never",
            "command": ["sleep", "infinity"],
            "env": [{"name": "LANG", "value": "C.UTF-8"}],
        }
        # Another container beside it, so that nobody finds the right one by chance.
        beside = {**container, "name": "beside"}
        spec = {
            "containers": [beside, container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}
        sandbox = {
            "apiVersion": "sandkeeper.dev/v1alpha1",
            "kind": "Sandbox",
            "metadata": {"name": "rain"},
            "spec": {"agentId": "rain"},
        }
        # A long command is a use every third part of the hot window.
        policy = {
            "apiVersion": "sandkeeper.dev/v1alpha1",
            "kind": "AgentSandboxPolicy",
            "metadata": {"name": "default"},
            "spec": {"hotWindowSeconds": 3},
        }
        self.kubectl("apply", "-f", "-", stdin=to_json(pod, policy, sandbox))
        self.kubectl("wait", "--for=condition=Ready", f"pod/{POD}", "--timeout=60s")
        self.record()

    @contextmanager
    def recorded(self, **runtime: str) -> Iterator[None]:
        """Record something else for a while."""
        self.record(**runtime)
        try:
            yield
        finally:
            self.record()

    def record(self, **runtime: str) -> None:
        """Say in the Sandbox's status that it runs in the Pod; or else where."""
        found = {
            "backend": "pod",
            "name": POD,
            "id": self.kubectl("get", "pod", POD, "-o", "jsonpath={.metadata.uid}"),
            "node": self.kubectl("get", "pod", POD, "-o", "jsonpath={.spec.nodeName}"),
            "createdAt": _NEVER_BEFORE,
            "setup": "NotNeeded",
            **runtime,
        }
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Running",
            "message": "So it is.",
            "lastTransitionTime": _NEVER_BEFORE,
        }
        status = {
            "phase": "Ready",
            "conditions": [ready],
            "policy": f"{self.namespace}/default",
            "runtime": found,
        }
        patch = json.dumps({"status": status})
        self.kubectl("patch", "sbx", "rain", "--subresource=status", "--type=merge", "-p", patch)

    @property
    def last_used(self) -> str:
        """The last use that was recorded."""
        return self.kubectl(
            *("get", "sbx", "rain", "-o", r"jsonpath={.metadata.annotations.sandkeeper\.dev/last-used}")
        )


def read_until(terminal: int, words: bytes) -> None:
    """Read what a terminal shows until it shows some words."""
    said = b""
    while words not in said:
        said += os.read(terminal, 4096)
