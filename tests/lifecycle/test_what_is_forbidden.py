"""What waits for other runtimes of its policy, and what is kept where removals are forbidden."""

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.situations import (
    DAY,
    HOUR,
    NOW,
    OTHER_HASH,
    SECOND,
    Case,
    ago,
    known,
    moved,
    raw,
    runtime,
    sandbox,
    sentence,
    situation,
    wanted,
)
from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle import (
    Create,
    Observed,
    Plan,
    Preflight,
    PreflightCheck,
    Pruned,
    Removal,
    Remove,
    RuntimeState,
    Situation,
    Stop,
    Transition,
    Waiting,
    decide,
)

TURN = Waiting(message="Its turn comes.")
BLOCKED = Waiting(message="Another failed.", reason=Reason.ROLLOUT_BLOCKED)
FINE = PreflightCheck(config_hash=OTHER_HASH)
NO_IMAGE = PreflightCheck(
    config_hash=OTHER_HASH, problem=Reason.IMAGE_MISSING, message="No such image.", retry_at=NOW + HOUR
)
OTHER = sandbox(desire=wanted(OTHER_HASH))
ASKING = replace(OTHER, recreate="please")
IDLE = sandbox(record=known(last_used_at=ago(2 * DAY)))
HOT = replace(OTHER, last_used=raw(ago(SECOND)))
MARK = Pruned(at=ago(DAY), reason=Reason.IDLE, last_used=None)
REPLACE = Remove(id="r1", removal=Removal.REPLACE, announced=True, limited=True)

READY: dict[str, Any] = {"phase": Phase.READY, "ready": True, "reason": Reason.RUNNING}


def forbidden(*claimants: Any, **changes: Any) -> Situation:
    return situation(*claimants, removals_forbidden=True, **changes)


CASES = [
    # --- a rollout ----------------------------------------------------------------------------------------
    Case(
        sentence="one that waits for its turn is kept, and nothing is tried before",
        given=situation(OTHER, rollout=TURN),
        rule="keep",
        drift=Reason.CONFIG_CHANGED,
        **READY,
    ),
    Case(
        sentence="one that waits for another that failed says so",
        given=situation(OTHER, rollout=BLOCKED, preflight=FINE),
        rule="keep",
        drift=Reason.ROLLOUT_BLOCKED,
        **READY,
    ),
    Case(
        sentence="one that is in use waits for nobody else",
        given=situation(HOT, rollout=BLOCKED),
        rule="keep",
        drift=Reason.CONFIG_CHANGED,
        **READY,
    ),
    Case(
        sentence="one that failed and may not try again yet says why it failed",
        given=situation(OTHER, preflight=NO_IMAGE),
        rule="blocked",
        drift=Reason.REPLACEMENT_BLOCKED,
        **READY,
    ),
    Case(
        sentence="one of which a new one was asked for waits for no rollout",
        given=situation(ASKING, rollout=BLOCKED),
        rule="preflight",
        effect=Preflight(ruler="a", by_request=True),
        drift=Reason.CONFIG_CHANGED,
        **READY,
    ),
    Case(
        sentence="what belongs elsewhere waits for its turn as well",
        given=situation(sandbox(desire=moved()), rollout=TURN),
        rule="keep",
        drift=Reason.IDENTITY_MOVED,
        **READY,
    ),
    # --- forbidden ----------------------------------------------------------------------------------------
    Case(
        sentence="what differs is kept where removals are forbidden, and nothing is tried",
        given=forbidden(OTHER),
        rule="keep",
        drift=Reason.REMOVALS_FORBIDDEN,
        **READY,
    ),
    Case(
        sentence="so is what is in use, which is not told that it will be replaced",
        given=forbidden(HOT),
        rule="keep",
        drift=Reason.REMOVALS_FORBIDDEN,
        **READY,
    ),
    Case(
        sentence="what the policy holds back is held back by the policy",
        given=forbidden(replace(OTHER, desire=wanted(OTHER_HASH, rollout_paused=True))),
        rule="keep",
        drift=Reason.CONFIG_CHANGED,
        **READY,
    ),
    Case(
        sentence="a removal that was announced is taken back",
        given=forbidden(replace(OTHER, record=known(removing="r1"))),
        rule="keep",
        drift=Reason.REMOVALS_FORBIDDEN,
        **READY,
    ),
    Case(sentence="what is idle is kept", given=forbidden(IDLE), rule="reuse", **READY),
    Case(
        sentence="what is too old is kept",
        given=forbidden(sandbox(desire=wanted(max_age=HOUR))),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="a prune that was announced is taken back",
        given=forbidden(sandbox(record=known(last_used_at=ago(2 * DAY), pruned=MARK, removing="r1"))),
        rule="reuse",
        **READY,
    ),
    Case(
        sentence="what is idle and not there is pruned, for nothing is removed",
        given=forbidden(sandbox(record=known(None, last_used_at=ago(2 * DAY))), observed=None),
        rule="prune",
        phase=Phase.PRUNED,
        reason=Reason.IDLE,
    ),
    Case(
        sentence="what died is kept as it died",
        given=forbidden(sandbox(), observed=runtime(state=RuntimeState.FAILED, ended=Reason.OOM_KILLED)),
        rule="dead",
        phase=Phase.FAILED,
        reason=Reason.OOM_KILLED,
    ),
    Case(
        sentence="what is missing is made: that removes nothing",
        given=forbidden(sandbox(), observed=None),
        rule="create",
        effect=Create(ruler="a", recovery=True),
        phase=Phase.CREATING,
        reason=Reason.RECOVERING,
    ),
    Case(
        sentence="what was asked to be new is replaced",
        given=forbidden(ASKING, preflight=FINE),
        rule="replace",
        effect=replace(REPLACE, by_request=True),
        phase=Phase.REPLACING,
        reason=Reason.REPLACING,
    ),
    Case(
        sentence="what died and was asked to be new is removed",
        given=forbidden(ASKING, observed=runtime(state=RuntimeState.FAILED)),
        rule="dead",
        effect=Remove(id="r1", removal=Removal.DEAD),
        phase=Phase.FAILED,
        reason=Reason.EXITED,
    ),
    Case(
        sentence="what is stopped is stopped",
        given=forbidden(sandbox(stopped=True)),
        rule="stopped",
        effect=Stop(id="r1"),
    ),
    Case(
        sentence="a Sandbox that stayed pruned is not deleted",
        given=forbidden(
            sandbox(desire=wanted(delete_after=HOUR), record=known(None, pruned=MARK)), observed=None
        ),
        rule="stay-pruned",
        phase=Phase.PRUNED,
        reason=Reason.IDLE,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=sentence)
def test_in_this_situation(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (situation(OTHER, rollout=TURN), "Its turn comes."),
        (situation(OTHER, rollout=BLOCKED), "Another failed."),
        (situation(HOT, rollout=BLOCKED), "It is in use or held"),
        (situation(OTHER, rollout=TURN, clock_trusted=False), "the operator's clock agrees"),
        (forbidden(OTHER), "The operator's configuration forbids removals."),
        (forbidden(HOT), "The operator's configuration forbids removals."),
    ],
)
def test_what_it_waits_for(given: Situation, message: str) -> None:
    drift = decide(given).reports["a"].drift
    assert drift is not None
    assert message in drift.message


