"""One line for each part of a run, so that it shows what became quicker or slower, and when."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from bench.figures import Json

__all__ = ["append"]

_FILE: Final = "performance-history.jsonl"
_HEADLINES: Final[dict[str, tuple[str, ...]]] = {
    "podApplyToReady": ("ratio",),
    "applyToReady": ("ratio",),
    "burst": ("ofTheCeiling", "sketchOfTheCeiling"),
    "rate": ("p50Ratio", "p99Ratio"),
    "calmRate": ("p50Ratio", "p99Ratio"),
    "steps": ("count",),
    "unchanged": ("passes", "writes"),
    "scale": ("kibEach", "planned"),
}
"""Which figures of each section are kept, besides its targets."""


def append(machine: Json, figures: Json, texts: Json, folder: Path) -> None:
    """Add a line for a part that is about to be written, if it is one of those that are kept."""
    kept = {name: _headline(name, one) for name, one in figures.items() if name in _HEADLINES}
    if not kept:
        return
    loads = [text["loadAverage"] for text in texts.values()]
    line: Json = {
        "date": max(text["date"] for text in texts.values()),
        "commit": _commit(),
        "machine": {name: machine[name] for name in ("cores", "processor", "memoryGiB")},
        "loadAverage": [loads[0][0], loads[-1][1]],
        "figures": kept,
    }
    with (folder / _FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _headline(name: str, figures: Json) -> Json:
    kept: dict[str, Any] = {each: figures[each] for each in _HEADLINES[name] if each in figures}
    targets = figures.get("targets", ())
    if targets:
        kept["targets"] = {each["what"]: each["measured"] for each in targets}
    return kept


def _commit() -> str:
    """Return what was measured; with a plus where the checkout had changes of its own, these documents aside."""
    said = _git("describe", "--always", "--abbrev=10", "--exclude=*")
    changed = _git("status", "--porcelain", "--", ":/", ":!/docs").stdout.strip()
    return (said.stdout.strip() or "unknown") + ("+" if changed else "")


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
