"""What must not be seen on the way, shown by hand: each kind is found, and what is allowed is not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chaos.history import History

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
UNTIL = NOW + timedelta(seconds=10)


def seconds(count: float) -> datetime:
    return NOW + timedelta(seconds=count)


def answer(**changed: Any) -> dict[str, Any]:
    """What a use is answered with."""
    ready = {"type": "Ready", "status": "True", "observedGeneration": 2, **changed}
    return {
        "metadata": {"uid": "rain", "name": "rain", "generation": 2},
        "status": {"conditions": [ready], "runtime": {"id": "pod"}},
    }


@pytest.fixture
def history() -> History:
    made = History()
    made.promise(answer(), made=NOW, until=UNTIL)
    return made


def test_a_runtime_that_goes_while_it_is_hot_is_a_violation(history: History) -> None:
    history.see_removal("pod", seconds(3))
    (found,) = history.violations()
    assert "pod was stopped or removed at 12:00:03.000" in found
    assert "rain was told at 12:00:00.000" in found


def test_it_may_go_when_it_is_cold_or_before_the_promise(history: History) -> None:
    history.see_removal("pod", seconds(10))
    assert history.violations() == []
    early = History()
    early.promise(answer(), made=NOW, until=UNTIL)
    early.see_removal("pod", seconds(-2))
    assert early.violations() == []


def test_what_was_stopped_may_be_relied_on_from_its_start_and_no_earlier() -> None:
    history = History()
    history.see_removal("pod", seconds(-0.8))
    history.see_start("pod", seconds(-0.5))
    history.promise(answer(), made=NOW, until=UNTIL)
    assert history.violations() == [], "it was started before anybody was told"
    history.promise(answer(), made=seconds(-0.6), until=UNTIL)
    assert len(history.violations()) == 1
    history.see_removal("pod", seconds(3))
    history.see_start("pod", seconds(4))
    assert len(history.violations()) == 3, "both could rely on it until the second end"


def test_its_own_user_may_end_it_and_only_from_then_on(history: History) -> None:
    history.withdraw("rain", seconds(2))
    history.see_removal("pod", seconds(3))
    assert history.violations() == []
    history.withdraw("somebody-else", seconds(1))
    history.promise(answer(), made=seconds(2.5), until=UNTIL)
    assert len(history.violations()) == 1, "the promise that was given after it holds"


def test_a_fault_may_end_it(history: History) -> None:
    history.excuse("pod", seconds(2))
    history.see_removal("pod", seconds(3))
    assert history.violations() == []


def test_a_removal_before_the_fault_is_not_excused(history: History) -> None:
    history.see_removal("pod", seconds(3))
    history.excuse("pod", seconds(6))
    assert len(history.violations()) == 1


@pytest.mark.parametrize(
    "changed", [{"status": "False"}, {"observedGeneration": 1}], ids=["not ready", "older"]
)
def test_nothing_is_promised_to_whoever_was_not_told_that_it_is_ready(changed: dict[str, Any]) -> None:
    history = History()
    history.promise(answer(**changed), made=NOW, until=UNTIL)
    assert history.promises == []


def test_two_at_the_same_time_are_a_violation_though_one_goes() -> None:
    history = History()
    history.see_runtime(("steady", "agent:rain"), "first", lives=True)
    history.see_runtime(("steady", "agent:tio"), "other", lives=True)
    assert history.violations() == []
    history.see_runtime(("steady", "agent:rain"), "second", lives=True)
    history.see_runtime(("steady", "agent:rain"), "first", lives=False)
    (found,) = history.violations()
    assert "2 runtimes at the same time" in found


def test_one_after_the_other_is_none() -> None:
    history = History()
    for name in ("first", "second"):
        history.see_runtime(("steady", "agent:rain"), name, lives=True)
        history.see_runtime(("steady", "agent:rain"), name, lives=False)
    assert history.violations() == []


STATUS = {
    "key": "agent:rain",
    "policy": "t/steady",
    "recoveries": 2,
    "lastUsedAt": "2026-11-21T12:00:00Z",
    "recreate": "1",
    "runtime": {"id": "pod", "createdAt": "2026-11-21T11:00:00Z"},
}


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({}, "key got lost"),
        (STATUS | {"recoveries": 1}, "recoveries went from 2 to 1"),
        (STATUS | {"lastUsedAt": "2026-11-21T11:59:59Z"}, "lastUsedAt went from"),
        ({name: value for name, value in STATUS.items() if name != "recreate"}, "recreate got lost"),
        (STATUS | {"runtime": {"id": "old", "createdAt": "2026-11-21T10:00:00Z"}}, "createdAt went from"),
    ],
    ids=["lost", "recoveries", "last use", "recreate", "an older runtime"],
)
def test_a_status_that_goes_back_is_a_violation(after: dict[str, Any], told: str) -> None:
    history = History()
    history.see_status("uid", "rain", STATUS, NOW)
    history.see_status("uid", "rain", after, NOW)
    assert [found for found in history.violations() if told in found], history.violations()


def test_a_status_that_goes_on_is_none() -> None:
    history = History()
    history.see_status("uid", "rain", {}, NOW)
    history.see_status("uid", "rain", STATUS, NOW)
    newer = {"id": "new", "createdAt": "2026-11-21T12:00:05Z"}
    pruned = {name: value for name, value in STATUS.items() if name != "runtime"}
    for status in (
        pruned,
        STATUS | {"runtime": newer, "recoveries": 3, "lastUsedAt": "2026-11-21T12:00:05Z"},
    ):
        history.see_status("uid", "rain", status, NOW)
    history.see_status("another", "rain", {"recoveries": 0}, NOW)
    assert history.violations() == []
    assert history.versions == 5


def test_a_last_use_by_a_clock_that_was_ahead_has_to_go_back() -> None:
    history = History()
    for used in ("12:00:00", "13:00:00", "12:00:05"):
        history.see_status("uid", "rain", STATUS | {"lastUsedAt": f"2026-11-21T{used}Z"}, NOW)
    assert history.violations() == []
    history.see_status("uid", "rain", STATUS | {"lastUsedAt": "2026-11-21T12:00:04Z"}, NOW)
    assert len(history.violations()) == 1


def test_what_was_missed_is_not_there_any_more(history: History) -> None:
    key = ("steady", "agent:s0")
    history.see_runtime(key, "missed", lives=True)
    history.see_all([(key, "next")])
    assert history.violations() == []
    history.see_all([(key, "next"), (key, "another")])
    (found,) = history.violations()
    assert "2 runtimes at the same time" in found
