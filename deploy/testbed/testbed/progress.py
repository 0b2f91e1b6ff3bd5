"""What the person who waits gets to see: lines with the seconds since the start."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_STARTED = time.monotonic()
_HEARTBEAT = 15.0
_lock = threading.Lock()


def say(text: str) -> None:
    """Print one line; to stderr, because stdout is for what a shell evaluates."""
    with _lock:
        print(f"[{time.monotonic() - _STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


@contextmanager
def step(text: str, *, aloud: bool = True) -> Generator[None, None, None]:
    """Say that something begins, that it still goes on, and how long it took."""
    began = time.monotonic()
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(_HEARTBEAT):
            say(f"{text} ... still at it after {time.monotonic() - began:.0f} s")

    if aloud:
        say(f"{text} ...")
    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        finished.set()
        heart.join()
    say(f"{text}: {time.monotonic() - began:.1f} s")
