"""Figures: series of samples, tables of them, and the sections that a report is made of."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Json", "Section", "Series", "Table", "milliseconds", "ratio", "seconds", "wrapped"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Series:
    """Samples of one thing."""

    samples: tuple[float, ...]

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Series":
        """Take the samples as they are now."""
        return cls(tuple(samples))

    @property
    def p50(self) -> float:
        """The median."""
        return self.percentile(50)

    @property
    def p90(self) -> float:
        """What nine of ten samples stay within."""
        return self.percentile(90)

    def percentile(self, percent: float) -> float:
        """Interpolate between the two samples that are next to the rank."""
        ordered = sorted(self.samples)
        rank = (len(ordered) - 1) * percent / 100
        low, high = math.floor(rank), math.ceil(rank)
        return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)

    def to_json(self, *, digits: int = 4) -> Json:
        """Return what is worth keeping of it."""
        return {
            "p50": round(self.p50, digits),
            "p90": round(self.p90, digits),
            "n": len(self.samples),
        }


def milliseconds(value: float) -> str:
    """Write seconds as whole milliseconds."""
    return f"{value * 1000:.0f} ms"


def seconds(value: float) -> str:
    """Write seconds with two decimals."""
    return f"{value:.2f} s"


def ratio(one: float, other: float) -> float:
    """Return how many times as much."""
    return one / other if other else math.inf


def wrapped(text: str, *, indent: str = "") -> str:
    """Break a paragraph into lines as the other documents have them."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


@dataclass(frozen=True)
class Table:
    """Rows of text below a header; the first column is to the left, the others to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_markdown(self) -> str:
        """Write it as Markdown."""
        rule = ["---", *("--:" for _ in self.header[1:])]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.header, rule, *self.rows))


@dataclass(frozen=True, kw_only=True)
class Section:
    """One measurement: what it is, what came of it, and what that means."""

    name: str
    """Its key in the JSON."""
    title: str
    method: str
    tables: tuple[Table, ...]
    headline: str
    """What to remember of it."""
    verdict: str = ""
    data: Json = field(default_factory=dict)
    part: str = ""
    """What the command line calls it."""

    def to_markdown(self) -> str:
        """Write it as Markdown."""
        parts = [f"## {self.title}", wrapped(self.method), *(table.to_markdown() for table in self.tables)]
        parts += [wrapped(self.verdict)] if self.verdict else []
        return "\n\n".join([*parts, *([f"Alone: `make bench PARTS={self.part}`."] if self.part else [])])
