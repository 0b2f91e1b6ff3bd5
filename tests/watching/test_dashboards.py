"""What the dashboards ask for exists, and they show all there is. That they show something is tested on a real one."""

import re
from collections import Counter

import pytest

from sandkeeper.telemetry.catalogue import CATALOGUE
from watching.boards import BOARDS, Board
from watching.expressions import complaints, families_of, grouped_by

ANY = {
    "namespace": ".*",
    "job": ".*",
    "policy": ".*",
    "__rate_interval": "1m",
    "__range": "3h",
}

each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


def expressions(board: Board) -> list[str]:
    return [query.expression(ANY) for panel in board.asking for query in panel.queries]


def test_there_is_one_of_churn_one_of_the_operator_and_one_of_each_backend() -> None:
    assert [board.name for board in BOARDS] == ["churn", "docker", "operator", "pods"]
    assert len({board.uid for board in BOARDS}) == len(BOARDS)


@each_board
def test_it_asks_for_what_there_is(board: Board) -> None:
    for expression in expressions(board):
        assert list(complaints(expression)) == [], expression


@each_board
def test_each_panel_looks_only_at_what_is_chosen(board: Board) -> None:
    for panel in board.asking:
        for query in panel.queries:
            for asked in re.findall(r"(?:sandkeeper|process)_\w+\{([^}]*)\}", query.template):
                assert asked.startswith('namespace=~"$namespace", job=~"$job"'), query.template
            named = re.findall(r"\b(?:sandkeeper|process)_\w+", query.template)
            assert len(named) == len(re.findall(r"\b(?:sandkeeper|process)_\w+\{", query.template))


@each_board
def test_each_panel_can_be_told_from_the_others_and_says_what_it_counts_in(board: Board) -> None:
    assert max(Counter(panel.number for panel in board.panels).values()) == 1
    assert max(Counter(panel.title for panel in board.asking).values()) == 1
    assert all(panel.unit and panel.queries for panel in board.asking)


@each_board
def test_its_legends_name_labels_that_are_left(board: Board) -> None:
    for panel in board.asking:
        for query in panel.queries:
            left = grouped_by(query.expression(ANY)) or set()
            assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= left, panel.title


def test_every_metric_is_shown_somewhere() -> None:
    shown = {
        name for board in BOARDS for expression in expressions(board) for name in families_of(expression)
    }
    # What a process has reserved of addresses says nothing about memory.
    assert {family.name for family in CATALOGUE} - shown == {"process_virtual_memory_bytes"}
