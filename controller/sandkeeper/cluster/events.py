"""Events: what ``kubectl describe`` tells a user about a Sandbox.

They are posted by one task from a bounded queue, a few together, before and after which it waits: telling must never
slow down doing. Those about one object are posted one after another: in another order they would tell another story.
When the queue is full the oldest is dropped; conditions still say how things stand.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from sandkeeper.api.names import API_VERSION
from sandkeeper.cluster.api import ApiError, KubeApi
from sandkeeper.cluster.resources import EVENTS
from sandkeeper.telemetry.metrics import Metrics

__all__ = ["EventPoster", "Note"]

logger = logging.getLogger(__name__)

_QUEUED: Final = 10_000
_TOGETHER: Final = 4
"""Events posted at once. A process that wakes up for each of them takes twice the processor time."""
_GATHERING: Final = 0.25
"""Seconds that the first waits for others. What it tells of has just begun, and needs the API server more."""
_REST: Final = 6
"""How many times as long as the last Events took the next ones wait: the busier the API server, the longer."""
_LONGEST_REST: Final = 0.8
"""Seconds. A thousand Events should not take half an hour, however busy it is."""
_LONGEST: Final = 1024
"""The API server's bound on an Event's note."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """One Event about one object of ours."""

    about: Literal["Sandbox", "AgentSandboxPolicy"] = "Sandbox"
    namespace: str
    name: str
    uid: str
    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


class EventPoster:
    """Posts Events, a few at a time; those about one object in the order in which they were told."""

    def __init__(self, api: KubeApi, *, metrics: Metrics, component: str = "sandkeeper") -> None:
        self._api = api
        self._metrics = metrics
        self._component = component
        self._queue: asyncio.Queue[Note] = asyncio.Queue(_QUEUED)

    def post(self, note: Note) -> None:
        """Take an Event for posting; never waits."""
        if self._queue.full():
            dropped = self._queue.get_nowait()
            self._metrics.events_dropped.inc()
            logger.warning("Dropping an Event about %s/%s: too many wait", dropped.namespace, dropped.name)
        self._queue.put_nowait(note)

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            notes = [await self._queue.get()]
            if self._queue.qsize() < _TOGETHER - 1:
                await asyncio.sleep(_GATHERING)
            while len(notes) < _TOGETHER and not self._queue.empty():
                notes.append(self._queue.get_nowait())
            began = time.monotonic()
            stories: dict[str, list[Note]] = {}
            for note in notes:
                stories.setdefault(note.uid, []).append(note)
            await asyncio.gather(*map(self._tell, stories.values()))
            await asyncio.sleep(min(_REST * (time.monotonic() - began), _LONGEST_REST))

    async def _tell(self, story: list[Note]) -> None:
        for note in story:
            await self._post(note)

    async def _post(self, note: Note) -> None:
        try:
            await self._api.create(EVENTS, self._body(note), namespace=note.namespace)
        except ApiError as error:
            # A namespace on its way out takes no new objects; anything else is worth a line.
            if error.status not in {403, 404}:
                logger.warning("Cannot post an Event about %s/%s: %s", note.namespace, note.name, error)

    def _body(self, note: Note) -> dict[str, object]:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                # In the order of time, as client-go does: `kubectl describe` sorts by seconds, and then by name.
                "name": f"{note.name[:200].rstrip('-.')}.{time.time_ns():x}",
                "namespace": note.namespace,
            },
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": note.about,
                "namespace": note.namespace,
                "name": note.name,
                "uid": note.uid,
            },
            "type": note.kind,
            "reason": note.reason,
            "message": note.message[:_LONGEST],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._component,
        }
