"""Our own terminal while another one is attached to it."""

import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["is_terminal", "raw", "size"]


def is_terminal() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def size() -> tuple[int, int]:
    """Return rows and columns."""
    columns, rows = os.get_terminal_size(sys.stdin.fileno())
    return rows, columns


@contextmanager
def raw(on_resize: Callable[[], None]) -> Iterator[None]:
    """Pass every key on as it is, Ctrl-C among them, and tell of new sizes; restore the terminal at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handler = signal.signal(signal.SIGWINCH, lambda _number, _frame: on_resize())
    try:
        # At once: the default throws away what was typed while we connected.
        tty.setraw(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)
