"""From when on a slot that is led may be worked on: once all is known that others did there before.

A watch that was cut off may not be back yet when the lead is: what it last told is from before somebody else led. So
whoever comes to lead compares its caches with the API server first, and works on nothing until that has been done.
"""

import asyncio
from collections.abc import Awaitable, Callable

from sandkeeper.cluster.leadership import OnChange
from sandkeeper.cluster.slots import slot_of

__all__ = ["Handover"]


class Handover:
    """Stands between the lead and the work.

    ``catch_up`` returns when everything is as new as the moment at which it was called. ``on_change`` is told which
    slots may no longer be worked on, and which may now.
    """

    def __init__(self, *, catch_up: Callable[[], Awaitable[None]], on_change: OnChange) -> None:
        self._catch_up = catch_up
        self._on_change = on_change
        self._ready: frozenset[int] = frozenset()
        self._waiting: dict[int, int] = {}
        """Slots that are led, and when each came, counted: one that was lost and came again has waited in vain."""
        self._count = 0
        self._wake = asyncio.Event()

    def is_ready(self, namespace: str) -> bool:
        """Whether all is known of the namespace's slot since it came."""
        return slot_of(namespace) in self._ready

    def change(self, lost: frozenset[int], gained: frozenset[int]) -> None:
        """Take in what the lead tells."""
        self._count += 1
        self._waiting = {slot: came for slot, came in self._waiting.items() if slot not in lost}
        self._waiting |= dict.fromkeys(gained, self._count)
        self._ready -= lost
        if lost:
            self._on_change(lost, frozenset())
        if gained:
            self._wake.set()

    async def run(self) -> None:
        """Make ready what comes, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            came = dict(self._waiting)
            await self._catch_up()
            ready = frozenset(slot for slot, count in came.items() if self._waiting.get(slot) == count)
            for slot in ready:
                del self._waiting[slot]
            self._ready |= ready
            if ready:
                self._on_change(frozenset(), ready)
