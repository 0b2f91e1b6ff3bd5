"""File descriptors of a running process: how many it has, and taking away those that it does not have yet."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

__all__ = ["limited", "open_descriptors", "spare"]


def open_descriptors(pid: int) -> frozenset[int]:
    """Return the numbers of what a process has open."""
    return frozenset(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())


def spare(pid: int) -> int:
    """Count the descriptors that a process may still open: those that are free below its limit."""
    limit, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return limit - sum(number < limit for number in open_descriptors(pid))


@contextmanager
def limited(pid: int, *, to_spare: int) -> Iterator[None]:
    """Let a process open only so many more, until the end; what it has open it keeps."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = open_descriptors(pid)
    free = (number for number in count() if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(islice(free, to_spare, None)), before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it may have been killed meanwhile
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
