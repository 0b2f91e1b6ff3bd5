"""The values of a sandbox's environment arrive in it byte for byte, and are seen nowhere else.

What the operator says is recorded through a whole life: a setup that fails and prints all it knows, one that succeeds,
a replacement, the end. So is the command line of every process of the machine. No part of a value may be in any of
that; and in each record something is planted that has to be found, or it would prove nothing.
"""

import base64
import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import docker
import pytest

from support.cluster import Cluster
from support.engine import run_in
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.overhearing import CommandLines, recorded
from support.pods import serving_pods
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

RECORDS = {
    "statuses": ("sandboxes", "{.metadata.name} {.metadata.managedFields} {.status}"),
    "events": ("events", "{}"),
    "pods": ("pods", "{.metadata} {.status}"),
}
"""Of what kind of object what is recorded. The specs of Sandboxes and Pods are where the values belong."""

TELLING = 'sleep 1; set -x; env; printf "%s|" "$PLAIN" "$QUOTED"; : "$SERVICE_TOKEN" "$OPTION"; "$OPTION"; "$QUOTED"'
"""Every way in which a shell shows what it has: listed, printed, traced, and in complaints of its own. It takes long
enough for its own command line to be seen."""


def marker() -> str:
    return secrets.token_hex(12)


@dataclass(frozen=True)
class Values:
    """An environment whose values nobody ever had before."""

    plain: str = field(default_factory=marker)
    allowed: str = field(default_factory=marker)
    filtered: str = field(default_factory=marker)
    first: str = field(default_factory=marker)
    second: str = field(default_factory=marker)
    option: str = field(default_factory=marker)

    @property
    def env(self) -> dict[str, str]:
        return {
            "PLAIN": self.plain,
            "SERVICE_TOKEN": self.allowed,
            "DB_PASSWORD": self.filtered,
            "QUOTED": f'it\'s "{self.first}" $(PLAIN) $PLAIN `id` \\n\tü\n--env={self.second} {{}} %s',
            "OPTION": f"--privileged={self.option}",
        }

    @property
    def parts(self) -> list[str]:
        """Both halves of each marker: half of a secret is too much as well."""
        return [half for each in vars(self).values() for half in (each[:12], each[12:])]


@dataclass(frozen=True)
class Place:
    """A backend, as this test needs to know it."""

    sandboxes: Sandboxes
    settings: Mapping[str, Any]
    run: Callable[..., bytes]
    """Runs a command in the runtime of that name, and hands on its output as it is."""

    def environment(self, name: str) -> dict[str, str]:
        """The environment that a command in the runtime has."""
        pairs = self.run(name, "cat", "/proc/self/environ").decode().split("\0")
        return dict(pair.split("=", 1) for pair in pairs if pair)


