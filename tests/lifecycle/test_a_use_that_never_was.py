"""A last use that was recorded by a clock that was ahead: it counts until the clock is right, and is put right then."""

from datetime import timedelta

from lifecycle.situations import (
    DAY,
    HASH,
    HOT,
    MINUTE,
    NOW,
    OTHER_HASH,
    SECOND,
    known,
    recorded,
    runtime,
    sandbox,
    situation,
    wanted,
)
from sandkeeper.lifecycle import Situation, decide


def drifted(ahead: timedelta, *, clock_trusted: bool = True) -> Situation:
    claimant = sandbox(desire=wanted(OTHER_HASH), record=known(last_used_at=NOW + ahead))
    return situation(claimant, observed=runtime(config_hash=HASH), clock_trusted=clock_trusted)


def test_it_is_put_right_once_and_the_runtime_is_hot_for_one_window_more() -> None:
    given = drifted(DAY)
    plan = decide(given)
    assert plan.rule == "keep"
    assert plan.reports["a"].record.last_used_at == NOW
    assert plan.wake_at == NOW + HOT
    later = recorded(given, plan, now=NOW + HOT)
    assert decide(later).rule == "preflight"


def test_nothing_is_put_right_by_a_clock_that_is_wrong_itself() -> None:
    plan = decide(drifted(DAY, clock_trusted=False))
    assert plan.reports["a"].record.last_used_at == NOW + DAY


def test_clocks_of_honest_clients_differ() -> None:
    plan = decide(drifted(MINUTE))
    assert plan.reports["a"].record.last_used_at == NOW + MINUTE
    assert decide(drifted(MINUTE + SECOND)).reports["a"].record.last_used_at == NOW
