"""The page that tells what is on each dashboard, beside its picture."""

from collections.abc import Sequence
from typing import Final

from dashboards.panels import Board

__all__ = ["page"]

_HEAD: Final = """# Dashboards

<!-- Made by `make dashboard-files`; the pictures, by `make dashboards`. -->

The chart brings them to Grafana ([how](../how-to/watch-the-operator.md)). At the top of each one chooses the data
source, the operator's namespace and job, and policies. The pictures are drawn from what a real Prometheus scraped from
a real operator ([while this was done to it](../dashboards/run.md)), by the queries of the panels.
"""


def page(boards: Sequence[Board]) -> str:
    """Return it as Markdown."""
    parts = [_HEAD]
    for board in boards:
        parts.append(f"## {board.title}\n\n{board.meaning}\n")
        parts.append(f"![{board.title}](../dashboards/{board.name}.svg)\n")
        for row in board.rows:
            parts.append(f"| {row.title} | |\n|---|---|")
            parts.extend(f"| {panel.title} | {panel.meaning} |" for panel in row.panels)
            parts.append("")
    return "\n".join(parts).rstrip() + "\n"