@pytest.fixture(params=["docker", "pod"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "docker":
        client: docker.DockerClient = request.getfixturevalue("docker_client")

        def run_in_container(name: str, *command: str) -> bytes:
            return run_in(client, name, command)[1]

        return Place(request.getfixturevalue("sandboxes"), {}, run_in_container)
    pods: Sandboxes = request.getfixturevalue("pod_sandboxes")

    def run_in_pod(name: str, *command: str) -> bytes:
        # kubectl's output is read as text, which is no way to compare bytes.
        return base64.b64decode(pods.kubectl("exec", name, "--", "sh", "-c", '"$@" | base64', "sh", *command))

    return Place(pods, serving_pods(), run_in_pod)


@pytest.fixture
def records(cluster: Cluster, place: Place, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """The files in which everything is recorded that is said of the namespace's objects."""
    files = {name: tmp_path / name for name in RECORDS}
    with ExitStack() as stack:
        for name, (kind, what) in RECORDS.items():
            stack.enter_context(recorded(cluster, place.sandboxes.namespace, kind, what, files[name]))
        yield files


def live(place: Place, values: Values, pages: Callable[[], None]) -> str:
    """Lead a sandbox from a failed setup to its end; return the name of its last runtime."""
    sandboxes = place.sandboxes

    def apply(setup: str, **more: str) -> None:
        container = {"env": {**values.env, **more}, "setupCommand": setup}
        sandboxes.apply(sandboxes.sandbox("rain", scope="session", container=container))

    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, container={"allowSecretEnv": ["SERVICE_TOKEN"]}))
    apply(f"{TELLING}; echo all is told; exit 3")
    message = sandboxes.wait("rain", "SetupFailed")["message"]
    assert "all is told" in message
    assert "PLAIN=***" in message
    assert sandboxes.condition("rain", "EnvFiltered") == ("True", "SecretLikeName")
    pages()

    apply(f"{TELLING}; true")
    before = sandboxes.wait("rain", "Running")["runtime"]
    arrived = place.environment(before["name"])
    expected = {name: value for name, value in values.env.items() if name != "DB_PASSWORD"}
    assert {name: arrived.get(name) for name in values.env} == {**expected, "DB_PASSWORD": None}
    pages()

    apply(f"{TELLING}; true", COLOUR="blue")
    wait_for(
        lambda: sandboxes.status("rain").get("runtime", {}).get("id") not in {None, before["id"]},
        what="it is replaced",
    )
    after = sandboxes.wait("rain", "Running")["runtime"]
    assert place.environment(after["name"])["COLOUR"] == "blue"
    return str(after["name"])


def plant(sandboxes: Sandboxes, records: Mapping[str, Path], text: str) -> None:
    """Put a text where each record has to find it, by objects of the test's own."""
    decoy = sandboxes.sandbox("decoy")
    reference = {"kind": "Sandbox", "name": "decoy", "namespace": sandboxes.namespace}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "decoy", "namespace": sandboxes.namespace},
        "involvedObject": {"apiVersion": decoy["apiVersion"], **reference},
        "reason": "Planted",
        "message": text,
        "type": "Normal",
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "decoy", "annotations": {"planted": text}},
        "spec": {
            "schedulingGates": [{"name": "example.com/never"}],
            "containers": [{"name": "decoy", "image": "decoy"}],
        },
    }
    sandboxes.apply(decoy, event, pod)
    status = json.dumps({"status": {"message": text}})
    sandboxes.kubectl("patch", "sandbox", "decoy", "--subresource=status", "--type=merge", "-p", status)
    for name, file in records.items():
        wait_for(partial(_holds, file, text), what=f"the record of {name} holds it")


def _holds(file: Path, text: str) -> bool:
    return text in file.read_text()


def test_no_value_is_seen_outside(
    place: Place, operator_factory: OperatorFactory, records: Mapping[str, Path]
) -> None:
    values, control = Values(), marker()
    pages: list[str] = []

    def read_pages(operator: OperatorProcess) -> None:
        pages.extend(operator.read(path) for path in ("/metrics", "/healthz", "/readyz"))

    with CommandLines([*values.parts, control]) as lines:
        operator = operator_factory(verbose=True, **place.settings).wait_ready()
        name = live(place, values, lambda: read_pages(operator))
        subprocess.run([sys.executable, "-c", "import time; time.sleep(5)", f"{control} outside"], check=True)
        place.run(name, "sh", "-c", "sleep 5; :", f"{control} inside")
        place.sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=60s")
        read_pages(operator)
        operator.stop()
    plant(place.sandboxes, records, control)

    said = {name: file.read_text() for name, file in records.items()}
    said |= {"log": operator.log.read_text(), "pages": "".join(pages)}
    assert "SetupFailed" in said["statuses"]
    assert "SetupFailed" in said["events"]
    assert " DEBUG " in said["log"]
    assert "sandkeeper_" in said["pages"]
    for where in ("outside", "inside"):
        assert any(f"{control} {where}" in line for line in lines.found), where

    assert [line for line in lines.found if control not in line] == []
    assert [(name, part) for name, text in said.items() for part in values.parts if part in text] == []
