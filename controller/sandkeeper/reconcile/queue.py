"""What to look at next: a queue of keys, each at most once, and never with two workers at the same time."""

import asyncio
from typing import Generic, TypeVar

__all__ = ["KeyedQueue"]

K = TypeVar("K")


class KeyedQueue(Generic[K]):
    """A key that is added while it waits is not added again; while it is worked on, it waits for its turn."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._working: set[K] = set()
        self._idle = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def working(self) -> int:
        """How many keys are being worked on."""
        return len(self._working)

    def add(self, key: K) -> None:
        """Ask for a look at the key, soon. Never waits."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._ready.put_nowait(key)

    async def get(self) -> K:
        """Wait for a key that nobody works on, and take it; give it back with :meth:`done`."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working.add(key)
        self._idle.clear()
        return key

    def done(self, key: K) -> None:
        """Give the key back; if it was added meanwhile, it waits for its turn now."""
        self._working.discard(key)
        if not self._working:
            self._idle.set()
        if key in self._waiting:
            self._ready.put_nowait(key)

    async def idle(self) -> None:
        """Wait until nothing is being worked on."""
        if self._working:
            await self._idle.wait()
