"""A line of keys in which those come first that nobody used for longest."""

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import Generic, TypeVar

__all__ = ["ColdestFirst"]

K = TypeVar("K")


class ColdestFirst(Generic[K]):
    """Each key is in it once. To put one in, to move it, to leave it out and to take the first are all cheap."""

    def __init__(self) -> None:
        self._waiting: dict[K, tuple[datetime, int]] = {}
        self._heap: list[tuple[datetime, int, K]] = []
        """The same; and some who wait no longer, or no longer so."""
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[K]:
        """Iterate in no particular order."""
        return iter(self._waiting)

    def put(self, key: K, last_use: datetime) -> None:
        """Put a key in, or where it belongs by now."""
        known = self._waiting.get(key)
        if known is not None and known[0] == last_use:
            return
        self._sequence += 1  # keys need not be comparable
        self._waiting[key] = (last_use, self._sequence)
        heapq.heappush(self._heap, (last_use, self._sequence, key))
        if len(self._heap) > 2 * len(self._waiting) + 64:  # mostly such as wait no longer
            self._heap = [(at, number, waiting) for waiting, (at, number) in self._waiting.items()]
            heapq.heapify(self._heap)

    def discard(self, key: K) -> None:
        """Leave a key out, if it is in it."""
        self._waiting.pop(key, None)

    def take(self) -> K:
        """Take the first one out; IndexError where there is none."""
        while True:
            last_use, number, key = heapq.heappop(self._heap)
            if self._waiting.get(key) == (last_use, number):
                del self._waiting[key]
                return key
