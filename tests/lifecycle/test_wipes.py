"""A fresh copy of the workspace: when all who share it ask, once for each value, and never under somebody's hands."""

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.situations import (
    DAY,
    HASH,
    HOUR,
    MINUTE,
    NEWER_HASH,
    NOW,
    OTHER_HASH,
    POLICY_GONE,
    SECOND,
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
    Failure,
    Observed,
    Plan,
    PreflightCheck,
    Pruned,
    Removal,
    Remove,
    RuntimeState,
    Setup,
    Situation,
    Start,
    decide,
)

FINE = PreflightCheck(config_hash=HASH)
IDLE = Pruned(at=ago(HOUR), reason=Reason.IDLE, last_used=None)
REPLACE = Remove(id="r1", removal=Removal.REPLACE, announced=True, limited=True, by_request=True)
READY: dict[str, Any] = {"phase": Phase.READY, "ready": True, "reason": Reason.RUNNING}
REPLACING: dict[str, Any] = {
    "rule": "replace",
    "effect": REPLACE,
    "phase": Phase.REPLACING,
    "reason": Reason.REPLACING,
}
KEPT: dict[str, Any] = {"rule": "keep", "drift": Reason.RECREATE_REQUESTED, **READY}


def hot(**changes: Any) -> Claimant:
    return sandbox(last_used=raw(ago(MINUTE)), **changes)


