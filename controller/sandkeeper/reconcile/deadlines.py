"""What to look at later: one heap for all keys, instead of a timer for each.

Sleeps are of 30 s at most, so that a clock that was set ahead, or a machine that slept, is noticed. After a clock was
set back all keys are due: what was reckoned by the wrong time, such as when to try again, may be hours away by the
right one.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from sandkeeper.lifecycle.instants import END, after

__all__ = ["Deadlines", "next_look"]

_LONGEST_SLEEP: Final = 30.0
_SET_BACK: Final = 5.0
"""Seconds that a clock may lose against the one that nobody sets, between two looks at it."""

_LOOKED_AT: Final = timedelta(minutes=30)
"""How long a key is left alone at the most: the price of a piece of news that got lost, wherever that was."""

K = TypeVar("K")


def next_look(moments: Iterable[datetime | None], *, now: datetime, share: float) -> datetime:
    """Return the first of the moments; where it is far away or there is none, some time within half an hour.

    ``share`` of the latter, from 0 to 1, lets keys that came together be looked at one after the other.
    """
    return min(
        [*(moment for moment in moments if moment is not None), after(now, _LOOKED_AT * (1 + share) / 2)]
    )


class Deadlines(Generic[K]):
    """At most one deadline a key. ``on_due`` is called with each key whose time has come.

    ``on_lag`` is told how many seconds too late each was told, where that can be said.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        on_due: Callable[[K], None],
        on_lag: Callable[[float], None] = lambda _: None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._ticks = ticks
        self._seen = now(), ticks()
        self._was_set_back = False
        self._on_due = on_due
        self._on_lag = on_lag
        self._heap: list[tuple[datetime, int, K]] = []
        self._current: dict[K, tuple[datetime, int]] = {}
        self._sequence = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._current)

    def set(self, key: K, at: datetime | None) -> None:
        """Set the key's deadline in place of the one before; None: it has none."""
        if at is None:
            self._current.pop(key, None)
            return
        self._look_at_the_clock()
        self._sequence += 1  # keys need not be comparable
        self._current[key] = (at, self._sequence)
        heapq.heappush(self._heap, (at, self._sequence, key))
        if len(self._heap) > 2 * len(self._current) + 64:  # mostly deadlines that were replaced since
            self._heap = [(when, sequence, known) for known, (when, sequence) in self._current.items()]
            heapq.heapify(self._heap)
        if self._heap[0][2] == key:
            self._changed.set()

    async def run(self) -> None:
        """Tell of deadlines as they pass, until cancelled."""
        while True:
            self._changed.clear()
            pause = self._tell_due()
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _look_at_the_clock(self) -> datetime:
        """Return the time, and notice if that was later before."""
        (then, ticks_then), self._seen = self._seen, (self._now(), self._ticks())
        now, ticks = self._seen
        if (now - then).total_seconds() < ticks - ticks_then - _SET_BACK:
            self._was_set_back = True
            self._changed.set()
        return now

    def _tell_due(self) -> float:
        now = self._look_at_the_clock()
        if self._was_set_back:
            self._was_set_back = False
            now = END
        while self._heap:
            at, sequence, key = self._heap[0]
            if self._current.get(key) != (at, sequence):
                heapq.heappop(self._heap)  # replaced or removed since
                continue
            left = (at - now).total_seconds()
            if left > 0:
                return min(left, _LONGEST_SLEEP)
            heapq.heappop(self._heap)
            del self._current[key]
            if now is not END:
                self._on_lag(-left)
            self._on_due(key)
        return _LONGEST_SLEEP
