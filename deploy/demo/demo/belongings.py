"""What the demo made and therefore takes away; what was there before it stays."""

import json
from pathlib import Path

from testbed import files


class Belongings:
    """A list of names in a file, written before each thing is made, so that a broken start can be taken down."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __contains__(self, name: str) -> bool:
        return name in self._read()

    def add(self, name: str) -> None:
        """Note that something is, or is about to be, made."""
        files.ensure(self._path, json.dumps(sorted({*self._read(), name})))

    def _read(self) -> list[str]:
        try:
            found: list[str] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        return found
