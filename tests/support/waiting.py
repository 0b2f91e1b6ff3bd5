"""Waiting for something to become true: with a generous time-out, and telling what is there when it does not."""

import time
from collections.abc import Callable

__all__ = ["wait_for"]


def wait_for(
    condition: Callable[[], object],
    *,
    what: str,
    timeout: float = 60,
    pause: float = 0.05,
    tell: Callable[[], str] | None = None,
) -> None:
    """Ask until the answer is true, or fail with what was waited for and how things stand."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            state = f"\n{tell()}" if tell else ""
            raise AssertionError(f"not within {timeout:g} s: {what}{state}")
        time.sleep(pause)
