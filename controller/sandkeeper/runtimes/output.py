"""The end of what a command printed, fit to be shown: bounded, without secrets, without control characters."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.pitfalls import pitfalls

__all__ = ["LONGEST", "Tail", "setup_failed"]

LONGEST: Final = 1024
"""Bytes of output that are shown."""
_SHORTEST_SECRET: Final = 4
"""Values of fewer bytes, quotes not counted, (``1``, ``no``) are in every text and tell nothing."""
_MASK: Final = b"***"
_QUOTES: Final = b"\"'\\"
"""What a program that shows what it does (``set -x``) puts around and into a value."""
_MOST_QUOTING: Final = 5
"""Bytes that one may become in quotes: a quote is ``'"'"'``."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")
"""All but tab and newline: what a terminal would act upon."""


class Tail:
    """Takes any amount of output and keeps enough of it to show the end.

    Values of environment variables are masked before anything is cut: a value that the cut goes through would be shown
    in part, and not recognised. So more is kept than is shown, by the length that the longest value may have in it.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._secrets = sorted(_secrets(env.values()))
        self._margin = _MOST_QUOTING * max((len(_bytes(value)) for value in env.values()), default=0)
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
        parts = []
        for first, end in self._found(kept):
            if end > start:
                parts += [kept[start:first], _MASK]
                start = end
        return b"".join([*parts, kept[start:]])

    def _found(self, kept: bytes) -> Iterator[tuple[int, int]]:
        """Find where values stand, however they are quoted, in order; those that overlap are one."""
        places = [place for place, byte in enumerate(kept) if byte not in _QUOTES]
        plain = kept.translate(None, _QUOTES)
        spans = sorted(span for secret in self._secrets for span in _spans(secret, plain))
        first, end = 0, 0
        for next_first, next_end in spans:
            if next_first >= end:
                if end:
                    yield places[first], places[end - 1] + 1
                first = next_first
            end = max(end, next_end)
        if end:
            yield places[first], places[end - 1] + 1


def setup_failed(how: str, tail: Tail, config: RuntimeConfig) -> Permanent:
    """Say how a setupCommand failed, what of the sandbox's hardening that points to, and how its output ends."""
    output = tail.text()
    said = f"Its output ends:\n{output}" if output else "It printed nothing."
    # The output comes last: an Event has less room than a condition.
    return Permanent(
        Reason.SETUP_FAILED, " ".join([f"The setupCommand {how}.", *pitfalls(config, output), said])
    )


def _secrets(values: Iterable[str]) -> set[bytes]:
    """Return each value, and each line of one that has several, for programs print line by line. Without quotes."""
    texts = {
        text for value in values for text in (value.strip(), *(line.strip() for line in value.splitlines()))
    }
    plain = {_bytes(text).translate(None, _QUOTES) for text in texts}
    return {text for text in plain if len(text) >= _SHORTEST_SECRET}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")


def _spans(secret: bytes, text: bytes) -> Iterator[tuple[int, int]]:
    """Give every place of a value."""
    end = 0
    while (first := text.find(secret, end)) >= 0:
        end = first + len(secret)
        yield first, end
