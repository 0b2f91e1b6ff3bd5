"""What to look at next: a queue of keys, each at most once, and never with two workers at the same time.

There are three lines. What was begun is finished first, so that of a thousand who come at once some are served soon
instead of all at the end. Then comes what was just made or touched; and then what nobody waits for: a thousand
deadlines at once, or an edited policy, do not hold up whoever comes meanwhile.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["KeyedQueue"]

_TURN: Final = 4
"""One key in so many is taken from the last line that has any, so that nothing is put off for ever."""

K = TypeVar("K")


class _Line(IntEnum):
    FIRST = 0
    SOON = 1
    LATER = 2


class _Turn(NamedTuple):
    """Moments of a key that is worked on, by the queue's clock."""

    asked_at: float
    taken_at: float


class KeyedQueue(Generic[K]):
    """A key that is added while it waits is not added again; while it is worked on, it waits for its turn.

    ``on_take`` is told how many seconds each key has waited.
    """

    def __init__(
        self,
        *,
        on_take: Callable[[float], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_take = on_take
        self._clock = clock
        self.added = 0
        """How often a key was added that did not wait already."""
        self._lines: tuple[deque[K], ...] = tuple(deque() for _ in _Line)
        """Also of keys that moved up to another by now, or are worked on: those are passed over."""
        self._ready = asyncio.Semaphore(0)
        """Counts the keys that wait and are not worked on."""
        self._waiting: dict[K, _Line] = {}
        self._asked_at: dict[K, float] = {}
        """Since when they wait."""
        self._working: dict[K, _Turn] = {}
        self._taken = 0
        self._idle = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def working(self) -> int:
        """How many keys are being worked on."""
        return len(self._working)

    def asked_at(self, key: K) -> float:
        """Return since when a key that is worked on had waited; of any other, the present moment."""
        turn = self._working.get(key)
        return turn.asked_at if turn is not None else self._clock()

    def unfinished(self) -> list[float]:
        """Return how many seconds each of the keys that are worked on has taken so far."""
        now = self._clock()
        return [now - turn.taken_at for turn in self._working.values()]

    @property
    def in_hand(self) -> Iterable[K]:
        """The keys that are being worked on."""
        return iter(self._working)

    def add_first(self, key: K) -> None:
        """Ask for a look at a key whose work was begun before. Never waits."""
        self._add(key, _Line.FIRST)

    def add(self, key: K) -> None:
        """Ask for a look at the key, soon."""
        self._add(key, _Line.SOON)

    def add_later(self, key: K) -> None:
        """Ask for a look at the key when there is time."""
        self._add(key, _Line.LATER)

    async def get(self) -> K:
        """Wait for a key that nobody works on, and take it; give it back with :meth:`done`."""
        await self._ready.acquire()
        self._taken += 1
        order = reversed(_Line) if self._taken % _TURN == 0 else _Line
        key = next(key for line in order if (key := self._pop(line)) is not None)
        del self._waiting[key]
        turn = self._working[key] = _Turn(asked_at=self._asked_at.pop(key), taken_at=self._clock())
        self._on_take(turn.taken_at - turn.asked_at)
        self._idle.clear()
        return key

    def done(self, key: K) -> None:
        """Give the key back; if it was added meanwhile, it waits for its turn now."""
        self._working.pop(key, None)
        if not self._working:
            self._idle.set()
        line = self._waiting.get(key)
        if line is not None:
            self._lines[line].append(key)
            self._ready.release()

    async def idle(self) -> None:
        """Wait until nothing is being worked on."""
        if self._working:
            await self._idle.wait()

    def _add(self, key: K, line: _Line) -> None:
        known = self._waiting.get(key)
        if known is not None and known <= line:
            return
        self._waiting[key] = line
        if known is None:
            self.added += 1
            self._asked_at[key] = self._clock()
        if key not in self._working:
            self._lines[line].append(key)
            if known is None:
                self._ready.release()

    def _pop(self, line: _Line) -> K | None:
        keys = self._lines[line]
        while keys:
            key = keys.popleft()
            if self._waiting.get(key) is line and key not in self._working:
                return key
        return None
