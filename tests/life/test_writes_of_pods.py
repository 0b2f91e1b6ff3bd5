"""How often the API server is written to, step by step in the life of a Pod: counted on the way there."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.pods import Pods, serving_pods
from support.proxy import ApiProxy
from support.waiting import wait_for

if TYPE_CHECKING:
    from support.nodes import FakeNodesFactory

pytestmark = [pytest.mark.cluster]

NEW = {"create pods": 1, "patch sandboxes/status": 1}
SECOND = {"patch pods": 1, "patch sandboxes/status": 1}

Written = Callable[[], dict[str, int]]


def settle(operator: OperatorProcess) -> None:
    """Wait until no pass was made for a while."""
    before: list[str] = []
    for _ in range(60):
        now = re.findall(r"^sandkeeper_passes_total\{.*\} \S+$", operator.read("/metrics"), re.MULTILINE)
        if now and now == before:
            return
        before = now
        time.sleep(1)
    raise AssertionError("the operator does not come to rest")


@pytest.fixture
def operator(operator_factory: OperatorFactory, api_proxy: ApiProxy) -> OperatorProcess:
    """One that nobody else comes through the proxy with."""
    through = {"KUBECONFIG": str(api_proxy.kubeconfig)}
    return operator_factory(env=through, **serving_pods(backends=["pod"])).wait_ready()


@pytest.fixture
def written(operator: OperatorProcess, api_proxy: ApiProxy) -> Written:
    """What the operator wrote since this was asked last, Events and leases aside, once it has come to rest."""
    told: Counter[str] = Counter()

    def ask() -> dict[str, int]:
        settle(operator)
        now = Counter(
            f"{one.verb} {one.resource}"
            for one in api_proxy.requests
            if one.verb in {"create", "update", "patch", "delete"}
            and one.resource not in {"events", "leases"}
            and one.status < 300
        )
        added = now - told
        told.update(added)
        return dict(added)

    return ask


@pytest.fixture
def policy(fake_nodes: FakeNodesFactory, pod_sandboxes: Sandboxes) -> dict[str, Any]:
    """Pods are Ready at once: after 2 s a status would say that it takes its time."""
    return pod_sandboxes.policy(pod=fake_nodes().placement)


def test_no_more_than_was_promised(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, policy: dict[str, Any], written: Written
) -> None:
    pod_sandboxes.apply(policy, pod_sandboxes.sandbox("first"))
    pod_sandboxes.wait("first", "Running")
    # Once for each policy.
    assert written() == {**NEW, "create networkpolicies": 1}

    pod_sandboxes.apply(pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    assert written() == NEW

    pod_sandboxes.apply(pod_sandboxes.sandbox("sharer", agentId="rain", sessionKey="second"))
    pod_sandboxes.wait("sharer", "Running")
    assert written() == SECOND

    pod_sandboxes.kubectl("annotate", "sandbox", "rain", "example.com/seen=yes")
    assert written() == {}

    pod_sandboxes.touch("rain")
    assert written() == {}

    pod_sandboxes.kubectl("delete", "sandbox", "sharer")
    # Or the garbage collector was quicker.
    assert written() in ({"patch pods": 1}, {})

    pod_sandboxes.kubectl("delete", "sandbox", "rain", "first")
    wait_for(lambda: not pods(), what="the garbage collector has taken the Pods")
    assert written() == {}
