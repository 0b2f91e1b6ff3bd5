"""Rules 0 to 2, and what stands beside them."""

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.situations import (
    DAY,
    HASH,
    HOUR,
    IDLE,
    NOW,
    OLD,
    OTHER_HASH,
    POLICY_GONE,
    SECOND,
    Case,
    ago,
    known,
    moved,
    newcomer,
    recorded,
    runtime,
    sandbox,
    sentence,
    situation,
    wanted,
)
from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle import (
    Plan,
    Pruned,
    Record,
    Removal,
    Remove,
    RuntimeState,
    Start,
    Stop,
    Unreachable,
    Unresolved,
    decide,
)

UNREACHABLE = Unreachable(reason=Reason.ENGINE_UNREACHABLE, message="No answer.")
BIND_REFUSED = Unresolved(reason=Reason.BIND_REFUSED, message="/etc is refused.")
IDLE_FOR_AGES = known(last_used_at=ago(30 * DAY))

FROZEN: dict[str, Any] = {"rule": "unresolved", "phase": Phase.FAILED, "reason": Reason.POLICY_NOT_FOUND}
PAUSED: dict[str, Any] = {"rule": "paused", "phase": Phase.READY, "ready": True, "reason": Reason.RUNNING}
STOPPING: dict[str, Any] = {"rule": "stopped", "phase": Phase.PENDING, "reason": Reason.STOPPING}
STOPPED: dict[str, Any] = {"rule": "stopped", "phase": Phase.STOPPED, "reason": Reason.STOPPED}
UNKNOWN: dict[str, Any] = {
    "rule": "unreachable",
    "phase": Phase.UNKNOWN,
    "ready": None,
    "reason": Reason.ENGINE_UNREACHABLE,
}

