"""The clock of one process, to be set without anybody else's noticing: libfaketime, loaded into that process alone.

Only what the clock on the wall says is changed. The clocks that count from when the machine started go on as they are,
as they do where an administrator or NTP sets a real one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["FakedClock"]

_LIBRARY: Final = "lib*/*/faketime/libfaketimeMT.so.1"
_ROOT: Final = Path("/usr")
_FILE: Final = "FAKETIME_TIMESTAMP_FILE"


class FakedClock:
    """A clock for whoever is started with its environment."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.step(0)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "FakedClock | None":
        """Return the clock of who was started with an environment; None: that is everybody's clock."""
        file = environment.get(_FILE)
        return None if file is None else cls(Path(file))

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process has to be started with; LookupError where libfaketime is not installed."""
        found = sorted(_ROOT.glob(_LIBRARY))
        if not found:
            raise LookupError("a clock cannot be set for one process alone: install libfaketime")
        return {
            "LD_PRELOAD": str(found[0]),
            _FILE: str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def step(self, seconds: int) -> None:
        """Put it so many seconds ahead of the real one, or behind it."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}", encoding="ascii")
        new.replace(self._file)  # whole or not at all: it is read at every moment
