"""Why a Pod that has a node does not come up: where its own status is silent, the kubelet's Events tell.

Volumes that cannot be mounted or attached show nowhere else. Events cost a list each, so only a Pod that takes longer
than any that is well is asked after.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sandkeeper.api.conditions import Reason
from sandkeeper.cluster.api import ApiError, KubeApi
from sandkeeper.cluster.resources import EVENTS
from sandkeeper.lifecycle.model import Observed, RuntimeState
from sandkeeper.runtimes.pod.view import PodView

__all__ = ["Hindrances", "find_hindrance", "read_hindrance"]

logger = logging.getLogger(__name__)

_PATIENCE: Final = timedelta(seconds=10)
_BELIEVED_SECONDS: Final = 20.0

Hindrance = tuple[Reason, str]


class Hindrances:
    """Asks after Pods that take their time."""

    def __init__(self, api: KubeApi, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._api = api
        self._now = now
        self._answers: dict[str, tuple[float, Hindrance | None]] = {}

    async def judge(self, pod: PodView, seen: Observed) -> Observed:
        """Say what keeps a Pod from starting, if that is known and its status does not say it."""
        if (
            seen.state is not RuntimeState.STARTING
            or seen.waits_for is not None
            or not pod.node
            or self._now() - pod.created_at < _PATIENCE
        ):
            return seen
        hindrance = await self._find(pod)
        return seen if hindrance is None else replace(seen, waits_for=hindrance[0], message=hindrance[1])

    async def _find(self, pod: PodView) -> Hindrance | None:
        now = time.monotonic()
        self._answers = {
            uid: known for uid, known in self._answers.items() if now - known[0] <= _BELIEVED_SECONDS
        }
        if pod.uid not in self._answers:
            self._answers[pod.uid] = now, await self._ask(pod)
        return self._answers[pod.uid][1]

    async def _ask(self, pod: PodView) -> Hindrance | None:
        chosen = {"fieldSelector": f"involvedObject.uid={pod.uid},type=Warning"}
        events: list[dict[str, Any]] = []
        try:
            async for page, _ in self._api.pages(EVENTS, namespace=pod.namespace, params=chosen):
                events.extend(page)
        except ApiError as error:
            logger.debug("Cannot read the Events of %s/%s: %s", *pod.id, error)
            return None
        return find_hindrance(events)


def find_hindrance(events: Iterable[Mapping[str, Any]]) -> Hindrance | None:
    """Return what the latest of a Pod's warnings means that keeps it from starting; others say nothing about that."""
    latest_first = sorted(events, key=_when, reverse=True)
    return next(filter(None, map(read_hindrance, latest_first)), None)


def read_hindrance(event: Mapping[str, Any]) -> Hindrance | None:
    """Tell what an Event of the kubelet or of the attacher means; None: nothing that keeps a Pod from starting."""
    reason, message = event.get("reason", ""), event.get("message", "")
    if reason == "FailedAttachVolume" and "Multi-Attach" in message:
        return Reason.VOLUME_BUSY, f"Its volume is held on another node: {message}"
    if reason in {"FailedMount", "FailedAttachVolume", "FailedMapVolume"}:
        return Reason.VOLUME_MISSING, f"Its volume cannot be mounted: {message}"
    if reason == "FailedCreatePodSandBox":
        return Reason.START_FAILED, f"The node cannot start the Pod: {message}"
    return None


def _when(event: Mapping[str, Any]) -> str:
    """Return when an Event was last seen, in a form that sorts."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
