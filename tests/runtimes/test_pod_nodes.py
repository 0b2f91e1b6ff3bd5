"""Whether a Pod's node still answers: when that is asked, what is made of the answer, and for how long it counts."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.cluster.api import ApiError, KubeApi, NotFound
from sandkeeper.cluster.resources import NODES, Resource
from sandkeeper.lifecycle.model import Observed, RuntimeState, Unreachable
from sandkeeper.runtimes.pod.nodes import Nodes
from sandkeeper.runtimes.pod.view import PodView

NOW = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)

RUNNING = PodView(
    namespace="team",
    name="sk-dev",
    uid="6fe4",
    resource_version="7",
    key=None,
    owners=(),
    has_controller=True,
    config_hash="v1-0123456789abcdef",
    has_setup=False,
    wiped_for=frozenset(),
    network="",
    image="tools:1",
    user="1000:1000",
    writes={},
    node="one",
    created_at=NOW - timedelta(hours=1),
    deleting_at=None,
    state=RuntimeState.RUNNING,
    ever_ran=True,
    ended=None,
    waits_for=None,
    message="",
    complaints="",
    is_out_of_touch=False,
)
OUT_OF_TOUCH = replace(RUNNING, is_out_of_touch=True)
GOING = replace(RUNNING, state=RuntimeState.TERMINATING, deleting_at=NOW - timedelta(seconds=15))
SLOW = replace(RUNNING, state=RuntimeState.STARTING, created_at=NOW - timedelta(seconds=26))
STUCK = replace(GOING, deleting_at=NOW - timedelta(seconds=16))


class Api:
    """An API server that has one answer about nodes, which may change."""

    def __init__(self, answer: dict[str, Any] | ApiError) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def get(self, resource: Resource, *, name: str) -> dict[str, Any]:
        assert resource is NODES
        self.asked.append(name)
        await asyncio.sleep(0)
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer

    def nodes(self) -> Nodes:
        return Nodes(cast("KubeApi", self), now=lambda: NOW)


def node(status: str, message: str = "") -> dict[str, Any]:
    conditions = [
        {"type": "MemoryPressure", "status": "False"},
        {
            "type": "Ready",
            "status": status,
            "message": message,
            "lastTransitionTime": "2026-11-21T14:59:00Z",
        },
    ]
    return {"metadata": {"name": "one"}, "status": {"conditions": conditions}}


FINE = node("True", "kubelet is posting ready status")
SILENT = node("Unknown", "Kubelet stopped posting node status.")
ILL = node("False", "container runtime is down")
FORBIDDEN = ApiError(403, "nodes is forbidden")


def trouble(judged: Observed | Unreachable) -> str:
    assert isinstance(judged, Unreachable)
    assert judged.reason is Reason.NODE_LOST
    return judged.message


@pytest.mark.parametrize(
    "pod",
    [
        RUNNING,
        GOING,
        replace(RUNNING, node=""),
        replace(SLOW, created_at=NOW - timedelta(seconds=25)),
        replace(SLOW, node=""),
        replace(SLOW, waits_for=Reason.IMAGE_MISSING),
    ],
)
async def test_who_looks_well_is_not_asked_after(pod: PodView) -> None:
    api = Api(SILENT)
    assert await api.nodes().judge(pod) == pod.observed()
    assert api.asked == []


@pytest.mark.parametrize(
    "pod", [OUT_OF_TOUCH, SLOW, STUCK, replace(OUT_OF_TOUCH, deleting_at=GOING.deleting_at)]
)
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (SILENT, "Its node one has not answered since 2026-11-21T14:59:00Z. What ran there may still run"),
        (ILL, "Its node one is not ready (container runtime is down) since 2026-11-21T14:59:00Z. What ran"),
        ({"metadata": {}}, "Its node one has not answered since an unknown time."),
        (NotFound(404, "no such node"), "Its node one is gone. The control plane removes the Pod"),
        (FORBIDDEN, "It cannot be seen whether its node one answers (nodes is forbidden)"),
        (ApiError(0, "refused"), "It cannot be seen whether its node one answers (refused)"),
    ],
)
async def test_of_a_lost_node_nothing_is_known(
    pod: PodView, answer: dict[str, Any] | ApiError, expected: str
) -> None:
    assert trouble(await Api(answer).nodes().judge(pod)).startswith(expected)


@pytest.mark.parametrize("pod", [OUT_OF_TOUCH, SLOW])
async def test_one_that_looks_lost_on_a_node_that_answers_is_as_it_is(pod: PodView) -> None:
    assert await Api(FINE).nodes().judge(pod) == pod.observed()


@pytest.mark.parametrize("ended", [None, Reason.PREEMPTED, Reason.EXITED])
async def test_one_that_does_not_go_from_a_node_that_answers_is_held(ended: Reason | None) -> None:
    """That something holds it is what can be done about; why it was to go was told when it began to."""
    judged = await Api(FINE).nodes().judge(replace(STUCK, ended=ended, message="Why." if ended else ""))
    assert isinstance(judged, Observed)
    assert (judged.state, judged.ended) == (RuntimeState.TERMINATING, None)
    assert judged.message == (
        "The Pod sk-dev was to be gone at 2026-11-21T14:59:44Z, and its node answers: something holds it, such as a "
        "finalizer. Nothing is put beside it."
    )


async def test_one_that_no_node_ever_had_is_held_as_well() -> None:
    api = Api(SILENT)
    judged = await api.nodes().judge(replace(STUCK, node=""))
    assert isinstance(judged, Observed)
    assert "finalizer" in judged.message
    assert api.asked == []


async def test_many_that_are_lost_at_once_ask_once() -> None:
    api = Api(SILENT)
    nodes = api.nodes()
    judged = await asyncio.gather(*(nodes.judge(OUT_OF_TOUCH) for _ in range(50)))
    assert {trouble(each) for each in judged} == {trouble(judged[0])}
    assert api.asked == ["one"]
    await nodes.judge(replace(OUT_OF_TOUCH, node="two"))
    assert api.asked == ["one", "two"]


async def test_that_a_node_answered_does_not_count_for_who_looks_lost_later() -> None:
    api = Api(FINE)
    nodes = api.nodes()
    assert isinstance(await nodes.judge(STUCK), Observed)
    api.answer = SILENT
    assert trouble(await nodes.judge(OUT_OF_TOUCH))


async def test_trouble_is_not_believed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandkeeper.runtimes.pod.nodes._BELIEVED_SECONDS", 0.05)
    api = Api(SILENT)
    nodes = api.nodes()
    assert trouble(await nodes.judge(OUT_OF_TOUCH))
    api.answer = FINE
    await asyncio.sleep(0.1)
    assert isinstance(await nodes.judge(OUT_OF_TOUCH), Observed)
