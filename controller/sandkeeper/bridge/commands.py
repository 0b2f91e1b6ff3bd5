"""How a command gets into a sandbox: all that the bridge needs to know of a backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sandkeeper.bridge.errors import Unavailable

__all__ = ["Ended", "Exec", "Output"]

_COMPLAINTS: Final = 2048
"""Bytes of standard error that are kept, for whoever wonders why a command failed."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that ended."""

    code: int | None
    """126 and 127: it did not begin, as a shell has it; None: how it ended is not known."""
    stdout: bytes
    stderr: bytes
    """The beginning of it."""


class Exec(Protocol):
    """Runs commands in one sandbox, as its own user."""

    async def __call__(self, command: Sequence[str], stdin: bytes, *, limit: int, seconds: float) -> Ended:
        """Run a command to its end, within a time.

        Raises :class:`~sandkeeper.bridge.errors.Unavailable` where it could not be run or did not end, and where it
        printed more than ``limit`` bytes, of which no more than that are ever held.
        """


class Output:
    """What a command prints, up to a bound."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._complained = 0

    def stdout(self, data: bytes) -> None:
        """Take in what came on standard output; Unavailable: it is too much."""
        self._check(len(self._stdout) + len(data))
        self._stdout += data

    def stderr(self, data: bytes) -> None:
        """Take in what came on standard error, likewise."""
        self._complained += len(data)
        self._check(self._complained)
        self._stderr += data[: _COMPLAINTS - len(self._stderr)]

    def ended(self, code: int | None) -> Ended:
        """Return what there is to say, now that it ended."""
        return Ended(code=code, stdout=bytes(self._stdout), stderr=bytes(self._stderr))

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise Unavailable(
                f"the sandbox answered with more than the {self._limit} bytes that an answer has"
            )