CASES = [
    # --- 0: what is wanted cannot be said -----------------------------------------------------------------
    Case(
        sentence="a policy that is gone leaves what runs alone",
        given=situation(sandbox(desire=POLICY_GONE)),
        **FROZEN,
    ),
    Case(
        sentence="a policy that is gone keeps what is idle and too old",
        given=situation(sandbox(desire=POLICY_GONE, created_at=ago(90 * DAY), record=IDLE_FOR_AGES)),
        **FROZEN,
    ),
    Case(
        sentence="a policy that is gone has nothing created",
        given=situation(newcomer(desire=POLICY_GONE), observed=None),
        **FROZEN,
    ),
    Case(
        sentence="a policy that is gone keeps what runs even where Stopped is asked for",
        given=situation(sandbox(desire=POLICY_GONE, stopped=True)),
        **FROZEN,
    ),
    Case(
        sentence="a policy that is gone is said even where the engine is not reachable",
        given=situation(sandbox(desire=POLICY_GONE), observed=UNREACHABLE),
        **FROZEN,
    ),
    Case(
        sentence="a ruler that cannot be resolved freezes those who could",
        given=situation(sandbox("b"), sandbox("a", created_at=ago(3 * DAY), desire=POLICY_GONE)),
        **FROZEN,
    ),
    # --- nothing is known ---------------------------------------------------------------------------------
    Case(
        sentence="an engine that does not answer makes Ready unknown",
        given=situation(sandbox(), observed=UNREACHABLE),
        **UNKNOWN,
    ),
    Case(
        sentence="nothing is stopped on an engine that does not answer",
        given=situation(sandbox(stopped=True), observed=UNREACHABLE),
        **UNKNOWN,
    ),
    Case(
        sentence="nothing is pruned on an engine that does not answer",
        given=situation(sandbox(record=IDLE_FOR_AGES, created_at=ago(90 * DAY)), observed=UNREACHABLE),
        **UNKNOWN,
    ),
    Case(
        sentence="an engine that does not answer is waited for where nobody claims a runtime of it",
        given=situation(observed=UNREACHABLE),
        rule="unreachable",
    ),
    # --- 1: nobody claims it ------------------------------------------------------------------------------
    Case(
        sentence="a runtime that nobody claims is removed, in use or not",
        given=situation(observed=runtime(in_use=True)),
        rule="unclaimed",
        effect=Remove(id="r1", removal=Removal.UNCLAIMED),
    ),
    Case(
        sentence="a runtime that nobody claims is not removed twice",
        given=situation(observed=runtime(state=RuntimeState.TERMINATING)),
        rule="unclaimed",
    ),
    Case(sentence="nothing and nobody is at rest", given=situation(observed=None), rule="unclaimed"),
    # --- paused -------------------------------------------------------------------------------------------
    Case(
        sentence="a sharer that is paused keeps the runtime from being stopped",
        given=situation(sandbox("a", stopped=True), sandbox("b", stopped=True, paused=True)),
        **PAUSED,
    ),
    Case(
        sentence="a sharer that is paused keeps the runtime from being pruned",
        given=situation(
            sandbox("a", created_at=ago(30 * DAY), record=IDLE_FOR_AGES),
            sandbox("b", created_at=ago(30 * DAY), record=IDLE_FOR_AGES, paused=True),
            observed=runtime(created_at=ago(30 * DAY)),
        ),
        **PAUSED,
    ),
    Case(
        sentence="a sharer that is paused keeps the runtime from being replaced, and the drift is said",
        given=situation(
            sandbox("a", desire=wanted(OTHER_HASH)), sandbox("b", desire=wanted(OTHER_HASH), paused=True)
        ),
        drift=Reason.CONFIG_CHANGED,
        **PAUSED,
    ),
    Case(
        sentence="a sharer that is paused keeps a runtime from being created",
        given=situation(newcomer("a"), newcomer("b", paused=True), observed=None),
        rule="paused",
        phase=Phase.PENDING,
        reason=Reason.PAUSED,
    ),
    Case(
        sentence="a sharer that is paused keeps a dead runtime where it is",
        given=situation(sandbox("a"), sandbox("b", paused=True), observed=runtime(state=RuntimeState.FAILED)),
        rule="paused",
        phase=Phase.PENDING,
        reason=Reason.PAUSED,
    ),
    Case(
        sentence="one who does not count does not count as paused either",
        given=situation(sandbox("a"), sandbox("b", created_at=NOW, desire=wanted(OTHER_HASH), paused=True)),
        rule="reuse",
        phase=Phase.READY,
        ready=True,
        reason=Reason.RUNNING,
    ),
    # --- nothing wanted, nothing left ---------------------------------------------------------------------
    Case(
        sentence="mode off with nothing left is NotSandboxed, and ready",
        given=situation(newcomer(desire=moved(None)), observed=None),
        rule="gone-elsewhere",
        phase=Phase.NOT_SANDBOXED,
        ready=True,
        reason=Reason.NOT_SANDBOXED,
    ),
    Case(
        sentence="mode off stays NotSandboxed however long nobody uses it",
        given=situation(
            sandbox(desire=moved(None), created_at=ago(90 * DAY), record=Record(last_used_at=ago(90 * DAY))),
            observed=None,
        ),
        rule="gone-elsewhere",
        phase=Phase.NOT_SANDBOXED,
        ready=True,
        reason=Reason.NOT_SANDBOXED,
    ),
    Case(
        sentence="mode off is NotSandboxed even where Stopped is asked for",
        given=situation(newcomer(desire=moved(None), stopped=True), observed=None),
        rule="gone-elsewhere",
        phase=Phase.NOT_SANDBOXED,
        ready=True,
        reason=Reason.NOT_SANDBOXED,
    ),
    Case(
        sentence="one that belongs elsewhere is let go once nothing is left here",
        given=situation(sandbox(desire=moved()), observed=None),
        rule="gone-elsewhere",
        phase=Phase.PENDING,
        reason=Reason.PENDING,
    ),
    # --- 2: all say Stopped -------------------------------------------------------------------------------
    Case(
        sentence="what runs is stopped, hot as it is",
        given=situation(sandbox(stopped=True, record=known(last_used_at=NOW))),
        effect=Stop(id="r1"),
        **STOPPING,
    ),
    Case(
        sentence="what is held is stopped",
        given=situation(sandbox(stopped=True, hold_until="2026-01-10T13:00:00Z")),
        effect=Stop(id="r1"),
        **STOPPING,
    ),
    Case(
        sentence="what has a command running in it is stopped",
        given=situation(sandbox(stopped=True), observed=runtime(in_use=True)),
        effect=Stop(id="r1"),
        **STOPPING,
    ),
    Case(
        sentence="what is starting is stopped",
        given=situation(sandbox(stopped=True), observed=runtime(state=RuntimeState.STARTING)),
        effect=Stop(id="r1"),
        **STOPPING,
    ),
    Case(
        sentence="what is stopped is never pruned",
        given=situation(
            sandbox(stopped=True, created_at=ago(90 * DAY), record=IDLE_FOR_AGES),
            observed=runtime(state=RuntimeState.STOPPED, created_at=ago(10 * OLD)),
        ),
        **STOPPED,
    ),
    Case(
        sentence="what is stopped and differs is left until it is to run again",
        given=situation(
            sandbox(stopped=True, desire=wanted(OTHER_HASH)), observed=runtime(state=RuntimeState.STOPPED)
        ),
        drift=Reason.CONFIG_CHANGED,
        **STOPPED,
    ),
    Case(
        sentence="what is stopped and recreated stays stopped",
        given=situation(sandbox(stopped=True, recreate="1"), observed=runtime(state=RuntimeState.STOPPED)),
        drift=Reason.RECREATE_REQUESTED,
        **STOPPED,
    ),
    Case(
        sentence="what is stopped and has no runtime stays so, idle as it is",
        given=situation(sandbox(stopped=True, created_at=ago(90 * DAY), record=IDLE_FOR_AGES), observed=None),
        **STOPPED,
    ),
    Case(
        sentence="what is new and stopped has nothing created",
        given=situation(newcomer(stopped=True), observed=None),
        **STOPPED,
    ),
    Case(
        sentence="what was pruned and is stopped now is stopped, so it is not deleted in the end",
        given=situation(
            sandbox(
                stopped=True,
                desire=wanted(delete_after=SECOND),
                record=Record(
                    last_used_at=ago(3 * DAY), pruned=Pruned(at=ago(DAY), reason=Reason.IDLE, last_used=None)
                ),
            ),
            observed=None,
        ),
        **STOPPED,
    ),
    Case(
        sentence="what died while it was to be stopped is left where it is",
        given=situation(sandbox(stopped=True), observed=runtime(state=RuntimeState.FAILED)),
        **STOPPED,
    ),
    Case(
        sentence="what is on its way out is waited for",
        given=situation(sandbox(stopped=True), observed=runtime(state=RuntimeState.TERMINATING)),
        **STOPPING,
    ),
    Case(
        sentence="one that belongs elsewhere is stopped where it is",
        given=situation(sandbox(stopped=True, desire=moved())),
        effect=Stop(id="r1"),
        drift=Reason.IDENTITY_MOVED,
        **STOPPING,
    ),
    Case(
        sentence="what is to run again after three days is started: running it again is a use",
        given=situation(
            sandbox(
                created_at=ago(9 * DAY),
                record=known(last_used_at=ago(3 * DAY), stopped=True),
                desire=wanted(),
            ),
            observed=runtime(state=RuntimeState.STOPPED),
        ),
        rule="reuse",
        effect=Start(id="r1"),
        phase=Phase.CREATING,
        reason=Reason.CREATING,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=sentence)
def test_in_this_situation(case: Case) -> None:
    case.check()


def test_a_frozen_record_is_kept_word_for_word() -> None:
    record = known(
        pruned=Pruned(at=ago(DAY), reason=Reason.IDLE, last_used=None), removing="r1", recoveries=3
    )
    plan = decide(situation(sandbox(desire=POLICY_GONE, record=record, last_used="now", hold_until="2030")))
    assert plan.reports["a"].record == record
    assert plan.wake_at is None


def test_an_unknown_record_is_kept_word_for_word() -> None:
    record = known(removing="r1", setup_complete=True)
    plan = decide(situation(sandbox(record=record), observed=UNREACHABLE))
    assert plan.reports["a"].record == record


def test_a_frozen_sharer_hears_of_its_own_problem_or_of_the_rulers() -> None:
    plan = decide(
        situation(
            sandbox("a", desire=POLICY_GONE, created_at=ago(3 * DAY)),
            sandbox("b", desire=BIND_REFUSED),
            sandbox("c"),
        )
    )
    reasons = {uid: report.readiness.reason for uid, report in plan.reports.items()}
    assert reasons == {"a": Reason.POLICY_NOT_FOUND, "b": Reason.BIND_REFUSED, "c": Reason.POLICY_NOT_FOUND}
    assert "sandbox-a" in plan.reports["c"].readiness.message


def test_a_paused_sandbox_is_never_reported() -> None:
    everything = [
        situation(sandbox("a"), sandbox("b", paused=True)),
        situation(sandbox("a", desire=POLICY_GONE), sandbox("b", paused=True)),
        situation(sandbox("a"), sandbox("b", paused=True), observed=UNREACHABLE),
        situation(sandbox("a"), sandbox("b", created_at=NOW, desire=wanted(OTHER_HASH), paused=True)),
    ]
    assert [set(decide(each).reports) for each in everything] == [{"a"}] * 4


def test_nobody_is_told_of_a_runtime_that_nobody_claims() -> None:
    assert decide(situation(observed=runtime())) == Plan(
        rule="unclaimed", effect=Remove(id="r1", removal=Removal.UNCLAIMED)
    )


def test_pods_that_are_stopped_are_gone_and_come_back_without_being_called_a_recovery() -> None:
    before = situation(sandbox(stopped=True), observed=None)
    after = recorded(before, decide(before))
    assert after.claimants[0].record.runtime_id is None
    running = decide(replace(after, claimants=(replace(after.claimants[0], stopped=False),)))
    assert running.rule == "create"
    assert running.effect is not None
    assert running.reports["a"].readiness.reason is Reason.CREATING


def test_running_again_is_remembered_as_a_use() -> None:
    stopped_long_ago = sandbox(
        created_at=ago(9 * DAY), record=Record(last_used_at=ago(3 * DAY), stopped=True, config_hash=HASH)
    )
    before = situation(stopped_long_ago, observed=None)
    plan = decide(before)
    assert plan.rule == "create"
    record = plan.reports["a"].record
    assert (record.stopped, record.last_used_at) == (False, NOW)
    later = recorded(before, plan, now=NOW + IDLE)
    assert decide(later).rule == "create"


def test_mode_off_forgets_the_prune_and_a_move_takes_it_along() -> None:
    pruned = Pruned(at=ago(DAY), reason=Reason.IDLE, last_used=None)
    record = known(pruned=pruned, removing="r1")
    off = decide(situation(sandbox(desire=moved(None), record=record), observed=None))
    elsewhere = decide(situation(sandbox(desire=moved(), record=record), observed=None))
    assert off.reports["a"].record == Record(last_used_at=ago(HOUR))
    assert elsewhere.reports["a"].record == Record(last_used_at=ago(HOUR), pruned=pruned)
    assert "ns/default/agent:b" in elsewhere.reports["a"].readiness.message


def test_a_set_up_that_was_not_recorded_before_the_stop_is_recorded_with_it() -> None:
    there = runtime(has_setup=True)
    before = situation(newcomer(stopped=True), observed=there, setup_done="r1")
    assert decide(before).effect == Stop(id="r1")
    after = replace(before, observed=replace(there, state=RuntimeState.STOPPED))
    later = recorded(after, decide(after), setup_done=None)
    assert later.claimants[0].record.setup_complete
    running = replace(later, claimants=(replace(later.claimants[0], stopped=False),))
    assert decide(running).effect == Start(id="r1")


def test_being_stopped_is_recorded_wherever_it_is_said() -> None:
    for observed, said in (
        (None, Reason.STOPPED),
        (runtime(), Reason.STOPPING),
        (runtime(state=RuntimeState.TERMINATING), Reason.STOPPING),
        (runtime(state=RuntimeState.STOPPED), Reason.STOPPED),
        (runtime(state=RuntimeState.FAILED), Reason.STOPPED),
    ):
        report = decide(situation(sandbox(stopped=True), observed=observed)).reports["a"]
        assert (report.record.stopped, report.readiness.reason) == (True, said)
