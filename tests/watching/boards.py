"""The dashboards as they are shipped, read back as Grafana reads them: what it would ask Prometheus for."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["BOARDS", "Board", "Panel", "Query", "Variable", "legend_of"]

_FOLDER: Final = Path(__file__).parents[2] / "charts/sandkeeper/files/dashboards"
_VARIABLE: Final = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True)
class Query:
    """What a panel asks for."""

    template: str
    legend: str
    is_instant: bool

    def expression(self, variables: Mapping[str, str]) -> str:
        """Put values in place of the variables; KeyError: Grafana would not know one either."""
        return _VARIABLE.sub(lambda found: variables[found[1]], self.template)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel, or the heading of a row. Its place and size are in Grafana's units, of which a row has 24."""

    number: int
    kind: str
    title: str
    unit: str
    is_stacked: bool
    queries: Sequence[Query]
    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True)
class Variable:
    """A choice above the panels: the values of a label."""

    name: str
    selector: str
    label: str


@dataclass(frozen=True)
class Board:
    """One dashboard."""

    name: str
    uid: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[Variable]

    @property
    def asking(self) -> Sequence[Panel]:
        """Return the panels that ask for something."""
        return [panel for panel in self.panels if panel.kind != "row"]


def legend_of(query: Query, labels: Mapping[str, str]) -> str:
    """Return how a series is called."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), query.legend).strip()


def _board(path: Path) -> Board:
    said = json.loads(path.read_text())
    variables = [
        Variable(each["name"], *_label_values(each["query"]))
        for each in said["templating"]["list"]
        if each["type"] == "query"
    ]
    return Board(path.stem, said["uid"], said["title"], [_panel(each) for each in said["panels"]], variables)


def _label_values(query: str) -> tuple[str, str]:
    found = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
    assert found is not None, query
    return found[1], found[2]


def _panel(said: Mapping[str, Any]) -> Panel:
    defaults = said.get("fieldConfig", {}).get("defaults", {})
    place = said["gridPos"]
    return Panel(
        number=said["id"],
        kind=said["type"],
        title=said["title"],
        unit=defaults.get("unit", ""),
        is_stacked="stacking" in defaults.get("custom", {}),
        queries=[
            Query(target["expr"], target["legendFormat"], bool(target["instant"]))
            for target in said.get("targets", ())
        ],
        left=place["x"],
        top=place["y"],
        width=place["w"],
        height=place["h"],
    )


BOARDS: Final = tuple(_board(path) for path in sorted(_FOLDER.glob("*.json")))
