"""Where a Sandbox belongs while it moves, and when what failed is tried again."""

from datetime import timedelta
from typing import Any

import pytest

from lifecycle.situations import DAY, HOUR, MINUTE, NOW, SECOND, ago, known
from sandkeeper.api.conditions import Reason
from sandkeeper.lifecycle import Failure, Hold, Pruned, Record, bound_key, next_failure, rebound, relies

# --- binding ----------------------------------------------------------------------------------------------


def test_one_that_moves_stays_while_it_may_rely_on_what_it_has() -> None:
    assert bound_key(resolved="new", recorded="old", runtime_known=True) == "old"
    assert bound_key(resolved="new", recorded="old", runtime_known=False) == "new"


@pytest.mark.parametrize("recorded", [None, "new"])
@pytest.mark.parametrize("there", [False, True])
def test_one_that_does_not_move_is_where_it_belongs(recorded: str | None, *, there: bool) -> None:
    assert bound_key(resolved="new", recorded=recorded, runtime_known=there) == "new"


def test_a_record_that_moves_leaves_the_runtime_behind() -> None:
    kept: dict[str, Any] = {
        "last_used_at": ago(HOUR),
        "pruned": Pruned(at=ago(HOUR), reason=Reason.IDLE, last_used=None),
        "hold": Hold(until="2030-01-01T00:00:00Z", since=ago(HOUR)),
        "recreate": "1",
        "wipe": "1",
        "recoveries": 2,
    }
    moved = rebound(known(setup_complete=True, removing="r1", stopped=True, **kept))
    assert moved == Record(stopped=True, **kept)


def test_one_that_was_replaced_and_moves_still_waits_for_another() -> None:
    assert rebound(known(removing="r1")).removing == "r1"
    assert rebound(known()).removing is None


def test_who_never_had_one_or_was_told_of_its_removal_relies_on_nothing() -> None:
    assert relies(known())
    assert not relies(Record())
    assert not relies(known(removing="r1"))


# --- back-off ---------------------------------------------------------------------------------------------


def waits(
    reason: Reason, count: int, *, jitter: float = 1.0, ran_for: timedelta | None = None
) -> list[float]:
    """Seconds to wait after each of so many failures in a row."""
    failure: Failure | None = None
    found = []
    for _ in range(count):
        failure = next_failure(failure, reason=reason, message="", now=NOW, ran_for=ran_for, jitter=jitter)
        found.append((failure.retry_at - NOW).total_seconds())
    return found


def test_what_died_comes_back_at_once_and_then_ever_later() -> None:
    assert waits(Reason.EXITED, 11, ran_for=MINUTE) == [0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_what_the_world_lacks_is_looked_for_every_minute() -> None:
    assert waits(Reason.IMAGE_MISSING, 6) == [5, 10, 20, 40, 60, 60]
    assert waits(Reason.ENGINE_FULL, 6) == [5, 10, 20, 40, 60, 60]


def test_what_cannot_be_made_is_tried_ever_later() -> None:
    assert waits(Reason.SETUP_FAILED, 8) == [5, 10, 20, 40, 80, 160, 300, 300]


def test_that_the_engine_was_away_makes_no_row_longer() -> None:
    assert waits(Reason.ENGINE_UNREACHABLE, 8) == [5] * 8
    failure: Failure | None = None
    for reason in (Reason.START_FAILED, *[Reason.ENGINE_UNREACHABLE] * 8, Reason.START_FAILED):
        failure = next_failure(failure, reason=reason, message="", now=NOW, ran_for=None, jitter=1.0)
    assert failure is not None
    assert (failure.count, failure.retry_at) == (2, NOW + 10 * SECOND)


def test_a_row_of_thousands_is_as_long_as_the_cap() -> None:
    assert waits(Reason.OOM_KILLED, 3000)[-1] == 300


@pytest.mark.parametrize(("given", "seconds"), [(0.9, 270), (1.1, 330), (0.0, 270), (7.0, 330)])
def test_jitter_spreads_by_a_tenth_and_no_more(given: float, seconds: float) -> None:
    assert waits(Reason.EXITED, 11, jitter=given)[-1] == pytest.approx(seconds)


def test_ten_minutes_of_life_begin_a_new_row() -> None:
    before = Failure(reason=Reason.EXITED, message="", count=7, retry_at=ago(DAY))

    def after(ran_for: timedelta | None) -> int:
        return next_failure(
            before, reason=Reason.EXITED, message="", now=NOW, ran_for=ran_for, jitter=1.0
        ).count

    assert after(10 * MINUTE) == 1
    assert after(10 * MINUTE - SECOND) == 8
    assert after(None) == 8


def test_a_failure_says_what_happened() -> None:
    failure = next_failure(
        None, reason=Reason.EXITED, message="Exit code 1.", now=NOW, ran_for=SECOND, jitter=1.0
    )
    assert failure == Failure(reason=Reason.EXITED, message="Exit code 1.", count=1, retry_at=NOW)
