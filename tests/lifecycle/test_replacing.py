"""Rules 6 to 8: what is used again, what is kept though it differs, and what is replaced."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lifecycle.situations import (
    HASH,
    HOT,
    HOUR,
    MINUTE,
    NEWER_HASH,
    NOW,
    OTHER_HASH,
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
    Desire,
    Preflight,
    PreflightCheck,
    Removal,
    Remove,
    RuntimeState,
    Situation,
    Start,
    Transition,
    decide,
)

REPLACE = Remove(id="r1", removal=Removal.REPLACE, announced=True, limited=True)
READY: dict[str, Any] = {"phase": Phase.READY, "ready": True, "reason": Reason.RUNNING}
STARTING: dict[str, Any] = {"phase": Phase.CREATING, "reason": Reason.CREATING}
REPLACING: dict[str, Any] = {
    "rule": "replace",
    "effect": REPLACE,
    "phase": Phase.REPLACING,
    "reason": Reason.REPLACING,
}
CHANGED: dict[str, Any] = {"drift": Reason.CONFIG_CHANGED, **READY}

OTHER = wanted(OTHER_HASH)
FINE = PreflightCheck(config_hash=OTHER_HASH)
FINE_AGAIN = PreflightCheck(config_hash=HASH)
NO_IMAGE = PreflightCheck(
    config_hash=OTHER_HASH, problem=Reason.IMAGE_MISSING, message="No such image.", retry_at=NOW + MINUTE
)


def hot(desire: Desire = OTHER, age: timedelta = HOT - TICK, **changes: Any) -> Claimant:
    record = known(last_used_at=NOW - age)
    return replace(sandbox(), desire=desire, record=record, **changes)


CASES = [
    # --- 6: as wanted -------------------------------------------------------------------------------------
    Case(sentence="what is as wanted is used again", given=situation(sandbox()), rule="reuse", **READY),
    Case(
        sentence="what is as wanted and stopped is started again",
        given=situation(sandbox(), observed=runtime(state=RuntimeState.STOPPED)),
        rule="reuse",
        effect=Start(id="r1"),
        **STARTING,
    ),
    Case(
        sentence="what is starting again is waited for",
        given=situation(sandbox(), observed=runtime(state=RuntimeState.STARTING)),
        rule="reuse",
        **STARTING,
    ),
    Case(
        sentence="what a newer operator made is left alone, and that is said",
        given=situation(sandbox(), observed=runtime(config_hash=NEWER_HASH)),
        rule="reuse",
        drift=Reason.NEWER_EPOCH,
        **READY,
    ),
    Case(
        sentence="what a newer operator made is left alone though a new one is asked for",
        given=situation(sandbox(recreate="1"), observed=runtime(config_hash=NEWER_HASH)),
        rule="reuse",
        drift=Reason.NEWER_EPOCH,
        **READY,
    ),
    Case(
        sentence="what a newer operator made is left alone though its Sandbox belongs elsewhere for this one",
        given=situation(sandbox(desire=moved()), observed=runtime(config_hash=NEWER_HASH)),
        rule="reuse",
        drift=Reason.NEWER_EPOCH,
        **READY,
    ),
    Case(
        sentence="what a newer operator made is pruned as usual",
        given=situation(sandbox(desire=wanted(idle=MINUTE)), observed=runtime(config_hash=NEWER_HASH)),
        rule="prune",
        effect=replace(REPLACE, removal=Removal.PRUNE),
        phase=Phase.PRUNING,
        reason=Reason.PRUNING,
    ),
    Case(
        sentence="what an older operator made differs",
        given=situation(hot(wanted("v2-cccccccccccccccc")), epoch=2),
        rule="keep",
        **CHANGED,
    ),
    Case(
        sentence="a hash that is not one of ours is older than any",
        given=situation(hot(), observed=runtime(config_hash="what?")),
        rule="keep",
        **CHANGED,
    ),
    # --- 7: kept ------------------------------------------------------------------------------------------
    Case(sentence="a moment less than five minutes is hot", given=situation(hot()), rule="keep", **CHANGED),
    Case(
        sentence="exactly five minutes is cold",
        given=situation(hot(age=HOT), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="what is held is kept",
        given=situation(hot(age=HOUR, hold_until=raw(NOW + TICK)), preflight=FINE),
        rule="keep",
        **CHANGED,
    ),
    Case(
        sentence="what was held until now is not",
        given=situation(hot(age=HOUR, hold_until=raw(NOW)), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="what has a command running in it is kept",
        given=situation(hot(age=HOUR), observed=runtime(in_use=True), preflight=FINE),
        rule="keep",
        **CHANGED,
    ),
    Case(
        sentence="what is cold is kept while the policy holds back replacements",
        given=situation(hot(wanted(OTHER_HASH, rollout_paused=True), age=HOUR), preflight=FINE),
        rule="keep",
        **CHANGED,
    ),
    Case(
        sentence="what is cold is kept while the clock is not trusted",
        given=situation(hot(age=HOUR), preflight=FINE, clock_trusted=False),
        rule="keep",
        **CHANGED,
    ),
    Case(
        sentence="what is on another backend is kept while it is hot",
        given=situation(hot(wanted(OTHER_HASH, backend="pod"))),
        rule="keep",
        drift=Reason.IDENTITY_MOVED,
        **READY,
    ),
    Case(
        sentence="what belongs elsewhere is kept while it is hot",
        given=situation(hot(moved())),
        rule="keep",
        drift=Reason.IDENTITY_MOVED,
        **READY,
    ),
    Case(
        sentence="what is not sandboxed any more is kept while it is hot",
        given=situation(hot(moved(None))),
        rule="keep",
        drift=Reason.IDENTITY_MOVED,
        **READY,
    ),
    Case(
        sentence="what is to be new by annotation is kept while it is hot",
        given=situation(hot(wanted(), recreate="1")),
        rule="keep",
        drift=Reason.RECREATE_REQUESTED,
        **READY,
    ),
    Case(
        sentence="a lost status makes what runs hot",
        given=situation(newcomer(desire=OTHER), preflight=FINE),
        rule="keep",
        **CHANGED,
    ),
    Case(
        sentence="what is stopped and held is started as it is",
        given=situation(
            hot(age=HOUR, hold_until=raw(NOW + HOUR)),
            observed=runtime(state=RuntimeState.STOPPED),
            preflight=FINE,
        ),
        rule="keep",
        effect=Start(id="r1"),
        drift=Reason.CONFIG_CHANGED,
        **STARTING,
    ),
    # --- 8: replaced --------------------------------------------------------------------------------------
    Case(
        sentence="before it is replaced it is checked that another can be made",
        given=situation(sandbox(desire=OTHER)),
        rule="preflight",
        effect=Preflight(ruler="a"),
        **CHANGED,
    ),
    Case(
        sentence="a check for another configuration says nothing",
        given=situation(sandbox(desire=OTHER), preflight=FINE_AGAIN),
        rule="preflight",
        effect=Preflight(ruler="a"),
        **CHANGED,
    ),
    Case(
        sentence="then it is announced and removed",
        given=situation(sandbox(desire=OTHER), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="a removal that was announced is carried on after a crash",
        given=situation(sandbox(desire=OTHER, record=known(removing="r1")), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="what was announced to one of two only is announced again",
        given=situation(
            sandbox("a", desire=OTHER, record=known(removing="r1")),
            sandbox("b", desire=OTHER),
            preflight=FINE,
        ),
        **REPLACING,
    ),
    Case(
        sentence="a use after the announcement cancels it",
        given=situation(
            sandbox(desire=OTHER, record=known(removing="r1"), last_used=raw(NOW)), preflight=FINE
        ),
        rule="keep",
        **CHANGED,
    ),
    Case(
        sentence="a configuration that is taken back cancels it",
        given=situation(sandbox(record=known(removing="r1"))),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="a check that fails keeps what runs",
        given=situation(sandbox(desire=OTHER), preflight=NO_IMAGE),
        rule="blocked",
        drift=Reason.REPLACEMENT_BLOCKED,
        **READY,
    ),
    Case(
        sentence="it is checked again when its time has come",
        given=situation(sandbox(desire=OTHER), preflight=replace(NO_IMAGE, retry_at=NOW)),
        rule="preflight",
        effect=Preflight(ruler="a"),
        drift=Reason.REPLACEMENT_BLOCKED,
        **READY,
    ),
    Case(
        sentence="a check that fails for good is not repeated",
        given=situation(sandbox(desire=OTHER), preflight=replace(NO_IMAGE, retry_at=None)),
        rule="blocked",
        drift=Reason.REPLACEMENT_BLOCKED,
        **READY,
    ),
    Case(
        sentence="what is stopped is cold, however lately it was used",
        given=situation(hot(), observed=runtime(state=RuntimeState.STOPPED), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="what is stopped and cannot be replaced is started as it is",
        given=situation(
            sandbox(desire=OTHER), observed=runtime(state=RuntimeState.STOPPED), preflight=NO_IMAGE
        ),
        rule="blocked",
        effect=Start(id="r1"),
        drift=Reason.REPLACEMENT_BLOCKED,
        **STARTING,
    ),
    Case(
        sentence="what is to be new by annotation is replaced by its like, once that is known to be possible",
        given=situation(sandbox(recreate="1"), preflight=FINE_AGAIN),
        **{**REPLACING, "effect": replace(REPLACE, by_request=True)},
    ),
    Case(
        sentence="what was asked for before is not asked for again",
        given=situation(sandbox(recreate="1", record=known(recreate="1"))),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="a new runtime honours what was asked before it was there",
        given=situation(newcomer(recreate="1")),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="what is on another backend is replaced when it is cold",
        given=situation(sandbox(desire=wanted(OTHER_HASH, backend="pod")), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="what belongs elsewhere goes when it is cold, and nothing has to be checked",
        given=situation(sandbox(desire=moved())),
        **REPLACING,
    ),
    Case(
        sentence="mode off is the same",
        given=situation(sandbox(desire=moved(None))),
        **REPLACING,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=sentence)
def test_in_this_situation(case: Case) -> None:
    case.check()


def drift_message(given: Situation) -> str:
    drift = decide(given).reports["a"].drift
    assert drift is not None
    return drift.message


def test_drift_names_both_hashes_and_when_it_ends() -> None:
    message = drift_message(situation(hot(age=2 * MINUTE)))
    assert HASH in message
    assert OTHER_HASH in message
    assert "2026-01-10T12:03:00Z" in message


def test_drift_says_what_it_waits_for() -> None:
    held_back = wanted(OTHER_HASH, rollout_paused=True)
    assert "rollout" in drift_message(situation(hot(held_back)))
    assert "rollout" in drift_message(situation(sandbox(desire=held_back)))
    assert "clock" in drift_message(situation(sandbox(desire=OTHER), clock_trusted=False))
    assert "No such image." in drift_message(situation(sandbox(desire=OTHER), preflight=NO_IMAGE))
    assert "ns/default/agent:b" in drift_message(situation(hot(moved())))
    assert NEWER_HASH in drift_message(situation(sandbox(), observed=runtime(config_hash=NEWER_HASH)))


@pytest.mark.parametrize(
    ("claimant", "at"),
    [
        (hot(age=2 * MINUTE), NOW + 3 * MINUTE),
        (hot(age=2 * MINUTE, hold_until=raw(NOW + HOUR)), NOW + HOUR),
        (hot(age=2 * MINUTE, hold_until=raw(NOW + SECOND)), NOW + 3 * MINUTE),
        (hot(age=HOUR, hold_until=raw(NOW + HOUR)), NOW + HOUR),
    ],
)
def test_what_is_kept_says_when_it_is_replaced_and_is_then(claimant: Claimant, at: datetime) -> None:
    given = situation(claimant, preflight=FINE)
    plan = decide(given)
    assert plan.reports["a"].next == Transition(at=at, what="Replace")
    assert plan.wake_at == at
    assert decide(replace(given, now=at - TICK)).rule == "keep"
    assert decide(replace(given, now=at)).rule == "replace"


def test_a_use_puts_off_the_alarm_but_not_the_reported_time() -> None:
    given = situation(hot(age=2 * MINUTE, last_used=raw(NOW)))
    plan = decide(given)
    assert plan.reports["a"].next == Transition(at=NOW + 3 * MINUTE, what="Replace")
    assert plan.wake_at == NOW + 5 * MINUTE


def test_without_a_hot_window_a_running_command_is_looked_at_again_in_a_while() -> None:
    plan = decide(situation(sandbox(desire=wanted(OTHER_HASH, hot=ZERO)), observed=runtime(in_use=True)))
    assert plan.rule == "keep"
    assert plan.wake_at is not None
    assert plan.wake_at - NOW > SECOND


def test_a_blocked_replacement_says_when_it_is_tried_again() -> None:
    plan = decide(situation(sandbox(desire=OTHER), preflight=NO_IMAGE))
    assert plan.reports["a"].next == Transition(at=NOW + MINUTE, what="Retry")
    assert plan.wake_at == NOW + MINUTE


def test_an_announcement_names_the_runtime_on_every_claimant() -> None:
    plan = decide(situation(sandbox("a", desire=OTHER), sandbox("b", desire=OTHER), preflight=FINE))
    assert {uid: report.record.removing for uid, report in plan.reports.items()} == {"a": "r1", "b": "r1"}


def test_from_the_announcement_to_the_new_runtime_the_same_is_said() -> None:
    now = situation(sandbox(desire=OTHER), preflight=FINE)
    plan = decide(now)
    for observed in (
        runtime(state=RuntimeState.TERMINATING),
        None,
        runtime("r2", state=RuntimeState.CREATED, config_hash=OTHER_HASH),
    ):
        now = recorded(now, plan, observed=observed)
        following = decide(now)
        assert following.reports == plan.reports
        plan = following
    done = decide(recorded(now, plan, observed=runtime("r2", config_hash=OTHER_HASH)))
    assert done.reports["a"].record == known("r2", config_hash=OTHER_HASH, last_used_at=ago(HOUR))


def test_recreate_happens_once() -> None:
    now = situation(sandbox(recreate="please"), preflight=FINE_AGAIN)
    assert decide(now).rule == "replace"
    now = recorded(now, decide(now), observed=None)
    assert decide(now).effect == Create(ruler="a", recovery=False)
    now = recorded(now, decide(now), observed=runtime("r2"))
    now = recorded(now, decide(now))
    assert decide(now).rule == "reuse"
    assert now.claimants[0].record.recreate == "please"
    taken_away = replace(now, claimants=(replace(now.claimants[0], recreate=None),))
    assert decide(taken_away).reports["a"].record.recreate == "please"
    other = replace(now, claimants=(replace(now.claimants[0], recreate="again"),))
    assert decide(other).rule == "replace"


def test_recreate_takes_text_of_any_length_and_records_little() -> None:
    long = "x" * 10_000
    now = situation(newcomer(recreate=long))
    now = recorded(now, decide(now))
    assert len(now.claimants[0].record.recreate or "") < 256
    assert decide(now).effect is None
    assert decide(now).reports["a"].drift is None
    other = replace(now, claimants=(replace(now.claimants[0], recreate=long + "y"),))
    assert decide(other).reports["a"].drift is not None


def test_mode_off_ends_as_not_sandboxed() -> None:
    now = situation(sandbox(desire=moved(None)))
    now = recorded(now, decide(now), observed=None)
    plan = decide(now)
    assert plan.effect is None
    assert plan.reports["a"].phase is Phase.NOT_SANDBOXED
    assert plan.reports["a"].record.runtime_id is None
    assert plan.reports["a"].record.removing is None


def test_a_clock_that_is_not_trusted_is_looked_at_again_though_no_deadline_is_near() -> None:
    desire = wanted(OTHER_HASH, idle=ZERO, max_age=ZERO)
    plan = decide(situation(sandbox(desire=desire), clock_trusted=False))
    assert plan.wake_at is not None
    assert SECOND < plan.wake_at - NOW <= MINUTE


def test_a_new_runtime_does_not_forget_what_was_asked_of_the_old_one() -> None:
    record = known("r0", removing="r0", recreate="1")
    assert decide(situation(sandbox(record=record))).reports["a"].record.recreate == "1"
