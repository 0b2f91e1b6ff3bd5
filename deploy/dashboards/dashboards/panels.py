"""What dashboards are made of: three kinds of panels in rows, and the variables above them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.queries import Query

__all__ = ["Board", "Figure", "Graph", "Panel", "Ranking", "Row", "build"]

_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_TAG: Final = "sandkeeper"
_WHOLE: Final = 24
"""Grafana's columns."""
_ALL: Final = VariableOption(selected=True, text="All", value="$__all")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What every panel says of itself. ``unit`` is Grafana's name of one."""

    title: str
    meaning: str
    queries: Sequence[Query]
    unit: str = "short"
    width: int = 8
    height: int = 8


@dataclass(frozen=True, kw_only=True)
class Graph(Panel):
    """Lines over time; stacked where their sum means something."""

    stacked: bool = False
    may_be_negative: bool = False


@dataclass(frozen=True, kw_only=True)
class Figure(Panel):
    """One number, as it is now."""

    width: int = 4
    height: int = 4


@dataclass(frozen=True, kw_only=True)
class Ranking(Panel):
    """Bars, the longest first, of all the time that is shown."""

    width: int = 12


@dataclass(frozen=True)
class Row:
    """Panels that belong together."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, kw_only=True)
class Board:
    """A dashboard. ``name`` is its file's, and part of its address in Grafana."""

    name: str
    title: str
    meaning: str
    rows: Sequence[Row]
    has_policies: bool = True
    """Whether there is a choice of policies."""


def build(board: Board) -> dashboard.Dashboard:
    """Make Grafana's own form of it."""
    made = (
        dashboard.Dashboard(f"Sandkeeper / {board.title}")
        .uid(f"sandkeeper-{board.name}")
        .description(board.meaning)
        .tags([_TAG])
        .time("now-3h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Sandkeeper")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([_TAG])
            .keep_time(True)  # noqa: FBT003 - a builder's setter
        )
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            _choice("namespace", "Operator's namespace", "label_values(sandkeeper_build_info, namespace)")
        )
        .with_variable(
            _choice("job", "Job", 'label_values(sandkeeper_build_info{namespace=~"$namespace"}, job)')
        )
    )
    if board.has_policies:
        of_policies = 'label_values(sandkeeper_runtimes{namespace=~"$namespace", job=~"$job"}, policy)'
        made.with_variable(_choice("policy", "Policy", of_policies))
    numbers = count(1)
    for row in board.rows:
        made.with_row(dashboard.Row(row.title).id(next(numbers)))
        for panel in row.panels:
            made.with_panel(_panel(panel, next(numbers)))
    return made


def _choice(name: str, label: str, query: str) -> dashboard.QueryVariable:
    """Let people choose among the values of a label. Series without the label are in "All", too."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(_SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)  # noqa: FBT003 - a builder's setter
        .include_all(True)  # noqa: FBT003 - a builder's setter
        .all_value(".*")
        .current(_ALL)
    )


def _panel(panel: Panel, number: int) -> Any:  # noqa: ANN401 - the builders of the kinds have no common type
    made: Any
    match panel:
        case Graph():
            made = _graph(panel)
        case Figure():
            made = stat.Panel().graph_mode(BigValueGraphMode.NONE).reduce_options(_last())
        case Ranking():
            made = bargauge.Panel().orientation(VizOrientation.HORIZONTAL).reduce_options(_last())
        case _:
            raise TypeError(f"{type(panel).__name__} is no kind of panel")
    made.id(number).title(panel.title).description(panel.meaning).unit(panel.unit).datasource(_SOURCE)
    made.span(min(panel.width, _WHOLE)).height(panel.height)
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(letter)
        made.with_target(target.range() if isinstance(panel, Graph) else target.instant())
    return made


def _graph(panel: Graph) -> timeseries.Panel:
    legend = common.VizLegendOptions().show_legend(True)  # noqa: FBT003 - a builder's setter
    made = (
        timeseries.Panel()
        .line_width(1)
        .fill_opacity(30 if panel.stacked else 0)
        .legend(legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    if panel.stacked:
        made.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    return made if panel.may_be_negative else made.min(0)


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"])
