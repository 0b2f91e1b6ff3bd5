"""What was promised, beside what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.figures import Json, Table

__all__ = ["Target", "table", "to_json", "verdict"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """One promise."""

    what: str
    bound: float
    measured: float | None
    """None: it could not be measured this time."""
    unit: str = ""
    at_least: bool = False
    """Whether the bound is below, and not above."""

    @property
    def is_reached(self) -> bool:
        """Whether it is kept."""
        if self.measured is None:
            return False
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def outcome(self) -> str:
        """Say it."""
        if self.measured is None:
            return "not measured"
        return "reached" if self.is_reached else "missed"


def table(targets: Sequence[Target]) -> Table:
    """Write them as a table."""
    rows = [
        (
            each.what,
            f"{'≥' if each.at_least else '≤'} {each.bound:g}{each.unit}",
            "" if each.measured is None else f"{each.measured:.4g}{each.unit}",
            each.outcome,
        )
        for each in targets
    ]
    return Table(("target", "bound", "measured", ""), tuple(rows))


def verdict(targets: Sequence[Target]) -> str:
    """Say it in a sentence."""
    missed = [each.what for each in targets if each.measured is not None and not each.is_reached]
    reached = sum(each.is_reached for each in targets)
    return f"Targets reached: {reached} of {len(targets)}." + (
        f" Missed: {'; '.join(missed)}." if missed else ""
    )


def to_json(targets: Sequence[Target]) -> list[Json]:
    """Return what is worth keeping of them."""
    return [
        {
            "what": each.what,
            "bound": each.bound,
            "atLeast": each.at_least,
            "measured": None if each.measured is None else round(each.measured, 4),
            "outcome": each.outcome,
        }
        for each in targets
    ]
