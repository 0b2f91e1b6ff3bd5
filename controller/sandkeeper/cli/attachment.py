"""A command in a sandbox, with its streams joined to ours. Whether it is in a container or a Pod, others know."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final, Protocol

from sandkeeper.cli import terminal
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.sandboxes import Object

__all__ = ["STDERR", "STDOUT", "Attachment", "Begin", "WayIn", "join"]

STDOUT: Final = 1
STDERR: Final = 2
_CHUNK: Final = 65536


class Attachment(Protocol):
    """A command that runs, and the connection that carries its streams."""

    def send(self, data: bytes) -> None:
        """Pass input on; OSError where nobody takes it any more. Called on a thread of its own."""

    def end_input(self) -> None:
        """Tell that the input ended."""

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Yield what the command prints, and on which stream, until it ends."""

    def resize(self) -> None:
        """Tell the other terminal how large ours is."""

    def exit_code(self) -> int:
        """Return the command's exit code, after its output has ended."""


class Begin(Protocol):
    """Begins a command; leaving the context gives up the connection, and does not end the command."""

    def __call__(
        self, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AbstractContextManager[Attachment]:
        """Nothing of our environment goes with it."""


WayIn = Callable[[Cluster, Object], AbstractContextManager[Begin]]
"""Finds where a Sandbox runs, and makes sure that it is there that it was recorded to run."""


def join(attachment: Attachment, *, stdin: bool, tty: bool) -> int:
    """Join a command's streams to ours until it ends, and return its exit code."""
    with terminal.raw(attachment.resize) if tty else nullcontext():
        if stdin:
            threading.Thread(target=_feed, args=[attachment], name="stdin", daemon=True).start()
        for stream, data in attachment.output():
            target = sys.stderr.buffer if stream == STDERR else sys.stdout.buffer
            target.write(data)
            target.flush()
    return attachment.exit_code()


def _feed(attachment: Attachment) -> None:
    with suppress(OSError):  # the command ended without reading everything
        while data := os.read(sys.stdin.fileno(), _CHUNK):
            attachment.send(data)
        attachment.end_input()
