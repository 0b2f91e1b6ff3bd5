"""Watches that cost next to nothing: they see in the bytes of an event what they are asked for.

Of a thousand Pods there are five thousand events of some kilobytes. Whoever parsed them would take from the very
processors that are measured, and would be late in saying when something was Ready.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Self

from bench.kube import Kube, Lines, pods, sandboxes

__all__ = ["POD_READY", "SANDBOX_READY", "Elsewhere", "Observer"]

POD_READY: Final = re.compile(rb'"type":"Ready"[^{}]*"status":"True"')
SANDBOX_READY: Final = re.compile(rb'"status":"True","type":"Ready"')
"""Custom resources have their keys in alphabetical order, Pods in that of their Go type."""

_NAME: Final = re.compile(rb'"name":"([^"]+)"')
_ADDED: Final = b'{"type":"ADDED"'
_DELETED: Final = b'{"type":"DELETED"'


class Observer(Lines):
    """Notes of each object of a namespace when it was first Ready; the clock is time.monotonic."""

    def __init__(
        self, kube: Kube, namespace: str, path: Callable[[str | None], str], ready: re.Pattern[bytes]
    ) -> None:
        super().__init__(kube, path(namespace))
        self._ready = ready
        self._wanted: set[str] = set()
        self._done: asyncio.Future[None] | None = None
        self._failed: Exception | None = None
        self.ready_at: dict[str, float] = {}
        self.events: Counter[str] = Counter()
        """How many events there were of each object: one for each write that changed it."""

    def take(self, line: bytes) -> None:
        """Note what an event tells."""
        at = time.monotonic()
        named = _NAME.search(line)
        if named is None or line.startswith(_DELETED):
            return
        name = named[1].decode()
        self.events[name] += 1
        if name not in self.ready_at and self._ready.search(line):
            self.ready_at[name] = at
            self._wanted.discard(name)
            if not self._wanted and self._done is not None and not self._done.done():
                self._done.set_result(None)

    def fail(self, error: Exception) -> None:
        """Tell whoever waits, or will."""
        self._failed = error
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    def forget(self, ready: re.Pattern[bytes] | None = None) -> None:
        """Forget what was seen so far; from now on, look for something else where it is given."""
        self._ready = ready or self._ready
        self.ready_at.clear()
        self.events.clear()

    async def all_ready(self, names: Sequence[str], *, limit: float) -> None:
        """Wait until each of these was seen Ready; raise what ended the watch, whenever it did."""
        if self._failed is not None:
            raise self._failed
        self._wanted = set(names) - self.ready_at.keys()
        self._done = asyncio.get_running_loop().create_future()
        if not self._wanted:
            return
        try:
            async with asyncio.timeout(limit):
                await self._done
        except TimeoutError:
            some = ", ".join(sorted(self._wanted)[:5])
            raise TimeoutError(
                f"{len(self._wanted)} of {len(names)} not there within {limit:g} s, such as {some}"
            ) from None


class Elsewhere:
    """Counts what others on the same cluster do to Sandboxes and Pods: the API server's counters tell nobody apart."""

    def __init__(self, kube: Kube, namespaces: Sequence[str]) -> None:
        fields = ",".join(f"metadata.namespace!={each}" for each in namespaces)
        self._counts = [_Count(kube, path(None), fields=fields) for path in (sandboxes, pods)]

    async def __aenter__(self) -> Self:
        """Begin."""
        for each in self._counts:
            await each.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        for each in self._counts:
            await each.__aexit__()

    @property
    def seen(self) -> int:
        """How many events there were."""
        return sum(each.seen for each in self._counts)


class _Count(Lines):
    seen = 0

    def take(self, line: bytes) -> None:
        self.seen += 1
