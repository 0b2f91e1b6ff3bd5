"""Runtimes that are not there at once and not gone at once, and that belong to those who share them: Pods above all."""

from dataclasses import replace

import pytest

from lifecycle.situations import (
    HOT,
    HOUR,
    MINUTE,
    NOW,
    OTHER_HASH,
    SECOND,
    ago,
    known,
    moved,
    newcomer,
    runtime,
    sandbox,
    situation,
    wanted,
)
from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle import Remove, RuntimeState, Transition, decide

STARTING = runtime(state=RuntimeState.STARTING, created_at=ago(SECOND))
GOING = runtime(state=RuntimeState.TERMINATING)


def test_what_starts_is_told_only_if_it_lasts() -> None:
    plan = decide(situation(newcomer(), observed=STARTING))
    assert (plan.rule, plan.passing) == ("starting", True)
    assert plan.reports["a"].readiness.reason is Reason.CREATING


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        (Reason.UNSCHEDULABLE, Phase.PENDING),
        (Reason.VOLUME_BUSY, Phase.PENDING),
        (Reason.VOLUME_MISSING, Phase.FAILED),
        (Reason.IMAGE_MISSING, Phase.FAILED),
        (Reason.START_FAILED, Phase.FAILED),
    ],
)
def test_what_cannot_start_says_what_it_waits_for(reason: Reason, phase: Phase) -> None:
    waiting = replace(STARTING, waits_for=reason, message="There is no room.")
    # Also where it takes the place of another: what it waits for is the news.
    for claimant in (newcomer(), newcomer(record=known("old", removing="old"), has_status=True)):
        report = decide(situation(claimant, observed=waiting)).reports["a"]
        assert (report.phase, report.readiness.reason) == (phase, reason)
        assert report.readiness.message == "There is no room."
        assert report.readiness.ready is False


def test_what_cannot_start_and_is_not_wanted_any_more_makes_way_at_once() -> None:
    waiting = replace(STARTING, waits_for=Reason.IMAGE_MISSING, message="no such image")
    plan = decide(situation(newcomer(desire=wanted(OTHER_HASH)), observed=waiting))
    assert plan.rule == "dead"
    assert isinstance(plan.effect, Remove)
    assert not plan.effect.announced


def test_what_goes_by_somebodys_hand_is_told_only_if_it_lasts() -> None:
    plan = decide(situation(sandbox(), observed=GOING))
    assert (plan.rule, plan.passing, plan.effect) == ("terminating", True, None)
    assert plan.reports["a"].readiness.reason is Reason.TERMINATING


def test_what_is_taken_away_says_why_at_once() -> None:
    evicted = replace(GOING, ended=Reason.EVICTED, message="The node was drained.")
    plan = decide(situation(sandbox(), observed=evicted))
    assert (plan.rule, plan.passing) == ("terminating", False)
    assert plan.reports["a"].readiness.reason is Reason.EVICTED
    assert plan.reports["a"].readiness.message == "The node was drained."


def test_what_is_held_on_its_way_out_says_so() -> None:
    held = replace(GOING, message="Something holds it.")
    plan = decide(situation(sandbox(), observed=held))
    assert plan.reports["a"].readiness.reason is Reason.TERMINATING
    assert plan.reports["a"].readiness.message == "Something holds it."
    assert plan.passing


def test_nothing_else_is_passing() -> None:
    for given in (
        situation(sandbox()),
        situation(newcomer(), observed=None),
        situation(sandbox(stopped=True)),
    ):
        assert not decide(given).passing


def test_it_belongs_to_those_who_share_it_the_ruler_first() -> None:
    claimants = [
        newcomer("b"),
        sandbox("c", desire=wanted(OTHER_HASH)),
        sandbox("a", created_at=ago(9 * SECOND)),
    ]
    # The oldest wants something else than the two younger ones, so it rules, alone.
    assert decide(situation(*claimants)).sharers == ("c",)
    agreeing = [newcomer("b"), sandbox("c"), sandbox("a", created_at=ago(9 * SECOND))]
    plan = decide(situation(*agreeing))
    assert plan.sharers[0] == "c"
    assert set(plan.sharers) == {"a", "b", "c"}


def test_who_is_let_go_shares_no_longer() -> None:
    plan = decide(situation(sandbox("a"), sandbox("b", desire=moved())))
    assert plan.sharers == ("a",)


def test_the_youngest_beyond_the_most_claim_nothing() -> None:
    two = replace(wanted(), most_sharers=2)
    claimants = [
        newcomer("young", desire=two, last_used=None),
        sandbox("old", desire=two),
        sandbox("middle", desire=two, created_at=ago(9 * SECOND)),
    ]
    plan = decide(situation(*claimants))
    assert set(plan.sharers) == {"old", "middle"}
    report = plan.reports["young"]
    assert (report.phase, report.readiness.reason) == (Phase.FAILED, Reason.TOO_MANY_SHARERS)
    assert report.record.runtime_id is None
    assert plan.reports["old"].readiness.ready
    # When one goes, there is room.
    assert set(decide(situation(*claimants[:2])).sharers) == {"old", "young"}


def test_who_claims_nothing_keeps_nothing_running() -> None:
    one = replace(wanted(), most_sharers=1)
    claimants = [sandbox("old", desire=one, stopped=True), newcomer("young", desire=one)]
    assert decide(situation(*claimants)).rule == "stopped"


def test_a_stop_is_told_when_it_is_done_or_takes_its_time() -> None:
    plan = decide(situation(sandbox(stopped=True), observed=GOING))
    assert (plan.rule, plan.passing, plan.effect) == ("stopped", True, None)


def test_what_starts_again_is_looked_at_again() -> None:
    starting, running = runtime(state=RuntimeState.STARTING), runtime()

    assert decide(situation(sandbox(), observed=starting)).wake_at == NOW + 30 * SECOND
    assert decide(situation(sandbox(), observed=running)).wake_at != NOW + 30 * SECOND


def test_what_is_on_its_way_out_is_looked_at_soon() -> None:
    soon = NOW + 5 * SECOND
    for_ages = sandbox(record=known(last_used_at=ago(30 * 86400 * SECOND)))

    assert decide(situation(observed=GOING)).wake_at == soon, "nobody claims it"
    pruning = decide(situation(for_ages, observed=GOING))
    assert (pruning.rule, pruning.effect, pruning.wake_at) == ("prune", None, soon)
    assert decide(situation(sandbox(), observed=GOING)).wake_at == soon


def test_what_is_kept_by_a_clock_that_can_be_trusted_is_not_looked_at_again_and_again() -> None:
    held_back = sandbox(desire=wanted(OTHER_HASH, rollout_paused=True))

    assert decide(situation(held_back, clock_trusted=False)).wake_at == NOW + 30 * SECOND
    trusted = decide(situation(held_back)).wake_at
    assert trusted is not None
    assert trusted > NOW + HOUR


def test_what_is_stopped_is_cold_and_pruned_by_its_idle_time_alone() -> None:
    lately = sandbox(desire=wanted(idle=MINUTE), record=known(last_used_at=ago(SECOND)))

    for state, at in ((RuntimeState.STOPPED, MINUTE), (RuntimeState.STARTING, HOT)):
        following = decide(situation(lately, observed=runtime(state=state))).reports["a"].next
        assert following == Transition(at=ago(SECOND) + at, what="Prune")


def test_what_is_stopped_while_it_runs_is_recorded_as_what_it_is() -> None:
    record = decide(situation(newcomer(stopped=True))).reports["a"].record

    assert (record.runtime_id, record.stopped) == ("r1", True)
