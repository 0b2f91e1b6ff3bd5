"""What the person who watches gets to see: what is done, what came of it, and how long it took."""

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

STARTED = time.monotonic()


class NotSoError(AssertionError):
    """Something that the demo promises did not happen."""


def say(text: str) -> None:
    """Print a line or more."""
    print(text, flush=True)


def command(program: str, arguments: Sequence[str]) -> None:
    """Print a command as one would type it."""
    say(f"  $ {shlex.join([program, *arguments])}")


def output(text: str) -> None:
    """Print what a program said, a little to the right."""
    for line in text.rstrip().splitlines():
        say(f"    {line}")


def check(holds: object, promise: str) -> None:
    """Print a promise that is kept; NotSoError otherwise."""
    if not holds:
        raise NotSoError(promise)
    say(f"  ok: {promise}")


@contextmanager
def chapter(title: str) -> Iterator[None]:
    """Print a heading, and at the end how long it took."""
    say(f"\n== {title}")
    began = time.monotonic()
    yield
    say(f"  ({time.monotonic() - began:.1f} s; {time.monotonic() - STARTED:.0f} s since the start)")


if not sys.stdout.isatty():
    # Between the lines of the programs that we run, ours are to stand where they were printed.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
