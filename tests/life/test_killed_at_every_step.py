"""The operator dies by SIGKILL before or after each step; the next one goes on, loses nothing and leaves no orphan."""

import time
from collections.abc import Callable
from typing import Any

import docker
import pytest

from support.engine import run_in
from support.operator import OperatorFactory, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

Containers = Callable[[], list[Any]]

CREATE = [
    "before:finalizer",
    "after:finalizer",
    "before:create",
    "after:create",
    "before:setup",
    "after:setup",
    "before:status",
    "after:status",
]
REPLACE = [
    "before:preflight",
    "after:preflight",
    "before:status",  # the announcement
    "after:status",
    "before:remove",
    "after:remove",
    "before:create",
    "after:create",
    "before:status*2",
    "after:status*2",
]
PRUNE = [
    "before:status",
    "after:status",
    "before:remove",
    "after:remove",
    "before:status*2",
    "after:status*2",
]
DELETE = ["before:remove", "after:remove", "before:release", "after:release"]


@pytest.mark.parametrize("step", CREATE)
def test_while_it_creates(
    step: str,
    operator_factory: OperatorFactory,
    sandboxes: Sandboxes,
    containers: Containers,
    docker_client: docker.DockerClient,
) -> None:
    setup = {"setupCommand": "echo done >> /tmp/setup"}
    sandboxes.apply(sandboxes.policy(container=setup), sandboxes.sandbox("rain"))
    operator_factory(crash=step, lease=False).wait_dead()
    operator_factory(lease=False).wait_ready()
    status = sandboxes.wait("rain", "Running")
    alive = containers()
    assert [container.id for container in alive] == [status["runtime"]["id"]]
    said = run_in(docker_client, alive[0].id, ["cat", "/tmp/setup"])  # noqa: S108 - in the container
    assert said == (0, b"done\n")


@pytest.mark.parametrize("step", REPLACE)
def test_while_it_replaces(
    step: str, operator_factory: OperatorFactory, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=2), sandboxes.sandbox("rain"))
    first = operator_factory(lease=False).wait_ready()
    before = sandboxes.wait("rain", "Running")
    first.kill()
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=2, container={"env": {"COLOUR": "blue"}}))
    time.sleep(2.1)  # cold when the next one comes: there is nothing to tell before it acts
    operator_factory(crash=step, lease=False).wait_dead()
    operator_factory(lease=False).wait_ready()
    wait_for(
        lambda: (
            sandboxes.condition("rain") == ("True", "Running")
            and sandboxes.condition("rain", "Drifted") == ("", "")
            and sandboxes.status("rain")["configHash"] != before["configHash"]
        ),
        what="it runs as wanted",
        tell=lambda: str(sandboxes.status("rain")),
    )
    after = sandboxes.status("rain")
    assert after["configHash"] == after["desiredConfigHash"]
    assert [container.id for container in containers()] == [after["runtime"]["id"]]
    assert after.get("recoveries", 0) == 0


@pytest.mark.parametrize("step", PRUNE)
def test_while_it_prunes(
    step: str, operator_factory: OperatorFactory, sandboxes: Sandboxes, containers: Containers
) -> None:
    # However slow the machine is, it is seen running before it is idle.
    lasting = sandboxes.policy(hotWindowSeconds=1)
    sandboxes.apply(lasting, sandboxes.sandbox("rain"))
    first = operator_factory(lease=False).wait_ready()
    before = sandboxes.wait("rain", "Running")
    first.kill()
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, prune={"idleSeconds": 3}))
    operator_factory(crash=step, lease=False).wait_dead()
    operator_factory(lease=False).wait_ready()
    sandboxes.wait("rain", "Idle")
    assert containers() == []
    sandboxes.apply(lasting)
    sandboxes.touch("rain")
    after = sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] != before["runtime"]["id"]
    assert after.get("recoveries", 0) == 0


@pytest.mark.parametrize("step", DELETE)
def test_while_it_deletes(
    step: str, operator_factory: OperatorFactory, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    first = operator_factory(lease=False).wait_ready()
    sandboxes.wait("rain", "Running")
    first.kill()
    sandboxes.kubectl("delete", "sandbox", "rain", "--wait=false")
    operator_factory(crash=step, lease=False).wait_dead()
    operator_factory(lease=False).wait_ready()
    wait_for(
        lambda: "rain" not in sandboxes.kubectl("get", "sandboxes", "-o", "name"), what="the object is gone"
    )
    assert containers() == []
