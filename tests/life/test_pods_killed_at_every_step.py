"""As with containers: the operator dies by SIGKILL before or after each step, and the next one goes on."""

import time

import pytest

from support.operator import OperatorFactory, Sandboxes
from support.pods import Pods, serving_pods
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster]

CREATE = [
    "before:pod.create",
    "after:pod.create",
    "before:pod.setup",
    "after:pod.setup",
    "before:status",
    "after:status",
]
REPLACE = [
    "before:pod.preflight",
    "after:pod.preflight",
    "before:status",  # the announcement
    "after:status",
    "before:pod.remove",
    "after:pod.remove",
    "before:pod.create",
    "after:pod.create",
    "before:status*2",
    "after:status*2",
]
PRUNE = ["before:status", "after:status", "before:pod.remove", "after:pod.remove", "before:status*2"]


@pytest.mark.parametrize("step", CREATE)
def test_while_it_creates(
    step: str, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    setup = {"setupCommand": "echo done >> /tmp/setup"}
    pod_sandboxes.apply(pod_sandboxes.policy(container=setup), pod_sandboxes.sandbox("rain"))
    operator_factory(crash=step, lease=False, **serving_pods()).wait_dead()
    operator_factory(lease=False, **serving_pods()).wait_ready()
    status = pod_sandboxes.wait("rain", "Running")
    assert [pod["metadata"]["uid"] for pod in pods()] == [status["runtime"]["id"]]
    said = pod_sandboxes.kubectl("exec", status["runtime"]["name"], "--", "sh", "-c", "cat /tmp/setup")
    assert said == "done\n"


@pytest.mark.parametrize("step", REPLACE)
def test_while_it_replaces(
    step: str, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    pod_sandboxes.apply(pod_sandboxes.policy(hotWindowSeconds=2), pod_sandboxes.sandbox("rain"))
    first = operator_factory(lease=False, **serving_pods()).wait_ready()
    before = pod_sandboxes.wait("rain", "Running")
    first.kill()
    changed = pod_sandboxes.policy(hotWindowSeconds=2, container={"env": {"COLOUR": "blue"}})
    pod_sandboxes.apply(changed)
    time.sleep(2.1)  # cold when the next one comes: there is nothing to tell before it acts
    operator_factory(crash=step, lease=False, **serving_pods()).wait_dead()
    operator_factory(lease=False, **serving_pods()).wait_ready()
    wait_for(
        lambda: (
            pod_sandboxes.condition("rain") == ("True", "Running")
            and pod_sandboxes.condition("rain", "Drifted") == ("", "")
            and pod_sandboxes.status("rain")["configHash"] != before["configHash"]
        ),
        what="it runs as wanted",
        tell=lambda: str(pod_sandboxes.status("rain")),
    )
    after = pod_sandboxes.status("rain")
    assert after["configHash"] == after["desiredConfigHash"]
    assert [pod["metadata"]["uid"] for pod in pods()] == [after["runtime"]["id"]]
    assert after.get("recoveries", 0) == 0


@pytest.mark.parametrize("step", PRUNE)
def test_while_it_prunes(
    step: str, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    # However slow the machine is, it is seen running before it is idle.
    lasting = pod_sandboxes.policy(hotWindowSeconds=1)
    pod_sandboxes.apply(lasting, pod_sandboxes.sandbox("rain"))
    first = operator_factory(lease=False, **serving_pods()).wait_ready()
    before = pod_sandboxes.wait("rain", "Running")
    first.kill()
    pod_sandboxes.apply(pod_sandboxes.policy(hotWindowSeconds=1, prune={"idleSeconds": 3}))
    operator_factory(crash=step, lease=False, **serving_pods()).wait_dead()
    operator_factory(lease=False, **serving_pods()).wait_ready()
    pod_sandboxes.wait("rain", "Idle")
    wait_for(lambda: not pods(), what="its Pod is gone")
    pod_sandboxes.apply(lasting)
    pod_sandboxes.touch("rain")
    after = pod_sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] != before["runtime"]["id"]
    assert after.get("recoveries", 0) == 0
