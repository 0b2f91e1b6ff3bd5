"""What came of the mutants: how many of each package were found, and which were not."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["HEAD", "Score", "scores", "survivors"]

HEAD: Final = f"{'package':<10}{'mutants':>8}{'found':>8}{'survived':>10}{'score':>11}"
"""What stands above the scores."""

_FOUND: Final = frozenset({"found", "without end"})


@dataclass(frozen=True, kw_only=True)
class Score:
    """How the mutants of one package fared."""

    package: str
    tried: int
    found: int

    @property
    def share(self) -> float:
        """Of those that were tried, how many were found, in per cent."""
        return 100 * self.found / self.tried

    def __str__(self) -> str:
        return f"{self.package:<10}{self.tried:>8}{self.found:>8}{self.tried - self.found:>10}{self.share:>9.1f} %"


def scores(fates: Mapping[str, str]) -> list[Score]:
    """Return the score of each package. ``fates``: what became of each mutant, by its name."""
    tried = Counter(_package(name) for name in fates)
    found = Counter(_package(name) for name, fate in fates.items() if fate in _FOUND)
    return [Score(package=package, tried=tried[package], found=found[package]) for package in sorted(tried)]


def survivors(fates: Mapping[str, str]) -> list[str]:
    """Return the names of the mutants that no test found."""
    return [name for name, fate in fates.items() if fate not in _FOUND]


def _package(name: str) -> str:
    return name.split(".")[1]
