"""Plots as SVG: lines and bars, and nothing that differs where the figures do not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

__all__ = ["Bar", "Line", "Plot", "bars", "ceiling", "short", "ticks"]

_WIDTH: Final = 720
_HEIGHT: Final = 360
_LEFT: Final = 64
_RIGHT: Final = 150
_TOP: Final = 44
_BOTTOM: Final = 48
_TICKS: Final = 5
_STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True)
class Line:
    """A curve, by its points from left to right."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str


@dataclass(frozen=True)
class Bar:
    """One bar."""

    name: str
    value: float
    colour: str


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Curves over one another; ``logarithmic`` is the horizontal axis."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    logarithmic: bool = False

    def to_svg(self) -> str:
        """Draw it."""
        across = [x for line in self.lines for x, _ in line.points]
        top = ceiling(max(y for line in self.lines for _, y in line.points))
        low, high = (min(across), max(across)) if self.logarithmic else (0.0, ceiling(max(across)))
        marks = _decades(low, high) if self.logarithmic else ticks(high)
        parts = [_frame(self.title, self.x, self.y), *_rows(top)]
        parts += [
            _text(_across(x, low, high, log=self.logarithmic), _HEIGHT - _BOTTOM + 18, short(x))
            for x in marks
        ]
        for number, line in enumerate(self.lines):
            points = " ".join(
                f"{_across(x, low, high, log=self.logarithmic):.1f},{_up(y, top):.1f}" for x, y in line.points
            )
            parts.append(f'<polyline fill="none" stroke="{line.colour}" stroke-width="2" points="{points}"/>')
            if len(line.points) <= _TICKS * 2:
                parts += [
                    f'<circle cx="{_across(x, low, high, log=self.logarithmic):.1f}" cy="{_up(y, top):.1f}" r="3" '
                    f'fill="{line.colour}"/>'
                    for x, y in line.points
                ]
            parts += _key(number, line.name, line.colour)
        return _document(parts)


def bars(title: str, y: str, values: Sequence[Bar]) -> str:
    """Draw bars side by side."""
    top = ceiling(max(each.value for each in values))
    room = (_WIDTH - _LEFT - _RIGHT) / len(values)
    parts = [_frame(title, "", y), *_rows(top)]
    for number, each in enumerate(values):
        middle, height = _LEFT + room * (number + 0.5), _HEIGHT - _BOTTOM - _up(each.value, top)
        parts.append(
            f'<rect x="{middle - room / 4:.1f}" y="{_up(each.value, top):.1f}" width="{room / 2:.1f}" '
            f'height="{height:.1f}" fill="{each.colour}"/>'
        )
        parts.append(_text(middle, _up(each.value, top) - 6, short(each.value)))
        parts.append(_text(middle, _HEIGHT - _BOTTOM + 18, each.name))
    return _document(parts)


def _document(parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#222">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"]) + "\n"


def _frame(title: str, x: str, y: str) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    middle = (_TOP + bottom) / 2
    turned = f'transform="rotate(-90 16 {middle})"'
    return "\n".join(
        [
            _text(_LEFT, 22, title, anchor="start", size=15),
            _text((_LEFT + right) / 2, _HEIGHT - 10, x),
            f'<text x="16" y="{middle}" text-anchor="middle" {turned}>{escape(y)}</text>',
            f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#222"/>',
        ]
    )


def _rows(top: float) -> list[str]:
    right = _WIDTH - _RIGHT
    found = []
    for value in ticks(top):
        height = _up(value, top)
        found.append(f'<path d="M{_LEFT} {height:.1f}H{right}" stroke="#ddd"/>')
        found.append(_text(_LEFT - 8, height + 4, short(value), anchor="end"))
    return found


def _key(number: int, name: str, colour: str) -> list[str]:
    left, height = _WIDTH - _RIGHT + 14, _TOP + 10 + number * 22
    return [
        f'<path d="M{left} {height}h20" stroke="{colour}" stroke-width="3"/>',
        _text(left + 26, height + 4, name, anchor="start"),
    ]


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _across(x: float, low: float, high: float, *, log: bool) -> float:
    share = math.log(x / low) / math.log(high / low) if log else (x - low) / (high - low)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _up(y: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - y / top * (_HEIGHT - _TOP - _BOTTOM)


def ceiling(value: float) -> float:
    """Return the next round number of which a part for each tick is round, too."""
    unit: float = 10.0 ** math.floor(math.log10(value / _TICKS))
    step = next((unit * each for each in _STEPS if unit * each * _TICKS >= value), unit * 20)
    return step * _TICKS


def ticks(top: float) -> list[float]:
    """Return where the lines of an axis are, from 0 to its end."""
    return [top * number / _TICKS for number in range(_TICKS + 1)]


def _decades(low: float, high: float) -> list[float]:
    found = [
        lead * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for lead in (1, 2, 5)
    ]
    return [each for each in found if low <= each <= high]


def short(value: float) -> str:
    """Write a value in few characters."""
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.3g}"
