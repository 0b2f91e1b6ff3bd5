"""Which figures are drawn, and how."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.contenders import BARE, OURS, SKETCH
from bench.drawing import Bar, Line, Plot, bars

__all__ = ["FOLDER", "draw", "shown"]

FOLDER: Final = "performance"
"""Beside the report."""

_COLOURS: Final = {BARE: "#8a8f98", SKETCH: "#d98c1f", OURS: "#1668b8"}
_NAMES: Final = {
    "burst": ("throughput",),
    "rate": ("latency",),
    "calmRate": ("calm-latency",),
    "scale": ("memory", "processor"),
}
"""The plots of each section, by its name in the JSON."""


def shown(section: str) -> list[str]:
    """Return the Markdown that shows a section's plots."""
    return [f"![{name}]({FOLDER}/{name}.svg)" for name in _NAMES.get(section, ())]


def draw(figures: Mapping[str, Any], folder: Path) -> None:
    """Draw what was measured; what was not stays as it is."""
    found: dict[str, str] = {}
    if "burst" in figures:
        found["throughput"] = _throughput(figures["burst"])
    if "rate" in figures:
        found["latency"] = _latency(figures["rate"])
    if "calmRate" in figures:
        found["calm-latency"] = _latency(figures["calmRate"])
    if "scale" in figures:
        found |= _scale(figures["scale"])
    target = folder / FOLDER
    if found:
        target.mkdir(exist_ok=True)
    for name, text in found.items():
        (target / f"{name}.svg").write_text(text, encoding="utf-8")


def _throughput(burst: Mapping[str, Any]) -> str:
    contenders = burst["contenders"]
    medians = {
        name: sorted(one["throughput"])[len(one["throughput"]) // 2] for name, one in contenders.items()
    }
    return bars(
        f"{burst['count']} at once",
        "Ready a second",
        [Bar(name, value, _COLOURS[name]) for name, value in medians.items()],
    )


def _latency(rate: Mapping[str, Any]) -> str:
    lines = [
        Line(name, [(latency * 1000, percent) for percent, latency in one["curve"]], _COLOURS[name])
        for name, one in rate["contenders"].items()
    ]
    return Plot(
        title=f"From due to Ready, {rate['perSecond']:g} a second",
        x="milliseconds",
        y="percent that are Ready",
        lines=lines,
        logarithmic=True,
    ).to_svg()


def _scale(scale: Mapping[str, Any]) -> dict[str, str]:
    sizes = scale["sizes"]
    memory = [(0.0, scale["emptyMiB"]), *((each["size"], each["residentMiB"]) for each in sizes)]
    work = [(each["size"], each["processorSecondsEach"] * 1000) for each in sizes]
    held = "Sandboxes held"
    return {
        "memory": Plot(
            title="Memory of the operator", x=held, y="MiB", lines=[Line("resident", memory, _COLOURS[OURS])]
        ).to_svg(),
        "processor": Plot(
            title="Processor time for each Sandbox added",
            x=held,
            y="milliseconds",
            lines=[Line("for each", work, _COLOURS[OURS])],
        ).to_svg(),
    }
