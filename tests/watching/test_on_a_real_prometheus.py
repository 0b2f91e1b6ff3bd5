"""A real operator changes sandboxes all the time, a real Prometheus scrapes it, and every panel shows something."""

import math
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bench.staging import staged
from sandkeeper.lifecycle.churn import Change
from sandkeeper.telemetry.catalogue import CATALOGUE
from support.cluster import Cluster
from watching.boards import BOARDS, Board, legend_of
from watching.churn import POLICIES
from watching.expressions import labels_of
from watching.rules import ALERTS, Alert
from watching.run import JOB, NAMESPACE, Run, a_run

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.engine,
    pytest.mark.xdist_group("watching"),  # one run is enough
    pytest.mark.timeout(600),
]

SECONDS = 45
OF_A_SLOW_MACHINE = {"ApiSlow", "EngineSlow", "StuckReconcile", "QueueBacklog", "DeadlineLag"}
"""Alerts that may rightly begin where many tests share two cores."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(cluster: Cluster, prometheus_package: None) -> AsyncIterator[Run]:
    async with staged() as stage, a_run(stage, seconds=SECONDS) as run:
        yield run


each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


@each_board
def test_every_panel_shows_something(run: Run, board: Board) -> None:
    empty = [
        f"{panel.title}: {query.expression(run.variables())}"
        for panel in board.asking
        for query in panel.queries
        if not any(
            math.isfinite(float(value)) for series in run.ask(panel, query) for _, value in series["values"]
        )
    ]
    assert empty == []


@each_board
def test_no_two_lines_of_a_panel_have_one_name(run: Run, board: Board) -> None:
    for panel in board.asking:
        names = [
            legend_of(query, found["metric"]) for query in panel.queries for found in run.ask(panel, query)
        ]
        assert len(names) == len(set(names)), panel.title


@each_board
def test_what_can_be_chosen_is_what_there_is(run: Run, board: Board) -> None:
    for variable in board.variables:
        selector = variable.selector.replace("$namespace", ".*").replace("$job", ".*")
        values = {found["metric"][variable.label] for found in run.prometheus.query(selector)}
        expected = {"namespace": {NAMESPACE}, "job": {JOB}, "policy": set(POLICIES)}[variable.name]
        assert expected <= values


def test_a_choice_of_a_policy_leaves_the_others_out(run: Run) -> None:
    (churn,) = [board for board in BOARDS if board.name == "churn"]
    (panel,) = [panel for panel in churn.asking if panel.title == "Runtimes by policy"]
    (query,) = panel.queries
    assert {found["metric"]["policy"] for found in run.ask(panel, query, policy="pods-fake")} == {"pods-fake"}
    assert run.ask(panel, query, namespace="elsewhere") == []


def test_every_kind_of_change_happened_and_is_counted(run: Run) -> None:
    found = run.prometheus.query("sum by (change) (sandkeeper_churn_total)")
    assert {each["metric"]["change"] for each in found} == {change.value for change in Change}


def test_runtimes_count_once_though_two_replicas_tell_of_them(run: Run) -> None:
    (told,) = run.prometheus.query("count(sum by (instance) (sandkeeper_runtimes) > 0)")
    assert told["value"][1] == "2", "or it is time to simplify the expressions"


def test_series_have_the_labels_of_the_catalogue(run: Run) -> None:
    for family in CATALOGUE:
        name = f"{family.name}_count" if family.buckets else family.name
        found = [frozenset(each["metric"]) - {"__name__"} for each in run.prometheus.query(name)]
        assert found, f"{name} was never told"
        # Prometheus takes a label that is empty for one that is not there.
        assert frozenset().union(*found) == labels_of(name), name


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_can_be_evaluated(run: Run, alert: Alert) -> None:
    run.prometheus.query(alert.expression)


def test_prometheus_itself_evaluates_them(run: Run) -> None:
    groups = run.prometheus.get("rules", type="alert")["groups"]
    rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
    assert rules.keys() == {alert.name for alert in ALERTS}
    assert {name: rule["lastError"] for name, rule in rules.items() if rule["health"] != "ok"} == {}


def test_an_operator_that_is_well_wakes_nobody(run: Run) -> None:
    """Nor would it if that went on: churn alone does not even begin what makes an alert about the operator fire."""
    about_sandboxes = {alert.name for alert in ALERTS if alert.path.stem == "sandboxes"}
    begun = {each["metric"]["alertname"] for each in run.prometheus.query("ALERTS")}
    assert begun <= about_sandboxes | OF_A_SLOW_MACHINE
