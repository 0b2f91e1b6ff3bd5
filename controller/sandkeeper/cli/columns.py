"""Lines in columns."""

from collections.abc import Sequence
from typing import Final

__all__ = ["aligned"]

_GAP: Final = 3
"""Blanks between two columns, as kubectl has it."""


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Write lines of as many cells each one below the other."""
    widths = [max(map(len, column)) + _GAP for column in zip(*lines, strict=True)]
    return [
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
