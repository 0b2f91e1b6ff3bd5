"""Pictures of the dashboards: each panel where Grafana would have it, drawn from what Prometheus answers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from bench.drawing import ceiling, short, ticks
from watching.boards import Board, Panel, legend_of
from watching.run import Run

__all__ = ["draw"]

_COLUMN: Final = 50
_ROW: Final = 30
_GAP: Final = 4
_LINE: Final = 14
_LEFT: Final = 50
_RIGHT: Final = 12
_TOP: Final = 40
_CHARACTER: Final = 6.2
"""About as wide as one is, in the smallest size."""
_MOST_NAMED: Final = 10
_MOST_MOMENTS: Final = 5
_COLOURS: Final = (
    "#1668b8", "#d98c1f", "#2e8b57", "#b8312f", "#7b4fa3", "#0f9aa8", "#8a6d3b", "#c2458f", "#6b8e23", "#5a6472",
)  # fmt: skip
_UNITS: Final = {
    "s": "s", "cpm": "a minute", "ops": "a second", "reqps": "a second", "short": "", "percentunit": "of 1",
}  # fmt: skip

Point = tuple[float, float]


@dataclass(frozen=True)
class _Series:
    """One line: its points as seconds since the beginning and values, without those that are no numbers."""

    name: str
    colour: str
    points: Sequence[Point]

    @property
    def last(self) -> float:
        """The last value."""
        return self.points[-1][1]


@dataclass(frozen=True)
class _Key:
    """An entry of a legend; what has no colour is only said."""

    name: str
    colour: str

    @property
    def width(self) -> float:
        """How much room it takes."""
        return 24 + len(self.name) * _CHARACTER


@dataclass(frozen=True)
class _Band:
    """A line, and where the area below it ends, if it has one."""

    upper: _Series
    lower: Sequence[Point]


def draw(board: Board, run: Run) -> str:
    """Draw a dashboard as SVG."""
    height = max(panel.top + panel.height for panel in board.panels) * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * _COLUMN} {height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#f4f5f5"/>',
    ]
    for panel in board.panels:
        parts.append(f'<g transform="translate({panel.left * _COLUMN} {panel.top * _ROW})">')
        parts += (
            _row(panel) if panel.kind == "row" else _panel(panel, _asked(panel, run), run.end - run.start)
        )
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _asked(panel: Panel, run: Run) -> list[_Series]:
    found = [
        (
            legend_of(query, each["metric"]) or "none",
            [
                (at - run.start, number)
                for at, value in each["values"]
                if math.isfinite(number := float(value))
            ],
        )
        for query in panel.queries
        for each in run.ask(panel, query)
    ]
    drawn = sorted((name, points) for name, points in found if points)
    return [
        _Series(name, _COLOURS[number % len(_COLOURS)], points) for number, (name, points) in enumerate(drawn)
    ]


def _row(panel: Panel) -> list[str]:
    return [_text(8, _ROW - 9, panel.title, size=14, weight="bold")]


def _panel(panel: Panel, series: Sequence[_Series], seconds: float) -> list[str]:
    width, height = panel.width * _COLUMN - _GAP, panel.height * _ROW - _GAP
    parts = [
        f'<rect x="2" y="2" width="{width}" height="{height}" rx="3" fill="#fff" stroke="#ddd"/>',
        _text(10, 18, panel.title, size=12, weight="bold"),
    ]
    match panel.kind:
        case "stat":
            parts += _figure(series, panel, width, height)
        case "bargauge":
            parts += _bars(series, width, height)
        case _:
            parts += _lines(series, panel, width, height, seconds)
    return parts


def _figure(series: Sequence[_Series], panel: Panel, width: float, height: float) -> list[str]:
    said = short(series[0].last) if series else "-"
    unit = " s" if panel.unit == "s" else ""
    return [_text(width / 2, height / 2 + 18, said + unit, anchor="middle", size=26)]


def _bars(series: Sequence[_Series], width: float, height: float) -> list[str]:
    ranked = sorted(series, key=lambda each: -each.last)
    room = min((height - 30) / max(len(ranked), 1), 22)
    names = 9 + max((len(each.name) for each in ranked), default=0) * _CHARACTER
    parts = []
    for number, each in enumerate(ranked):
        top = 28 + number * room
        length = each.last / ranked[0].last * (width - names - 60)
        parts.append(_text(names, top + room / 2 + 2, each.name, anchor="end", size=10))
        parts.append(
            f'<rect x="{names + 6:.1f}" y="{top:.1f}" width="{length:.1f}" height="{room - 4:.1f}" '
            f'fill="{_COLOURS[0]}"/>'
        )
        parts.append(_text(names + 10 + length, top + room / 2 + 2, short(each.last), size=10))
    return parts


def _lines(series: Sequence[_Series], panel: Panel, width: float, height: float, seconds: float) -> list[str]:
    legend = _legend(series, width)
    bottom = height - 22 - _LINE * len(legend)
    shown = _stacked(series) if panel.is_stacked else [_Band(each, ()) for each in series]
    most = max((y for each in shown for _, y in each.upper.points), default=0.0)
    least = min((y for each in shown for _, y in each.upper.points), default=0.0)
    top = ceiling(most) if most > 0 else 1.0
    low = -ceiling(-least) if least < 0 else 0.0

    def across(at: float) -> float:
        return _LEFT + at / seconds * (width - _LEFT - _RIGHT)

    def up(value: float) -> float:
        return bottom - (value - low) / (top - low) * (bottom - _TOP)

    parts = [_text(10, 32, _UNITS.get(panel.unit, panel.unit), size=9, colour="#666")]
    for value in [*(ticks(top)[::2] if low else ticks(top)), *([low] if low else [])]:
        parts.append(f'<path d="M{_LEFT} {up(value):.1f}H{width - _RIGHT:.1f}" stroke="#e6e6e6"/>')
        parts.append(_text(_LEFT - 5, up(value) + 3, short(value), anchor="end", size=9, colour="#666"))
    parts += [
        _text(across(at), bottom + 12, f"{at:.0f} s", anchor="middle", size=9, colour="#666")
        for at in _moments(seconds)
    ]
    for each in shown:
        line = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in each.upper.points)
        under = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in reversed(each.lower))
        colour = each.upper.colour
        if under:
            parts.append(f'<polygon fill="{colour}" fill-opacity="0.35" points="{line} {under}"/>')
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.4" points="{line}"/>')
    parts += _keys(legend, bottom + 26)
    return parts


def _moments(seconds: float) -> list[float]:
    """Choose the moments that the axis names: round, and few."""
    step = next(step for step in (10, 20, 30, 60, 120, 300, 3600) if seconds / step <= _MOST_MOMENTS)
    return [float(at) for at in range(0, int(seconds) + 1, step)]


def _stacked(series: Sequence[_Series]) -> list[_Band]:
    """Put each on those before it, as Grafana does where a sum means something; who is missing counts as none."""
    times = sorted({at for each in series for at, _ in each.points})
    lower = [(at, 0.0) for at in times]
    found = []
    for each in series:
        values = dict(each.points)
        upper = [(at, below + values.get(at, 0.0)) for at, below in lower]
        found.append(_Band(_Series(each.name, each.colour, upper), lower))
        lower = upper
    return found


def _legend(series: Sequence[_Series], width: float) -> list[list[_Key]]:
    """Put the names into lines that fit; of many, the first."""
    keys = [_Key(each.name, each.colour) for each in series[:_MOST_NAMED]]
    if len(series) > _MOST_NAMED:
        keys.append(_Key(f"and {len(series) - _MOST_NAMED} more", ""))
    lines: list[list[_Key]] = [[]]
    for key in keys:
        if lines[-1] and sum(each.width for each in [*lines[-1], key]) > width - 20:
            lines.append([])
        lines[-1].append(key)
    return lines


def _keys(lines: Sequence[Sequence[_Key]], top: float) -> list[str]:
    parts = []
    for number, line in enumerate(lines):
        left, height = 12.0, top + number * _LINE
        for key in line:
            if key.colour:
                parts.append(
                    f'<path d="M{left:.1f} {height - 3:.1f}h12" stroke="{key.colour}" stroke-width="3"/>'
                )
            parts.append(_text(left + 16, height, key.name, size=10))
            left += key.width
    return parts


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 11,
    weight: str = "normal",
    colour: str = "#222",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{colour}">{escape(text)}</text>'
    )
