"""The clock of the operator's machine is set: nobody loses a sandbox by it, not even at that moment."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chaos.clock import FakedClock
from support.operator import OperatorFactory, Sandboxes
from support.pods import Pods, serving_pods
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster]

AHEAD = 86_400
"""By this clock every hot window and every idle time is over."""


def uids(pods: Pods) -> list[Any]:
    return [pod["metadata"]["uid"] for pod in pods()]


@pytest.mark.parametrize("offset", [AHEAD, 90], ids=["a day", "90 s"])
def test_what_is_in_use_stays_though_the_clock_jumps_ahead(
    offset: int, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, pods: Pods, tmp_path: Path
) -> None:
    clock = FakedClock(tmp_path / "clock")
    operator_factory(env=dict(clock.environment), **serving_pods()).wait_ready()
    policy = pod_sandboxes.policy(prune={"idleSeconds": 60}, hotWindowSeconds=60)
    pod_sandboxes.apply(policy, pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    before = uids(pods)
    for _ in range(2):
        # What it does next is because of the touch, before it has spoken to the API server by the new clock.
        clock.step(offset)
        pod_sandboxes.touch("rain")
        time.sleep(2.5)
        assert uids(pods) == before
        clock.step(0)
        time.sleep(2.5)
    assert pod_sandboxes.condition("rain") == ("True", "Running")
    assert uids(pods) == before


def test_a_use_by_a_clock_that_was_ahead_is_put_right(
    operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, pods: Pods, tmp_path: Path
) -> None:
    def state(wanted: str) -> None:
        patch = json.dumps({"spec": {"state": wanted}})
        pod_sandboxes.kubectl("patch", "sandbox", "rain", "--type=merge", "-p", patch)

    def last_use() -> datetime:
        return datetime.fromisoformat(pod_sandboxes.status("rain")["lastUsedAt"])

    clock = FakedClock(tmp_path / "clock")
    operator_factory(env=dict(clock.environment), **serving_pods()).wait_ready()
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    state("Stopped")
    pod_sandboxes.wait("rain", "Stopped")
    clock.step(AHEAD)
    state("Running")  # which is a use, at that moment
    pod_sandboxes.wait("rain", "Running")
    assert last_use() - datetime.now(UTC) > timedelta(hours=23)
    clock.step(0)
    wait_for(
        lambda: last_use() < datetime.now(UTC) + timedelta(seconds=5), what="it is put right", timeout=60
    )
    assert pod_sandboxes.condition("rain") == ("True", "Running")
