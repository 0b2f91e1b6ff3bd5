"""The end of what a command printed, fit to be shown: bounded, without secrets, without control characters."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent

__all__ = ["LONGEST", "Tail", "setup_failed"]

LONGEST: Final = 1024
"""Bytes of output that are shown."""
_SHORTEST_SECRET: Final = 4
"""Shorter values (``1``, ``no``) are in every text and tell nothing."""
_MASK: Final = b"***"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")
"""All but tab and newline: what a terminal would act upon."""


class Tail:
    """Takes any amount of output and keeps enough of it to show the end.

    Values of environment variables are masked before anything is cut: a value that the cut goes through would be shown
    in part, and not recognised. So more is kept than is shown, by the length of the longest value.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        secrets = sorted(_secrets(env.values()), key=len, reverse=True)
        self._secret = re.compile(b"|".join(map(re.escape, secrets))) if secrets else None
        self._margin = len(secrets[0]) if secrets else 0
        self._kept = bytearray()
        self._cut = False

    def add(self, output: bytes) -> None:
        """Take in what was printed next."""
        self._kept += output
        surplus = len(self._kept) - LONGEST - self._margin
        if surplus > 0:
            del self._kept[:surplus]
            self._cut = True

    def text(self) -> str:
        """Return the end of the output, at most 1 KiB in UTF-8."""
        # In the margin there may be the rest of a value that was cut; nothing of it is shown.
        start = self._margin if self._cut else 0
        shown = self._masked(bytes(self._kept), start).decode("utf-8", errors="replace")
        return _CONTROL.sub("", shown).encode()[-LONGEST:].decode("utf-8", errors="ignore").strip()

    def _masked(self, kept: bytes, start: int) -> bytes:
        if self._secret is None:
            return kept[start:]
        parts = []
        for match in self._secret.finditer(kept):
            if match.end() > start:
                parts += [kept[start : match.start()], _MASK]
                start = match.end()
        return b"".join([*parts, kept[start:]])


def setup_failed(how: str, tail: Tail) -> Permanent:
    """Say how a setupCommand failed, and how its output ends."""
    output = tail.text()
    said = f" Its output ends:\n{output}" if output else " It printed nothing."
    return Permanent(Reason.SETUP_FAILED, f"The setupCommand {how}.{said}")


def _secrets(values: Iterable[str]) -> set[bytes]:
    """Return each value, and each line of one that has several, for programs print line by line."""
    texts = {
        text for value in values for text in (value.strip(), *(line.strip() for line in value.splitlines()))
    }
    return {text.encode("utf-8", errors="surrogatepass") for text in texts if len(text) >= _SHORTEST_SECRET}
