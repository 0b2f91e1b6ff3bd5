"""Threads for calls that may hang.

The executors of the standard library are joined when the interpreter ends, so one hanging call would keep the process
from ending. These threads are daemons: they are simply left behind.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Generic, TypeVar

__all__ = ["DaemonPool"]

T = TypeVar("T")
V = TypeVar("V")


class _Job(Generic[T]):
    """One call, and the future that waits for it."""

    def __init__(self, call: Callable[[], T], discard: Callable[[T], None] | None) -> None:
        self._call = call
        self._discard = discard
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        """What is logged on the thread belongs to the pass that asked."""
        self.future: asyncio.Future[T] = self._loop.create_future()

    def run(self) -> None:
        """Carry it out, on a thread of the pool."""
        if self.future.done():
            return  # whoever asked gave up while it waited for a thread
        try:
            result = self._context.run(self._call)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to whoever asked
            self._hand_over(self._fail, error)
        else:
            if not self._hand_over(self._settle, result) and self._discard is not None:
                self._discard(result)

    def _hand_over(self, settle: Callable[[V], None], value: V) -> bool:
        try:
            self._loop.call_soon_threadsafe(settle, value)
        except RuntimeError:
            return False  # the loop is closed, and nobody waits any more
        return True

    def _settle(self, result: T) -> None:
        if not self.future.done():
            self.future.set_result(result)
        elif self._discard is not None:
            self._discard(result)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class DaemonPool:
    """At most ``size`` daemon threads, started as they are needed."""

    def __init__(self, *, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: SimpleQueue[_Job[object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._outstanding = 0

    def submit(
        self, call: Callable[[], T], *, discard: Callable[[T], None] | None = None
    ) -> asyncio.Future[T]:
        """Let a thread call it. ``discard`` gets a result that nobody waits for any more.

        To stop waiting, cancel the future: what has not begun is dropped, what has begun goes on unheard.
        """
        job = _Job(call, discard)
        with self._lock:
            self._outstanding += 1
            self._jobs.put(job)  # type: ignore[arg-type] # a job of any result
            if self._threads < min(self._size, self._outstanding):
                self._threads += 1
                name = f"{self._name}-{self._threads}"
                threading.Thread(target=self._work, args=(self._jobs,), name=name, daemon=True).start()
        return job.future

    def close(self) -> None:
        """Let the threads end once they are done; the pool can be used again all the same."""
        with self._lock:
            jobs, threads = self._jobs, self._threads
            # Others that come later have a queue of their own, or they would take the word that is meant for these.
            self._jobs, self._threads = SimpleQueue(), 0
        for _ in range(threads):
            jobs.put(None)

    def _work(self, jobs: "SimpleQueue[_Job[object] | None]") -> None:
        while (job := jobs.get()) is not None:
            try:
                job.run()
            finally:
                with self._lock:
                    self._outstanding -= 1
            del job  # or its result would live until the next one comes
