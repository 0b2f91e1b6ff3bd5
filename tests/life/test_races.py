"""Promises that have to hold while both sides act: touches against removals, and many Sandboxes at once."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import kubernetes.client
import pytest

from sandkeeper.api.names import GROUP, VERSION, Annotation
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

Containers = Callable[[], list[Any]]

HOT = 3.0


class Toucher:
    """Touches as a gateway does: one PATCH, and its answer says whether the sandbox can be relied on."""

    def __init__(self, client: kubernetes.client.ApiClient, namespace: str) -> None:
        self._objects = kubernetes.client.CustomObjectsApi(client)
        self._namespace = namespace

    def touch(self, name: str) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        answer: Any = self._objects.patch_namespaced_custom_object(
            GROUP,
            VERSION,
            self._namespace,
            "sandboxes",
            name,
            {"metadata": {"annotations": {Annotation.LAST_USED: now}}},
        )
        status: dict[str, Any] = answer.get("status", {})
        return status


def is_ready(status: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))


@pytest.mark.parametrize("removal", ["prune", "replace"])
def test_a_touch_that_was_accepted_is_honoured(  # noqa: PLR0917 - fixtures
    removal: str,
    operator: OperatorProcess,
    sandboxes: Sandboxes,
    namespace: str,
    api_client: kubernetes.client.ApiClient,
    containers: Containers,
) -> None:
    names = [f"agent-{number}" for number in range(8)]
    calm: dict[str, Any] = {"hotWindowSeconds": int(HOT), "prune": {"idleSeconds": 0}}
    harsh = calm | {"prune": {"idleSeconds": 3 if removal == "prune" else 0}}
    sandboxes.apply(sandboxes.policy(**calm), *(sandboxes.sandbox(name) for name in names))
    for name in names:
        sandboxes.wait(name, "Running")
    toucher, dice = Toucher(api_client, namespace), random.Random(7)  # noqa: S311 - of no consequence
    accepted = refused = 0

    def once(name: str, early: float) -> bool:
        before = toucher.touch(name)
        time.sleep(HOT + dice.uniform(-early, 0.35))  # about when it becomes cold
        touched_at = time.monotonic()
        status = toucher.touch(name)
        if not is_ready(status):
            return False
        promised = status["runtime"]["id"]
        while time.monotonic() < touched_at + HOT - 0.5:
            alive = {container.id for container in containers() if container.status == "running"}
            if time.monotonic() > touched_at + HOT - 0.5:
                break  # the engine took its time to say so, and by now nothing is promised
            assert promised in alive, f"{name}: {before} {status}"
            time.sleep(0.2)
        return True

    for turn in range(8):
        if turn > 2 and accepted:
            break
        env = {"TURN": str(turn)} if removal == "replace" else {}
        sandboxes.apply(sandboxes.policy(**harsh, container={"env": env}))
        with ThreadPoolExecutor(len(names)) as pool:
            # The busier the machine, the later they come: so they begin earlier from turn to turn.
            for answer in pool.map(once, names, repeat(0.15 + 0.2 * turn)):
                accepted, refused = accepted + answer, refused + (not answer)
        sandboxes.apply(sandboxes.policy(**calm, container={"env": env}))
        for name in names:
            toucher.touch(name)
            sandboxes.wait(name, "Running")
    assert accepted, "not one touch was accepted: nothing was tested"


@pytest.mark.timeout(900)
def test_a_hundred_at_once_are_all_ready_and_none_is_double(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, containers: Containers
) -> None:
    operator_factory(docker={"maxContainers": 150}).wait_ready()
    names = [f"agent-{number}" for number in range(100)]
    sandboxes.apply(sandboxes.policy(), *(sandboxes.sandbox(name) for name in names))

    def ready() -> int:
        conditions = sandboxes.kubectl(
            "get", "sandboxes", "-o", "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
        )
        return conditions.split().count("True")

    wait_for(
        lambda: ready() == 100, what="all are ready", timeout=400, pause=1, tell=lambda: f"{ready()} are"
    )
    assert len(containers()) == 100
    assert len({container.labels["sandkeeper.dev/key-hash"] for container in containers()}) == 100
    sandboxes.kubectl("delete", "sandboxes", "--all", "--timeout=300s", seconds=310)
    assert containers() == []
