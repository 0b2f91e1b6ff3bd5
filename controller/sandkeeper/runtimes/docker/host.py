"""Threads for the files of the host, which may hang as well as an engine: a network file system often does."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Transient
from sandkeeper.runtimes.docker.pool import DaemonPool
from sandkeeper.runtimes.docker.sources import reason_of

__all__ = ["Host"]

T = TypeVar("T")

_THREADS: Final = 4


class Host:
    """The host that the engine runs on. Whatever is asked of it ends for its caller within the time-out."""

    def __init__(self, *, timeout: float) -> None:
        self._timeout = timeout
        self._pool = DaemonPool(size=_THREADS, name="docker-host")
        # Apart, for what is removed is waited for by nobody, and may take long.
        self._brooms = DaemonPool(size=1, name="docker-broom")

    async def run(self, call: Callable[[], T]) -> T:
        """Call it on a thread. Transient where it does not end, or the operating system fails; else its own errors."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._pool.submit(call)
        except TimeoutError:
            raise Transient(
                Reason.VOLUME_MISSING,
                f"The directories of the host could not be looked at within {self._timeout:g} seconds; a file system "
                "may hang.",
            ) from None
        except OSError as error:
            where = f" at {error.filename}" if isinstance(error.filename, str) else ""
            message = f"The directories of the host could not be looked at{where}: {reason_of(error)}."
            raise Transient(Reason.VOLUME_MISSING, message) from error

    def sweep(self, call: Callable[[], None]) -> None:
        """Let it be called some time, unheard."""
        self._brooms.submit(call).add_done_callback(lambda job: job.cancelled() or job.exception())

    def close(self) -> None:
        """Let the threads end."""
        self._pool.close()
        self._brooms.close()
