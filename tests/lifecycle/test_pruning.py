"""Rules 3 and 4: who is pruned, when, and what brings him back."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lifecycle.situations import (
    DAY,
    HOT,
    HOUR,
    IDLE,
    MINUTE,
    NOW,
    OLD,
    SECOND,
    TICK,
    ZERO,
    Case,
    ago,
    known,
    moved,
    newcomer,
    raw,
    recorded,
    runtime,
    sandbox,
    sentence,
    situation,
    wanted,
)
from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle import (
    Claimant,
    Create,
    DeleteClaimants,
    Observed,
    Plan,
    Pruned,
    Record,
    Removal,
    Remove,
    RuntimeState,
    Situation,
    Transition,
    decide,
)

PRUNE = Remove(id="r1", removal=Removal.PRUNE, announced=True, limited=True)
PRUNING: dict[str, Any] = {"effect": PRUNE, "phase": Phase.PRUNING, "reason": Reason.PRUNING}
PRUNED: dict[str, Any] = {"phase": Phase.PRUNED, "reason": Reason.IDLE}
REUSED: dict[str, Any] = {"rule": "reuse", "phase": Phase.READY, "ready": True, "reason": Reason.RUNNING}
CREATED: dict[str, Any] = {"rule": "create", "phase": Phase.CREATING, "reason": Reason.CREATING}

MARK = Pruned(at=ago(HOUR), reason=Reason.IDLE, last_used=None)
ENOUGH = IDLE + TICK


def idle(uid: str = "a", **changes: Any) -> Claimant:
    """A Sandbox that nobody used for a little longer than idleSeconds."""
    record = known(last_used_at=ago(ENOUGH))
    return replace(sandbox(uid, created_at=ago(9 * DAY), record=record), **changes)


def pruned(uid: str = "a", mark: Pruned = MARK, **changes: Any) -> Claimant:
    """A Sandbox that was pruned an hour ago."""
    record = Record(last_used_at=ago(HOUR + ENOUGH), pruned=mark)
    return replace(sandbox(uid, created_at=ago(9 * DAY), record=record), **changes)


def announced(uid: str = "a", mark: Pruned = MARK, **changes: Any) -> Claimant:
    """A Sandbox whose runtime is announced to be pruned, and still there."""
    record = known(last_used_at=ago(ENOUGH), pruned=mark, removing="r1")
    return replace(sandbox(uid, created_at=ago(9 * DAY), record=record), **changes)


def aged(age: timedelta = OLD + TICK, **changes: Any) -> Observed:
    return replace(runtime(), created_at=NOW - age, **changes)


CASES = [
    # --- 3: idle ------------------------------------------------------------------------------------------
    Case(
        sentence="exactly 24 hours are not too long",
        given=situation(idle(record=known(last_used_at=ago(IDLE)))),
        **REUSED,
    ),
    Case(sentence="a moment more is", given=situation(idle()), rule="prune", **PRUNING),
    Case(
        sentence="idleSeconds 0 never prunes for idleness",
        given=situation(idle(desire=wanted(idle=ZERO), record=known(last_used_at=ago(90 * DAY)))),
        **REUSED,
    ),
    Case(sentence="what is held is not pruned", given=situation(idle(hold_until=raw(NOW + TICK))), **REUSED),
    Case(
        sentence="what was held until now is",
        given=situation(idle(hold_until=raw(NOW))),
        rule="prune",
        **PRUNING,
    ),
    Case(
        sentence="what has a command running in it is not pruned",
        given=situation(idle(), observed=runtime(in_use=True)),
        **REUSED,
    ),
    Case(
        sentence="a use in the last moment keeps it",
        given=situation(idle(last_used=raw(ago(IDLE)))),
        **REUSED,
    ),
    Case(
        sentence="what is hot is not pruned, be idleSeconds as short as it may",
        given=situation(idle(desire=wanted(idle=SECOND), record=known(last_used_at=ago(HOT - TICK)))),
        **REUSED,
    ),
    Case(
        sentence="and is as soon as it is cold",
        given=situation(idle(desire=wanted(idle=SECOND), record=known(last_used_at=ago(HOT)))),
        rule="prune",
        **PRUNING,
    ),
    Case(
        sentence="a clock that is not trusted prunes nothing",
        given=situation(idle(), clock_trusted=False),
        **REUSED,
    ),
    Case(
        sentence="a last use in the future, for the clock was put back, is hot",
        given=situation(idle(record=known(last_used_at=NOW + 9 * DAY)), observed=aged()),
        **REUSED,
    ),
    Case(
        sentence="a lost status with a runtime there was used now",
        given=situation(newcomer(created_at=ago(9 * DAY))),
        **REUSED,
    ),
    Case(
        sentence="what died is pruned rather than made anew, if nobody used it for so long",
        given=situation(idle(), observed=runtime(state=RuntimeState.FAILED)),
        rule="prune",
        **PRUNING,
    ),
    Case(
        sentence="what is on its way out is pruned without being pushed",
        given=situation(idle(), observed=runtime(state=RuntimeState.TERMINATING)),
        rule="prune",
        phase=Phase.PRUNING,
        reason=Reason.PRUNING,
    ),
    Case(
        sentence="with none there, idle means pruned without creating",
        given=situation(idle(), observed=None),
        rule="prune",
        **PRUNED,
    ),
    Case(
        sentence="one that differs and is idle is pruned, not replaced",
        given=situation(idle(desire=wanted("v1-b"))),
        rule="prune",
        **PRUNING,
    ),
    Case(
        sentence="one that belongs elsewhere and is idle is pruned where it is",
        given=situation(idle(desire=moved())),
        rule="prune",
        **PRUNING,
    ),
    Case(
        sentence="together, the last use is the maximum",
        given=situation(idle("a"), idle("b", last_used=raw(ago(HOUR)))),
        **REUSED,
    ),
    # --- 3: too old ---------------------------------------------------------------------------------------
    Case(
        sentence="exactly seven days are not too old",
        given=situation(sandbox(), observed=aged(OLD)),
        **REUSED,
    ),
    Case(
        sentence="a moment more is too old, used an hour ago or not",
        given=situation(sandbox(), observed=aged()),
        rule="prune",
        **PRUNING,
    ),
    Case(
        sentence="maxAgeSeconds 0 lets it grow as old as it likes",
        given=situation(sandbox(desire=wanted(max_age=ZERO)), observed=aged(90 * DAY)),
        **REUSED,
    ),
    Case(
        sentence="what is too old and hot is kept while it is hot",
        given=situation(sandbox(record=known(last_used_at=ago(HOT - TICK))), observed=aged()),
        **REUSED,
    ),
    Case(
        sentence="age is the runtime's: an old Sandbox without one has none",
        given=situation(
            sandbox(created_at=ago(90 * DAY), record=Record(last_used_at=ago(HOUR))), observed=None
        ),
        effect=Create(ruler="a"),
        **CREATED,
    ),
    # --- 4: stay so ---------------------------------------------------------------------------------------
    Case(
        sentence="what is pruned stays so",
        given=situation(pruned(), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="a hold wakes nobody",
        given=situation(pruned(hold_until=raw(NOW + HOUR)), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="an invalid last use wakes nobody",
        given=situation(pruned(last_used="now!"), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="a last use too far ahead wakes nobody",
        given=situation(pruned(last_used=raw(NOW + HOUR)), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="the last use that was recorded wakes nobody, be it as fresh as it may",
        given=situation(pruned(mark=replace(MARK, last_used=raw(NOW)), last_used=raw(NOW)), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="taking the annotation away wakes nobody",
        given=situation(pruned(mark=replace(MARK, last_used=raw(ago(DAY)))), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="asking for a new one by annotation wakes nobody",
        given=situation(pruned(recreate="1"), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="another value is a use now, however slow the client's clock is",
        given=situation(pruned(last_used=raw(ago(30 * DAY))), observed=None),
        effect=Create(ruler="a"),
        **CREATED,
    ),
    Case(
        sentence="a newer claimant is a use",
        given=situation(pruned("a"), newcomer("b"), observed=None),
        effect=Create(ruler="a"),
        **CREATED,
    ),
    Case(
        sentence="a newer claimant that is idle already is pruned with the others",
        given=situation(pruned("a"), newcomer("b", created_at=ago(2 * DAY)), observed=None),
        rule="prune",
        **PRUNED,
    ),
    Case(
        sentence="pruned does not hinder what runs for a newer claimant",
        given=situation(pruned("a"), sandbox("b")),
        **REUSED,
    ),
    # --- what was announced is carried on -----------------------------------------------------------------
    Case(
        sentence="a removal that was announced is carried on after a crash",
        given=situation(announced()),
        rule="stay-pruned",
        **PRUNING,
    ),
    Case(
        sentence="and also where the clock is not trusted any more: nothing is decided any more",
        given=situation(announced(), clock_trusted=False),
        rule="stay-pruned",
        **PRUNING,
    ),
    Case(
        sentence="what was announced to one of two only is announced again",
        given=situation(announced("a"), idle("b")),
        rule="prune",
        **PRUNING,
    ),
    Case(
        sentence="a use after the announcement cancels it, and the runtime is used again",
        given=situation(announced(last_used=raw(NOW))),
        **REUSED,
    ),
    Case(
        sentence="a use by the one whom the announcement did not reach cancels it",
        given=situation(announced("a"), idle("b", last_used=raw(NOW))),
        **REUSED,
    ),
    Case(
        sentence="a command that runs by then cancels it",
        given=situation(announced(), observed=runtime(in_use=True)),
        **REUSED,
    ),
    Case(
        sentence="a removal that takes its time is waited for",
        given=situation(announced(), observed=runtime(state=RuntimeState.TERMINATING)),
        rule="stay-pruned",
        phase=Phase.PRUNING,
        reason=Reason.PRUNING,
    ),
    Case(
        sentence="once it is gone, it is pruned",
        given=situation(announced(), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    # --- deleted in the end -------------------------------------------------------------------------------
    Case(
        sentence="exactly deleteAfterSeconds are not long enough",
        given=situation(pruned(desire=wanted(delete_after=HOUR)), observed=None),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="a moment more is",
        given=situation(pruned(desire=wanted(delete_after=HOUR - TICK)), observed=None),
        rule="stay-pruned",
        effect=DeleteClaimants(uids=("a",)),
        **PRUNED,
    ),
    Case(
        sentence="nobody is deleted while one of the sharers has not been pruned for long enough",
        given=situation(
            pruned("a", desire=wanted(delete_after=HOUR)),
            pruned("b", mark=replace(MARK, at=NOW), desire=wanted(delete_after=HOUR)),
            observed=None,
            now=NOW + MINUTE,
        ),
        rule="stay-pruned",
        **PRUNED,
    ),
    Case(
        sentence="nobody is deleted while the runtime is there",
        given=situation(announced(desire=wanted(delete_after=SECOND))),
        rule="stay-pruned",
        **PRUNING,
    ),
    Case(
        sentence="nobody is deleted by a clock that is not trusted",
        given=situation(pruned(desire=wanted(delete_after=SECOND)), observed=None, clock_trusted=False),
        rule="stay-pruned",
        **PRUNED,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=sentence)
def test_in_this_situation(case: Case) -> None:
    case.check()


def step(before: Situation, **changes: Any) -> tuple[Plan, Situation]:
    plan = decide(before)
    return plan, replace(recorded(before, plan), **changes)


def test_the_record_of_a_prune_says_when_why_and_what_was_last_used() -> None:
    used = raw(ago(ENOUGH))
    before = situation(idle(record=known(last_used_at=ago(30 * DAY)), last_used=used))
    plan, after = step(before, observed=None, now=NOW + SECOND)
    record = plan.reports["a"].record
    assert record.pruned == Pruned(at=NOW, reason=Reason.IDLE, last_used=used)
    assert (record.removing, record.runtime_id) == ("r1", "r1")
    gone = decide(after).reports["a"]
    assert gone.record == Record(pruned=record.pruned, last_used_at=ago(ENOUGH))
    assert gone.readiness.reason is Reason.IDLE
    assert "2026-01-10T12:00:00Z" in gone.readiness.message
    assert "sandkeeper.dev/last-used" in gone.readiness.message


def test_a_prune_for_age_says_so() -> None:
    _, after = step(situation(sandbox(), observed=aged()), observed=None)
    report = decide(after).reports["a"]
    assert report.readiness.reason is Reason.TOO_OLD
    assert report.record.pruned is not None
    assert report.record.pruned.reason is Reason.TOO_OLD


def test_a_value_that_is_ignored_is_not_recorded_so_that_it_is_a_use_once_it_is_valid() -> None:
    ahead = raw(NOW + HOUR)
    plan, after = step(situation(idle(last_used=ahead), observed=None))
    assert plan.reports["a"].record.pruned == Pruned(at=NOW, reason=Reason.IDLE, last_used=None)
    assert decide(after).wake_at == NOW + HOUR - MINUTE
    assert decide(replace(after, now=NOW + HOUR - MINUTE)).rule == "create"


def test_being_pruned_says_when_it_is_deleted() -> None:
    plan = decide(situation(pruned(desire=wanted(delete_after=DAY)), observed=None))
    assert plan.reports["a"].next == Transition(at=ago(HOUR) + DAY, what="Delete")
    assert plan.wake_at is not None
    assert plan.wake_at - (ago(HOUR) + DAY) < SECOND
    assert decide(situation(pruned(), observed=None)).wake_at is None


def test_being_woken_is_remembered_as_a_use_now() -> None:
    before = situation(pruned(last_used=raw(ago(30 * DAY))), observed=None)
    plan, after = step(before, now=NOW + IDLE)
    assert plan.reports["a"].record == Record(last_used_at=NOW)
    assert decide(after).rule == "create"
    assert decide(replace(after, now=NOW + ENOUGH)).rule == "prune"


def test_being_woken_before_it_is_gone_takes_the_announcement_back() -> None:
    plan = decide(situation(announced("a", last_used=raw(NOW)), announced("b")))
    assert plan.effect is None
    for uid, used in (("a", NOW), ("b", ago(ENOUGH))):
        assert plan.reports[uid].record == known(last_used_at=used)


def test_a_prune_that_was_announced_is_no_recovery() -> None:
    woken = announced(last_used=raw(NOW))
    assert decide(situation(woken, observed=None)).effect == Create(ruler="a", recovery=False)


def test_the_next_prune_is_the_earlier_of_idle_and_age_but_never_before_it_is_cold() -> None:
    def at(claimant: Claimant, observed: Observed) -> object:
        plan = decide(situation(claimant, observed=observed))
        transition = plan.reports["a"].next
        assert transition is not None
        assert plan.wake_at is not None
        assert ZERO < plan.wake_at - transition.at < SECOND
        return transition

    young, old = aged(DAY), aged(OLD - HOUR)
    assert at(sandbox(), young) == Transition(at=ago(HOUR) + IDLE, what="Prune")
    assert at(sandbox(), old) == Transition(at=NOW + HOUR, what="Prune")
    hot = sandbox(record=known(last_used_at=NOW))
    assert at(hot, aged(OLD - MINUTE)) == Transition(at=NOW + HOT, what="Prune")
    assert at(sandbox(hold_until=raw(NOW + 9 * HOUR)), old) == Transition(at=NOW + 9 * HOUR, what="Prune")


def test_nothing_comes_next_where_every_limit_is_off() -> None:
    plan = decide(situation(sandbox(desire=wanted(idle=ZERO, max_age=ZERO))))
    assert (plan.reports["a"].next, plan.wake_at) == (None, None)


def test_a_deadline_that_a_distrusted_clock_passed_is_looked_at_again_soon_but_not_at_once() -> None:
    plan = decide(situation(idle(), clock_trusted=False, now=NOW + HOUR))
    assert plan.wake_at is not None
    assert SECOND < plan.wake_at - (NOW + HOUR) <= MINUTE


def test_what_is_never_deleted_is_not_said_to_be() -> None:
    assert decide(situation(pruned(), observed=None)).reports["a"].next is None
