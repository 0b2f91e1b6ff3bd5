"""What is said over the connection to a command in a Pod.

It is a WebSocket whose messages begin with the number of a stream. Version 5 of the protocol is the first in which the
end of a stream can be told, without which a command that reads its input to the end never ends.
"""

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

__all__ = ["PROTOCOL", "Stream", "Verdict"]

PROTOCOL: Final = "v5.channel.k8s.io"

_NOT_STARTED: Final = (
    (127, ("executable file not found", "no such file or directory")),
    (126, ("permission denied", "not a directory")),
)
"""What a shell would end with, by the words of the container runtime. Docker's engine finds it out like this, too."""
_RUNTIME_SAYS: Final = "OCI runtime exec failed: "


class Stream(IntEnum):
    """The first byte of a message."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    VERDICT = 3
    """How the command ended; after all of its output."""
    SIZE = 4
    """Of the terminal."""
    CLOSE = 255
    """That another stream ended, whose number is the second byte."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a command ended."""

    code: int | None
    """Its exit code; None: it has none, because the command was not started."""
    message: str

    @classmethod
    def parse(cls, said: bytes) -> "Verdict":
        """Read what came on the stream of that name."""
        status = json.loads(said)
        message = str(status.get("message") or "no reason was given")
        if status.get("status") == "Success":
            return cls(code=0, message="")
        causes = (status.get("details") or {}).get("causes") or []
        codes = [cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"]
        return cls(code=int(codes[0]) if codes and codes[0].isdecimal() else None, message=message)

    @property
    def not_started(self) -> tuple[int, str] | None:
        """Where it is the command that could not be started: the code that a shell has for it, and why.

        None: it was started, or what kept it from that has nothing to do with the command.
        """
        said = self.message.partition(_RUNTIME_SAYS)[2]
        found = (code for code, words in _NOT_STARTED if any(each in said for each in words))
        code = next(found, None) if self.code is None else None
        return None if code is None else (code, said)
