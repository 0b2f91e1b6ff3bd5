"""Rule 5: what is missing or dead is made anew, and what is half made is brought to an end."""

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.situations import (
    HASH,
    NEWER_HASH,
    NOW,
    OTHER_HASH,
    SECOND,
    TICK,
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
    Create,
    Failure,
    Record,
    Removal,
    Remove,
    RuntimeState,
    Setup,
    Start,
    Transition,
    decide,
)

DEAD = Remove(id="r1", removal=Removal.DEAD)
CREATING: dict[str, Any] = {"phase": Phase.CREATING, "reason": Reason.CREATING}
READY: dict[str, Any] = {"phase": Phase.READY, "ready": True, "reason": Reason.RUNNING}
WITH_SETUP = runtime(has_setup=True)
SET_UP = known(setup_complete=True)
DIED = Failure(reason=Reason.EXITED, message="Exit code 1.", count=2, retry_at=NOW + SECOND)


CASES = [
    # --- missing ------------------------------------------------------------------------------------------
    Case(
        sentence="what is new is made at once",
        given=situation(newcomer(), observed=None),
        rule="create",
        effect=Create(ruler="a"),
        **CREATING,
    ),
    Case(
        sentence="what was there and is gone is made anew, and that is a recovery",
        given=situation(sandbox(), observed=None),
        rule="create",
        effect=Create(ruler="a", recovery=True),
        phase=Phase.CREATING,
        reason=Reason.RECOVERING,
    ),
    Case(
        sentence="what made way is made anew, and that is no recovery",
        given=situation(sandbox(record=known(removing="r1")), observed=None),
        rule="create",
        effect=Create(ruler="a"),
        phase=Phase.REPLACING,
        reason=Reason.REPLACING,
    ),
    Case(
        sentence="what was announced of another runtime does not make this loss a purpose",
        given=situation(sandbox(record=known(removing="r0")), observed=None),
        rule="create",
        effect=Create(ruler="a", recovery=True),
        phase=Phase.REPLACING,
        reason=Reason.REPLACING,
    ),
    Case(
        sentence="after a failure it is waited for",
        given=situation(sandbox(), observed=None, failure=DIED),
        rule="back-off",
        phase=Phase.FAILED,
        reason=Reason.EXITED,
    ),
    Case(
        sentence="until its time has come, and not longer",
        given=situation(sandbox(), observed=None, failure=DIED, now=DIED.retry_at),
        rule="create",
        effect=Create(ruler="a", recovery=True),
        phase=Phase.CREATING,
        reason=Reason.RECOVERING,
    ),
    Case(
        sentence="a clock that is not trusted creates all the same",
        given=situation(newcomer(), observed=None, clock_trusted=False),
        rule="create",
        effect=Create(ruler="a"),
        **CREATING,
    ),
    # --- dead ---------------------------------------------------------------------------------------------
    Case(
        sentence="what died is removed first",
        given=situation(
            sandbox(), observed=runtime(state=RuntimeState.FAILED, ended=Reason.OOM_KILLED, message="137")
        ),
        rule="dead",
        effect=DEAD,
        phase=Phase.FAILED,
        reason=Reason.OOM_KILLED,
    ),
    Case(
        sentence="what died is removed even while the next is waited for",
        given=situation(sandbox(), observed=runtime(state=RuntimeState.FAILED), failure=DIED),
        rule="dead",
        effect=DEAD,
        phase=Phase.FAILED,
        reason=Reason.EXITED,
    ),
    Case(
        sentence="what died is removed, held as it is",
        given=situation(
            sandbox(hold_until="2027-01-01T00:00:00Z"), observed=runtime(state=RuntimeState.FAILED)
        ),
        rule="dead",
        effect=DEAD,
        phase=Phase.FAILED,
        reason=Reason.EXITED,
    ),
    Case(
        sentence="gone means gone: what is terminating is waited for",
        given=situation(sandbox(), observed=runtime(state=RuntimeState.TERMINATING)),
        rule="terminating",
        phase=Phase.PENDING,
        reason=Reason.TERMINATING,
    ),
    Case(
        sentence="what is terminating to make way is waited for in the words that announced it",
        given=situation(
            sandbox(record=known(removing="r1")), observed=runtime(state=RuntimeState.TERMINATING)
        ),
        rule="terminating",
        phase=Phase.REPLACING,
        reason=Reason.REPLACING,
    ),
    # --- half made ----------------------------------------------------------------------------------------
    Case(
        sentence="what was made and not started is started",
        given=situation(newcomer(), observed=runtime(state=RuntimeState.CREATED)),
        rule="start",
        effect=Start(id="r1"),
        **CREATING,
    ),
    Case(
        sentence="what is starting is waited for",
        given=situation(newcomer(), observed=runtime(state=RuntimeState.STARTING)),
        rule="starting",
        **CREATING,
    ),
    Case(
        sentence="what was made from something else and not started goes at once",
        given=situation(newcomer(desire=wanted(OTHER_HASH)), observed=runtime(state=RuntimeState.CREATED)),
        rule="dead",
        effect=DEAD,
        **CREATING,
    ),
    Case(
        sentence="what does not come up, for its image was misspelt, goes as soon as that is mended",
        given=situation(newcomer(desire=wanted(OTHER_HASH)), observed=runtime(state=RuntimeState.STARTING)),
        rule="dead",
        effect=DEAD,
        **CREATING,
    ),
    Case(
        sentence="what comes up for one that belongs elsewhere by now goes at once",
        given=situation(newcomer(desire=moved()), observed=runtime(state=RuntimeState.STARTING)),
        rule="dead",
        effect=DEAD,
        **CREATING,
    ),
    Case(
        sentence="what a newer operator is making is let come up",
        given=situation(newcomer(), observed=runtime(state=RuntimeState.STARTING, config_hash=NEWER_HASH)),
        rule="starting",
        **CREATING,
    ),
    # --- set-up -------------------------------------------------------------------------------------------
    Case(
        sentence="a new runtime is set up",
        given=situation(newcomer(), observed=WITH_SETUP, fresh="r1"),
        rule="set-up",
        effect=Setup(id="r1", ruler="a"),
        phase=Phase.SETUP,
        reason=Reason.SETTING_UP,
    ),
    Case(
        sentence="what is not up yet is not set up yet",
        given=situation(newcomer(), observed=replace(WITH_SETUP, state=RuntimeState.STARTING), fresh="r1"),
        rule="starting",
        **CREATING,
    ),
    Case(
        sentence="what this process set up is ready",
        given=situation(newcomer(), observed=WITH_SETUP, setup_done="r1"),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="what is recorded as set up is ready",
        given=situation(sandbox(record=SET_UP), observed=WITH_SETUP),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="what one of the sharers has recorded as set up is ready for all",
        given=situation(newcomer("a"), sandbox("b", record=SET_UP), observed=WITH_SETUP),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="the set-up of another runtime proves nothing",
        given=situation(
            sandbox(record=replace(SET_UP, runtime_id="r0")), observed=WITH_SETUP, setup_done="r2", fresh="r3"
        ),
        rule="dead",
        effect=DEAD,
        phase=Phase.FAILED,
        reason=Reason.SETUP_FAILED,
    ),
    Case(
        sentence="a set-up that began before the process died is not begun again: the runtime goes",
        given=situation(sandbox(record=known(setup_complete=False)), observed=WITH_SETUP),
        rule="dead",
        effect=DEAD,
        phase=Phase.FAILED,
        reason=Reason.SETUP_FAILED,
    ),
    Case(
        sentence="a lost status proves no set-up, even where a command runs: it may be the set-up itself",
        given=situation(newcomer(), observed=replace(WITH_SETUP, in_use=True)),
        rule="dead",
        effect=DEAD,
        phase=Phase.FAILED,
        reason=Reason.SETUP_FAILED,
    ),
    Case(
        sentence="a set-up that failed is said with its own words while the runtime goes",
        given=situation(
            newcomer(),
            observed=WITH_SETUP,
            failure=replace(DIED, reason=Reason.SETUP_FAILED, message="pip: not found"),
        ),
        rule="dead",
        effect=DEAD,
        phase=Phase.FAILED,
        reason=Reason.SETUP_FAILED,
    ),
    Case(
        sentence="what is stopped and was never set up is not started again",
        given=situation(sandbox(), observed=replace(WITH_SETUP, state=RuntimeState.STOPPED), fresh="r1"),
        rule="dead",
        effect=DEAD,
        phase=Phase.FAILED,
        reason=Reason.SETUP_FAILED,
    ),
    Case(
        sentence="what is to be something else by now is not set up first",
        given=situation(newcomer(desire=wanted(OTHER_HASH)), observed=WITH_SETUP, fresh="r1"),
        rule="dead",
        effect=DEAD,
        **CREATING,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=sentence)
def test_in_this_situation(case: Case) -> None:
    case.check()


def test_waiting_says_until_when_and_why() -> None:
    plan = decide(situation(sandbox(), observed=None, failure=DIED))
    assert plan.reports["a"].next == Transition(at=DIED.retry_at, what="Retry")
    assert plan.reports["a"].readiness.message == "Exit code 1."
    assert plan.wake_at == DIED.retry_at
    early = decide(situation(sandbox(), observed=None, failure=DIED, now=DIED.retry_at - TICK))
    assert early.rule == "back-off"


def test_what_is_recorded_of_a_ready_runtime() -> None:
    plan = decide(situation(newcomer(recreate="1"), observed=WITH_SETUP, setup_done="r1"))
    assert plan.reports["a"].record == Record(
        runtime_id="r1",
        backend="docker",
        node="engine",
        setup_complete=True,
        config_hash=HASH,
        last_used_at=NOW,
        recreate="1",
    )


def test_nothing_is_recorded_of_a_runtime_that_is_not_ready() -> None:
    for state in (RuntimeState.CREATED, RuntimeState.STARTING):
        plan = decide(situation(newcomer(), observed=runtime(state=state)))
        assert plan.reports["a"].record == Record(last_used_at=NOW)
    setting_up = decide(situation(newcomer(), observed=WITH_SETUP, fresh="r1"))
    assert setting_up.reports["a"].record == Record(last_used_at=NOW)


def test_a_recovery_is_counted_once_wherever_the_reports_are_written_in_between() -> None:
    steps: list[dict[str, Any]] = [
        {"observed": runtime(state=RuntimeState.FAILED)},
        {"observed": None},
        {"observed": runtime("r2", state=RuntimeState.CREATED)},
        {"observed": runtime("r2", state=RuntimeState.STARTING)},
        {"observed": runtime("r2")},
        {"observed": runtime("r2")},
    ]
    for written in range(2 ** len(steps)):
        now = situation(sandbox())
        for index, changes in enumerate(steps):
            now = replace(now, **changes)
            plan = decide(now)
            if written >> index & 1:
                now = recorded(now, plan)
        assert decide(now).reports["a"].record.recoveries == 1


def test_a_death_on_the_way_to_a_recovery_is_the_same_recovery() -> None:
    now = situation(sandbox(), observed=None)
    now = recorded(now, decide(now), observed=runtime("r2", state=RuntimeState.FAILED))
    now = recorded(now, decide(now), observed=None)
    now = recorded(now, decide(now), observed=runtime("r3"))
    assert decide(now).reports["a"].record.recoveries == 1


def test_a_replacement_is_no_recovery() -> None:
    plan = decide(situation(sandbox(record=known(removing="r1")), observed=runtime("r2")))
    record = plan.reports["a"].record
    assert (record.runtime_id, record.removing, record.recoveries) == ("r2", None, 0)


def test_the_reason_why_it_died_and_its_words_are_said() -> None:
    died = runtime(state=RuntimeState.FAILED, ended=Reason.EXITED, message="Exit code 3.")
    assert decide(situation(sandbox(), observed=died)).reports["a"].readiness.message == "Exit code 3."
    failing = runtime(state=RuntimeState.STARTING, message="ImagePullBackOff")
    plan = decide(situation(newcomer(created_at=ago(SECOND)), observed=failing))
    assert plan.reports["a"].readiness.message == "ImagePullBackOff"