FORBIDDEN = "The operator's configuration forbids removals."


@pytest.mark.parametrize(
    ("given", "withheld"),
    [
        (forbidden(IDLE), f"It would be pruned by now. {FORBIDDEN}"),
        (forbidden(sandbox()), None),
        (forbidden(replace(IDLE, last_used=raw(NOW))), None),
        (forbidden(replace(IDLE, hold_until=raw(NOW + HOUR))), None),
        (situation(IDLE, clock_trusted=False), None),
        (
            forbidden(sandbox(), observed=runtime(state=RuntimeState.FAILED)),
            f"Its runtime would be removed by now, and another made. {FORBIDDEN}",
        ),
        (
            forbidden(
                sandbox(desire=wanted(delete_after=HOUR), record=known(None, pruned=MARK)), observed=None
            ),
            f"This Sandbox would be deleted by now. {FORBIDDEN}",
        ),
        (
            forbidden(
                sandbox(desire=wanted(delete_after=2 * DAY), record=known(None, pruned=MARK)), observed=None
            ),
            None,
        ),
    ],
)
def test_what_is_withheld_is_told(given: Situation, withheld: str | None) -> None:
    assert decide(given).reports["a"].withheld == withheld


@pytest.mark.parametrize(
    "given",
    [
        forbidden(IDLE),
        forbidden(sandbox(desire=wanted(delete_after=HOUR), record=known(None, pruned=MARK)), observed=None),
        forbidden(sandbox(), observed=runtime(state=RuntimeState.FAILED)),
    ],
    ids=["idle", "to be deleted", "dead"],
)
def test_what_is_withheld_is_not_looked_at_again_and_again(given: Situation) -> None:
    plan = decide(given)
    assert plan.wake_at is None
    assert plan.reports["a"].next is None


def test_what_is_not_due_yet_is_looked_at_when_it_is_and_announces_nothing() -> None:
    used = forbidden(sandbox())
    assert decide(used).wake_at is not None
    assert decide(used).reports["a"].next is None
    free = decide(replace(used, removals_forbidden=False)).reports["a"].next
    assert isinstance(free, Transition)
    kept = sandbox(desire=wanted(delete_after=2 * DAY), record=known(None, pruned=MARK))
    later = decide(forbidden(kept, observed=None))
    assert later.wake_at is not None
    assert later.reports["a"].next is None


def test_an_orphan_is_kept_and_what_somebody_deleted_goes() -> None:
    orphan: Observed = runtime()
    assert decide(forbidden(observed=orphan)) == Plan(rule="unclaimed", effect=None)
    assert decide(forbidden(observed=orphan, was_deleted=True)).effect == Remove(
        id="r1", removal=Removal.UNCLAIMED
    )


def test_who_waits_for_others_has_no_deadline_of_its_own() -> None:
    waiting = decide(situation(OTHER, rollout=TURN))
    alone = decide(situation(sandbox()))
    assert waiting.wake_at == alone.wake_at, "of its prune"