CASES = [
    Case(sentence="what is hot is kept", given=situation(hot(wipe="1"), preflight=FINE), **KEPT),
    Case(
        sentence="what is held is kept",
        given=situation(sandbox(wipe="1", hold_until=raw(NOW + SECOND)), preflight=FINE),
        **KEPT,
    ),
    Case(
        sentence="what has a command running in it is kept",
        given=situation(sandbox(wipe="1"), observed=runtime(in_use=True), preflight=FINE),
        **KEPT,
    ),
    Case(
        sentence="what one of two asks for is kept while the other uses it",
        given=situation(sandbox("a", wipe="1"), sandbox("b", wipe="1", last_used=raw(NOW)), preflight=FINE),
        **KEPT,
    ),
    Case(
        sentence="what is cold is replaced, once another is known to be possible",
        given=situation(sandbox(wipe="1"), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="what two share is replaced when both ask, each in its own words",
        given=situation(sandbox("a", wipe="1"), sandbox("b", wipe="2"), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="what two share is left alone when one asks",
        given=situation(sandbox("a", wipe="1"), sandbox("b"), preflight=FINE),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="what two share is left alone when the younger one asks",
        given=situation(sandbox("a"), sandbox("b", wipe="1"), preflight=FINE),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="one who asked before and got it does not ask again",
        given=situation(
            sandbox("a", wipe="2"), sandbox("b", wipe="1", record=known(wipe="1")), preflight=FINE
        ),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="a newcomer who asks takes nothing from those who are there",
        given=situation(sandbox("a"), newcomer("b", wipe="1"), preflight=FINE),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="a newcomer who does not ask keeps what the others wanted to lose",
        given=situation(sandbox("a", wipe="1"), newcomer("b"), preflight=FINE),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="one who is stopped shares it all the same",
        given=situation(sandbox("a", wipe="1"), sandbox("b", stopped=True), preflight=FINE),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="one who belongs elsewhere and uses what is here has to ask as well",
        given=situation(
            sandbox("a", wipe="1"), sandbox("b", desire=moved(), last_used=raw(NOW)), preflight=FINE
        ),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="one who is let go does not have to",
        given=situation(sandbox("a", wipe="1"), sandbox("b", desire=moved()), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="one who claims nothing does not have to",
        given=situation(
            sandbox("a", wipe="1", created_at=ago(3 * DAY)),
            sandbox("b", desire=wanted(OTHER_HASH)),
            preflight=FINE,
        ),
        **REPLACING,
    ),
    Case(
        sentence="a recreate of one is honoured though the wipe of the other waits",
        given=situation(sandbox("a", wipe="1"), sandbox("b", recreate="1"), preflight=FINE),
        **REPLACING,
    ),
    Case(
        sentence="what a newer operator made is left alone",
        given=situation(sandbox(wipe="1"), observed=runtime(config_hash=NEWER_HASH), preflight=FINE),
        rule="reuse",
        drift=Reason.NEWER_EPOCH,
        **READY,
    ),
    Case(
        sentence="what cannot be resolved is frozen",
        given=situation(sandbox(desire=POLICY_GONE, wipe="1"), observed=None),
        rule="unresolved",
        phase=Phase.FAILED,
        reason=Reason.POLICY_NOT_FOUND,
    ),
    Case(
        sentence="a hand that is off wipes nothing",
        given=situation(sandbox("a", wipe="1"), sandbox("b", wipe="1", paused=True), observed=None),
        rule="paused",
        phase=Phase.PENDING,
        reason=Reason.PAUSED,
    ),
    Case(
        sentence="what is stopped is replaced when it is to run again",
        given=situation(
            sandbox(wipe="1", record=known(stopped=True)),
            observed=runtime(state=RuntimeState.STOPPED),
            preflight=FINE,
        ),
        **REPLACING,
    ),
    Case(
        sentence="what is stopped stays so",
        given=situation(sandbox(wipe="1", stopped=True), observed=runtime(state=RuntimeState.STOPPED)),
        rule="stopped",
        phase=Phase.STOPPED,
        reason=Reason.STOPPED,
        drift=Reason.RECREATE_REQUESTED,
    ),
    Case(
        sentence="what was pruned is not brought back by it",
        given=situation(sandbox(wipe="1", record=known(None, pruned=IDLE)), observed=None),
        rule="stay-pruned",
        phase=Phase.PRUNED,
        reason=Reason.IDLE,
    ),
    Case(
        sentence="what nobody could use yet is not brought to its end first",
        given=situation(newcomer(wipe="1"), observed=runtime(state=RuntimeState.STARTING)),
        rule="dead",
        effect=Remove(id="r1", removal=Removal.DEAD),
        phase=Phase.CREATING,
        reason=Reason.CREATING,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=sentence)
def test_in_this_situation(case: Case) -> None:
    case.check()


# --- the next runtime ---------------------------------------------------------------------------------------


def created(*claimants: Claimant, **changes: Any) -> Create:
    effect = decide(situation(*claimants, **{"observed": None, **changes})).effect
    assert isinstance(effect, Create)
    return effect


@pytest.mark.parametrize(
    "claimant",
    [
        newcomer(wipe="1"),
        sandbox(wipe="1"),
        sandbox(wipe="1", record=known(removing="r1")),
        sandbox(wipe="1", record=known(None, pruned=IDLE), last_used=raw(NOW)),
        sandbox(wipe="1", record=known(None, stopped=True)),
        sandbox(wipe="2", record=known(wipe="1")),
    ],
    ids=["new", "missing", "removed", "woken", "to run again", "asked again"],
)
def test_whatever_happened_to_the_last_runtime_the_next_one_honours_it(claimant: Claimant) -> None:
    effect = created(claimant)
    assert effect.wipe
    assert len(effect.wiped_for) == 1


def test_what_failed_is_tried_again_with_it() -> None:
    failure = Failure(reason=Reason.IMAGE_MISSING, message="No.", count=1, retry_at=NOW)
    assert created(sandbox(wipe="1"), failure=failure).wipe


def test_the_next_runtime_has_what_the_last_one_had_unless_all_ask() -> None:
    assert not created(sandbox()).wipe
    assert not created(sandbox(wipe="1", record=known(wipe="1"))).wipe
    assert not created(sandbox("a", wipe="1"), sandbox("b")).wipe
    assert not created(sandbox("a", wipe="1"), sandbox("b", wipe="1", record=known(wipe="1"))).wipe
    assert not created(sandbox("a"), newcomer("b", wipe="1")).wipe
    assert created(sandbox("a", wipe="1"), sandbox("b", wipe="1")).wipe


def test_a_runtime_is_told_of_the_wipes_that_are_done_with_and_no_others() -> None:
    assert created(sandbox()).wiped_for == ()
    alone = created(sandbox("a", wipe="1")).wiped_for
    done = sandbox("a", wipe="1", record=known(wipe="1"))
    assert created(done).wiped_for == alone
    assert created(done, sandbox("b", wipe="1")).wiped_for == alone
    assert created(done, sandbox("b")).wiped_for == alone
    both = created(sandbox("a", wipe="1"), sandbox("b", wipe="1")).wiped_for
    assert len(set(both)) == 2
    assert set(alone) < set(both)
    assert created(sandbox("a", wipe="2")).wiped_for != alone


# --- from the wish to the record ----------------------------------------------------------------------------


def made(effect: object, runtime_id: str = "r2", **changes: Any) -> Observed:
    """The runtime that an effect makes."""
    assert isinstance(effect, Create)
    return runtime(runtime_id, created_at=NOW, wiped_for=frozenset(effect.wiped_for), **changes)


def step(now: Situation, plan: Plan, **changes: Any) -> tuple[Situation, Plan]:
    now = recorded(now, plan, **changes)
    return now, decide(now)


def records(now: Situation) -> dict[str, str | None]:
    return {each.uid: each.record.wipe for each in now.claimants}


def asked(now: Situation, uid: str, **annotations: Any) -> Situation:
    claimants = tuple(replace(each, **annotations) if each.uid == uid else each for each in now.claimants)
    return replace(now, claimants=claimants)


def test_it_happens_once() -> None:
    now = situation(sandbox("a", wipe="x"), sandbox("b", wipe="y"), preflight=FINE)
    plan = decide(now)
    assert plan.effect == REPLACE
    now, plan = step(now, plan, observed=None)
    assert isinstance(plan.effect, Create)
    assert plan.effect.wipe
    now, plan = step(now, plan, observed=made(plan.effect))
    now, plan = step(now, plan)
    assert (plan.rule, plan.reports["a"].drift) == ("reuse", None)
    assert records(now) == {"a": "x", "b": "y"}
    assert not created(*now.claimants).wipe
    assert decide(asked(now, "a", wipe=None)).reports["a"].record.wipe == "x"
    assert decide(asked(now, "a", wipe="z")).rule == "reuse"
    assert decide(asked(asked(now, "a", wipe="z"), "b", wipe="z")).effect == replace(REPLACE, id="r2")


def test_it_is_recorded_only_where_it_was_done() -> None:
    """Asked for while the runtime is on its way, made without it: it is not honoured by what comes now."""
    now = situation(newcomer("a"), newcomer("b"), observed=None)
    coming = made(decide(now).effect)
    now = asked(asked(replace(now, observed=coming), "a", wipe="1"), "b", wipe="1")
    now, plan = step(now, decide(now))
    assert records(now) == {"a": None, "b": None}
    assert plan.rule == "keep"  # it was made this very moment, and somebody may use it
    later = replace(now, now=NOW + HOUR, preflight=FINE)
    assert decide(later).effect == replace(REPLACE, id="r2")


def test_it_is_recorded_whoever_finds_the_runtime() -> None:
    """The process dies between making the runtime and saying so; a new one knows nothing but what it sees."""
    now = situation(newcomer("a", wipe="1"), observed=None)
    now = replace(now, observed=made(decide(now).effect))
    now, plan = step(now, decide(now))
    assert (plan.rule, records(now)) == ("reuse", {"a": "1"})


def test_one_whose_record_was_not_written_in_time_does_not_ask_again() -> None:
    now = situation(sandbox("a", wipe="1"), sandbox("b", wipe="1"), observed=None)
    there = made(decide(now).effect)
    written = sandbox("a", wipe="1", record=known("r2", wipe="1"))
    plan = decide(replace(now, claimants=(written, now.claimants[1]), observed=there))
    assert plan.rule == "reuse"
    assert plan.reports["b"].wipe_pending is None
    assert plan.reports["b"].record.wipe == "1"


def test_a_lost_status_wipes_nothing_again() -> None:
    done = sandbox("a", wipe="1", record=known(wipe="1"))
    there = made(created(done), "r1")
    lost = newcomer("a", wipe="1")
    cold = {"now": NOW + HOUR, "preflight": FINE}
    plan = decide(situation(lost, observed=there, **cold))
    assert (plan.rule, plan.reports["a"].record.wipe) == ("reuse", "1")
    stopped = replace(there, state=RuntimeState.STOPPED)
    assert decide(situation(lost, observed=stopped, **cold)).effect == Start(id="r1")


def test_what_dies_before_it_was_ready_may_be_made_afresh_again_and_what_dies_later_not() -> None:
    now = situation(newcomer("a", wipe="1"), observed=None)
    dead = made(decide(now).effect, state=RuntimeState.FAILED)
    assert isinstance(decide(replace(now, observed=dead)).effect, Remove)
    assert created(*now.claimants).wipe
    now, _ = step(replace(now, observed=replace(dead, state=RuntimeState.RUNNING)), decide(now))
    now = recorded(now, decide(now), observed=None)
    assert decide(now).effect == Create(
        ruler="a", recovery=True, wiped_for=created(newcomer("a", wipe="1")).wiped_for
    )


@pytest.mark.parametrize(
    "state",
    [RuntimeState.CREATED, RuntimeState.STARTING, RuntimeState.TERMINATING, RuntimeState.FAILED],
    ids=str,
)
def test_what_never_ran_may_have_wiped_nothing_and_is_not_recorded(state: RuntimeState) -> None:
    """A Pod wipes before it runs; one that is evicted earlier leaves the copy as it was."""
    now = situation(newcomer("a", wipe="1"), observed=None)
    now = replace(now, observed=made(decide(now).effect, state=state))
    assert decide(now).reports["a"].wipe_pending is None
    now, plan = step(now, decide(now), observed=None)
    assert records(now) == {"a": None}
    assert isinstance(plan.effect, Create)
    assert plan.effect.wipe


def test_a_setup_that_goes_on_for_what_was_asked_is_not_disturbed() -> None:
    now = situation(newcomer("a", wipe="1", desire=wanted(setup=True)), observed=None)
    coming = made(decide(now).effect, has_setup=True)
    plan = decide(replace(now, observed=coming, fresh="r2"))
    assert plan.effect == Setup(id="r2", ruler="a")


def test_text_of_any_length_is_taken_and_little_recorded() -> None:
    now = situation(newcomer("a", wipe="x" * 10_000), observed=None)
    now = replace(now, observed=made(decide(now).effect))
    now, plan = step(now, decide(now))
    assert plan.rule == "reuse"
    assert len(records(now)["a"] or "") < 256
    assert decide(asked(now, "a", wipe="x" * 10_001)).reports["a"].drift is not None


def test_even_an_empty_value_is_one() -> None:
    assert created(newcomer("a", wipe="")).wipe


# --- what is said -------------------------------------------------------------------------------------------


def pending(*claimants: Claimant, **changes: Any) -> dict[str, str | None]:
    return {
        uid: report.wipe_pending for uid, report in decide(situation(*claimants, **changes)).reports.items()
    }


def test_who_asks_alone_hears_who_else_would_have_to() -> None:
    said = pending(sandbox("a", wipe="1"), sandbox("b"), sandbox("c", wipe="1"), sandbox("d"))
    assert said["b"] is said["d"] is None
    assert said["a"] == said["c"]
    assert "sandkeeper.dev/wipe" in str(said["a"])
    assert str(said["a"]).endswith("these have not: sandbox-b, sandbox-d.")


def test_it_is_said_whatever_state_the_runtime_is_in() -> None:
    for changes in ({"observed": None}, {"observed": runtime(state=RuntimeState.TERMINATING)}):
        assert pending(sandbox("a", wipe="1"), sandbox("b"), **changes)["a"] is not None
    idle = known(None, pruned=IDLE)
    assert pending(sandbox("a", wipe="1", record=idle), sandbox("b", record=idle), observed=None)["a"]


def test_nothing_waits_where_all_ask_or_nobody_else_is_there_or_nothing_is_wanted_here() -> None:
    assert set(pending(sandbox("a", wipe="1"), sandbox("b", wipe="1")).values()) == {None}
    assert set(pending(sandbox("a", wipe="1")).values()) == {None}
    assert set(pending(sandbox("a", wipe="1", desire=moved()), sandbox("b", desire=moved())).values()) == {
        None
    }


def test_hundreds_are_counted() -> None:
    others = [sandbox(f"b{number:03}") for number in range(200)]
    said = pending(sandbox("a", wipe="1"), *others)["a"]
    assert said is not None
    assert "sandbox-b009 and 190 more" in said
    assert len(said) < 500


def test_drift_says_that_the_copy_is_to_be_fresh() -> None:
    drift = decide(situation(hot(wipe="1"))).reports["a"].drift
    assert drift is not None
    assert "fresh copy" in drift.message
    drift = decide(situation(hot(recreate="1"))).reports["a"].drift
    assert drift is not None
    assert "fresh copy" not in drift.message
