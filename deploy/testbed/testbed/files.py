"""Files that others may be reading while we write them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def ensure(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Let a file have this content: whole at any moment, and untouched where it has it already."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=mode)
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
