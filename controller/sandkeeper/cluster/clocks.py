"""Clocks: the one that goes on whatever happens, and how far the one on the wall is from the API server's."""

import contextlib
import email.utils
import time
from collections.abc import Callable
from typing import Final

__all__ = ["ServerClock", "boot_time"]

_TOLERANCE: Final = 30.0
"""Seconds that our clock may be off the API server's for removals that depend on time."""


def boot_time() -> float:
    """Return seconds since boot, including those that the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ServerClock:
    """What time it is for the API server, which tells it in the ``Date`` of every answer.

    From one answer to the next it is counted by the boot-time clock. So a clock on the wall that is set is found out at
    once: with the next answer would be too late, for by then something may have been decided by it.
    """

    def __init__(
        self, *, wall: Callable[[], float] = time.time, boot: Callable[[], float] = boot_time
    ) -> None:
        self._wall = wall
        self._boot = boot
        self._ahead_of_boot: float | None = None

    def note(self, date: str | None) -> None:
        """Take the date of an answer that has just come; one that cannot be read tells nothing."""
        with contextlib.suppress(ValueError, TypeError):
            # Date has whole seconds, cut off: half a second is the best guess of the rest.
            theirs = email.utils.parsedate_to_datetime(date or "").timestamp() + 0.5
            self._ahead_of_boot = theirs - self._boot()

    @property
    def offset(self) -> float | None:
        """Seconds that our clock is ahead of the API server's; None: not known yet."""
        if self._ahead_of_boot is None:
            return None
        return self._wall() - (self._ahead_of_boot + self._boot())

    @property
    def is_trusted(self) -> bool:
        """Whether time may decide about a removal: our clock agrees with the API server's."""
        offset = self.offset
        return offset is not None and abs(offset) <= _TOLERANCE
