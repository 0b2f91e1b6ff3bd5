"""Prunes and replacements wait for their turn; whatever is not for its time does not."""

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.situations import (
    DAY,
    HOUR,
    NOW,
    OTHER_HASH,
    SECOND,
    TICK,
    ago,
    known,
    raw,
    runtime,
    sandbox,
    situation,
    wanted,
)
from sandkeeper.lifecycle import (
    Claimant,
    PreflightCheck,
    Removal,
    Remove,
    RuntimeState,
    Situation,
    Start,
    Stop,
    decide,
)

IDLE = sandbox(record=known(last_used_at=ago(2 * DAY)))
OTHER = sandbox(desire=wanted(OTHER_HASH))
HELD_BACK = wanted(OTHER_HASH, rollout_paused=True)
FINE = PreflightCheck(config_hash=OTHER_HASH)


@pytest.mark.parametrize(
    ("claimant", "waits_by", "removal"),
    [(IDLE, "reuse", Removal.PRUNE), (OTHER, "keep", Removal.REPLACE)],
    ids=["prune", "replace"],
)
def test_a_removal_for_its_time_waits_for_its_turn(
    claimant: Claimant, waits_by: str, removal: Removal
) -> None:
    def at(turn: Any) -> Any:
        return decide(situation(claimant, preflight=FINE, removals_from=turn))

    waiting = at(NOW + SECOND)
    assert (waiting.rule, waiting.effect, waiting.wake_at) == (waits_by, None, NOW + SECOND)
    assert waiting.reports["a"].readiness.ready is True
    assert at(NOW + TICK).effect is None
    for turn in (NOW, ago(HOUR), None):
        assert at(turn).effect == Remove(id="r1", removal=removal, announced=True, limited=True)


@pytest.mark.parametrize(
    "given",
    [
        situation(OTHER, preflight=FINE, removals_from=NOW + SECOND),
        situation(replace(OTHER, desire=HELD_BACK), preflight=FINE),
        situation(replace(OTHER, desire=HELD_BACK, last_used=raw(NOW))),
    ],
    ids=["of several", "held back", "held back and hot"],
)
def test_nobody_says_when_what_has_to_wait_is_replaced(given: Situation) -> None:
    following = decide(given).reports["a"].next

    assert following is not None
    assert following.what == "Prune"


def test_a_turn_that_has_come_wakes_nobody() -> None:
    used = sandbox(record=known(last_used_at=NOW))

    assert decide(situation(used, removals_from=NOW)).wake_at == decide(situation(used)).wake_at


def test_what_is_stopped_and_waits_for_its_turn_is_started_meanwhile() -> None:
    stopped = runtime(state=RuntimeState.STOPPED)

    assert decide(situation(OTHER, observed=stopped, removals_from=NOW + SECOND)).effect == Start(id="r1")


def test_one_that_is_pruned_at_its_turn_has_little_to_say_before() -> None:
    def passing(*claimants: Claimant, **given: Any) -> bool:
        return decide(situation(*claimants, **{"removals_from": NOW + SECOND, **given})).passing

    assert passing(IDLE)
    assert not passing(IDLE, removals_from=None, clock_trusted=False)
    assert not passing(IDLE, clock_trusted=False), "who knows when its turn is"
    assert not passing(IDLE, observed=runtime(state=RuntimeState.STOPPED))
    assert not passing(sandbox(record=known(last_used_at=NOW))), "it stays"
    assert not passing(sandbox(record=known("r0", last_used_at=ago(2 * DAY)))), (
        "it was never told of this runtime"
    )
    assert not passing(OTHER), "a drift is news"


def test_nothing_else_waits() -> None:
    later = NOW + HOUR
    dead = runtime(state=RuntimeState.FAILED)

    assert decide(situation(observed=runtime(), removals_from=later)).effect == Remove(
        id="r1", removal=Removal.UNCLAIMED
    )
    assert decide(situation(sandbox(), observed=dead, removals_from=later)).effect == Remove(
        id="r1", removal=Removal.DEAD
    )
    assert decide(situation(sandbox(stopped=True), removals_from=later)).effect == Stop(id="r1")


def test_a_stopped_one_that_is_on_its_way_out_is_looked_at_again() -> None:
    going = runtime(state=RuntimeState.TERMINATING)
    plan = decide(situation(sandbox(stopped=True), observed=going))
    assert (plan.wake_at, plan.passing) == (NOW + 5 * SECOND, True)

    gone = decide(situation(sandbox(stopped=True), observed=None))
    assert (gone.wake_at, gone.passing) == (None, False)
