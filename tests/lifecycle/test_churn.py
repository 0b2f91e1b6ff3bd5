"""What becomes of a runtime is told once, whatever is looked at again, tried again or shared."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle import (
    Create,
    Drift,
    Effect,
    Observed,
    Plan,
    Preflight,
    Readiness,
    Record,
    Removal,
    Remove,
    Report,
    RuntimeState,
    Setup,
    Start,
    Stop,
)
from sandkeeper.lifecycle.churn import NOTHING_TOLD, Change, Churn, Decision, Told, came, carried_out, seen
from sandkeeper.lifecycle.model import Kept

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNS = Observed(
    backend="docker",
    id="r1",
    name="n",
    node="e",
    state=RuntimeState.RUNNING,
    created_at=NOW,
    config_hash="v1-a",
    image="i",
    has_setup=False,
)
READY = (Phase.READY, True, Reason.RUNNING)
CREATING = (Phase.CREATING, False, Reason.CREATING)
EXITED = (Phase.FAILED, False, Reason.EXITED)
MISSING = (Phase.FAILED, False, Reason.IMAGE_MISSING)
PRUNED = (Phase.PRUNED, False, Reason.IDLE)
REPLACING = (Phase.REPLACING, False, Reason.REPLACING)

REUSED = Churn(Change.REUSED)


def plan(
    said: tuple[Phase, bool | None, Reason],
    *,
    drift: Reason | None = None,
    used: float = 0,
    sharers: int = 1,
    kept: Kept | None = None,
) -> Plan:
    phase, ready, reason = said
    report = Report(
        phase=phase,
        readiness=Readiness(ready=ready, reason=reason, message=""),
        record=Record(),
        drift=Drift(reason=drift, message="") if drift else None,
    )
    uids = tuple(f"u{number}" for number in range(sharers))
    return Plan(
        rule="any",
        effect=None,
        reports=dict.fromkeys(uids, report),
        sharers=uids,
        last_use=NOW + timedelta(seconds=used),
        kept=kept,
    )


def story(*moments: tuple[Plan, Observed | None], told: Told = NOTHING_TOLD) -> list[Churn]:
    """Tell all changes of a story, each of whose moments is looked at three times."""
    changes: list[Churn] = []
    for each, observed in moments:
        for _ in range(3):
            found, _, told = seen(each, observed=observed, told=told)
            changes.extend(found)
    return changes


@pytest.mark.parametrize(
    ("moments", "changes"),
    [
        pytest.param([(plan(CREATING), None), (plan(READY), RUNS)], [], id="made: told by its record"),
        pytest.param([(plan(READY), RUNS), (plan(READY, used=1), RUNS)], [REUSED], id="touched"),
        pytest.param(
            [(plan(READY), RUNS), (plan(READY, used=1), RUNS), (plan(READY, used=2), RUNS)],
            [REUSED, REUSED],
            id="touched twice",
        ),
        pytest.param([(plan(READY, used=2), RUNS), (plan(READY, used=1), RUNS)], [], id="used less late"),
        pytest.param(
            [(plan(READY), RUNS), (plan(READY, sharers=3), RUNS)], [REUSED, REUSED], id="two more share it"
        ),
        pytest.param(
            [(plan(READY), RUNS), (plan(READY, sharers=2, used=1), RUNS)],
            [REUSED],
            id="one more shares it, by which it is used later",
        ),
        pytest.param([(plan(READY, sharers=3), RUNS), (plan(READY), RUNS)], [], id="fewer share it"),
        pytest.param(
            [(plan(READY), RUNS), (plan(READY, used=1), replace(RUNS, in_use=True))],
            [],
            id="a command runs: used at every moment",
        ),
        pytest.param(
            [(plan(READY), RUNS), (plan(READY, used=1), replace(RUNS, id="r2"))], [], id="another runtime"
        ),
        pytest.param(
            [(plan(READY), RUNS), (plan(READY, drift=Reason.CONFIG_CHANGED), RUNS)],
            [Churn(Change.DRIFTED, Reason.CONFIG_CHANGED)],
            id="drifted",
        ),
        pytest.param(
            [
                (plan(READY, drift=Reason.CONFIG_CHANGED), RUNS),
                (plan(REPLACING), RUNS),
                (plan(READY, drift=Reason.CONFIG_CHANGED), RUNS),
                (plan(READY), replace(RUNS, id="r2")),
                (plan(READY, drift=Reason.RECREATE_REQUESTED), replace(RUNS, id="r2")),
            ],
            [Churn(Change.DRIFTED, Reason.CONFIG_CHANGED), Churn(Change.DRIFTED, Reason.RECREATE_REQUESTED)],
            id="drifted, not replaced at once, replaced, drifted again",
        ),
        pytest.param(
            [
                (plan(READY, drift=Reason.CONFIG_CHANGED), RUNS),
                (plan(READY, drift=Reason.REPLACEMENT_BLOCKED), RUNS),
            ],
            [
                Churn(Change.DRIFTED, Reason.CONFIG_CHANGED),
                Churn(Change.FAILED, Reason.REPLACEMENT_BLOCKED),
            ],
            id="drifted, and cannot be replaced",
        ),
        pytest.param(
            [(plan(MISSING), None), (plan(CREATING), None), (plan(MISSING), None)],
            [Churn(Change.FAILED, Reason.IMAGE_MISSING)],
            id="tried again in vain",
        ),
        pytest.param(
            [(plan(MISSING), None), (plan(READY), RUNS), (plan(MISSING), None)],
            [Churn(Change.FAILED, Reason.IMAGE_MISSING)] * 2,
            id="failed, was Ready, failed",
        ),
        pytest.param(
            [(plan(MISSING), None), (plan(PRUNED), None), (plan(MISSING), None)],
            [Churn(Change.FAILED, Reason.IMAGE_MISSING)] * 2,
            id="failed, was at rest, failed",
        ),
        pytest.param(
            [(plan(EXITED), RUNS), (plan(MISSING), None)],
            [Churn(Change.FAILED, Reason.EXITED), Churn(Change.FAILED, Reason.IMAGE_MISSING)],
            id="failed for two reasons",
        ),
        pytest.param([(Plan(rule="unclaimed", effect=None), RUNS)], [], id="nobody's"),
    ],
)
def test_what_a_plan_shows(moments: list[tuple[Plan, Observed | None]], changes: list[Churn]) -> None:
    assert story(*moments) == changes


def test_what_another_process_told_is_not_told_again() -> None:
    told = Told(runtime="r1", used_at=float("inf"), sharers=2, drift=Reason.CONFIG_CHANGED)
    drifted = plan(READY, drift=Reason.CONFIG_CHANGED, sharers=2, used=5)
    assert story((drifted, RUNS), told=told) == []
    later = plan(READY, drift=Reason.CONFIG_CHANGED, sharers=3, used=6)
    assert story((drifted, RUNS), (later, RUNS), told=told) == [REUSED]
    assert story((plan(EXITED), None), told=Told(failed=Reason.EXITED)) == []


def test_that_it_is_kept_is_decided_once_for_as_long_as_it_is() -> None:
    told, decisions = NOTHING_TOLD, list[Decision | None]()
    for kept in (Kept.HOT, Kept.HOT, Kept.HELD, Kept.HELD, None, None, Kept.HOT):
        _, decision, told = seen(plan(READY, kept=kept), observed=RUNS, told=told)
        decisions.append(decision)
    assert decisions == [Decision.KEPT_HOT, None, Decision.KEPT_HELD, None, None, None, Decision.KEPT_HOT]


STOPPED = replace(RUNS, state=RuntimeState.STOPPED)


@pytest.mark.parametrize(
    ("effect", "observed", "change", "decision"),
    [
        (
            Remove(id="r1", removal=Removal.REPLACE, reason=Reason.CONFIG_CHANGED),
            RUNS,
            Churn(Change.REPLACED, Reason.CONFIG_CHANGED),
            Decision.REPLACED_COLD,
        ),
        (
            Remove(id="r1", removal=Removal.PRUNE, reason=Reason.TOO_OLD),
            RUNS,
            Churn(Change.PRUNED, Reason.TOO_OLD),
            Decision.PRUNED_COLD,
        ),
        (Remove(id="r1", removal=Removal.DEAD, reason=Reason.EXITED), RUNS, None, None),
        (Remove(id="r1", removal=Removal.UNCLAIMED), RUNS, None, None),
        (Stop(id="r1"), RUNS, Churn(Change.STOPPED), None),
        (Start(id="r1"), STOPPED, Churn(Change.STARTED), None),
        # The first start of what was only half made: it is told when it is recorded.
        (Start(id="r1"), replace(RUNS, state=RuntimeState.CREATED), None, None),
        (Create(ruler="u0"), None, None, None),
        (Setup(id="r1", ruler="u0"), RUNS, None, None),
        (Preflight(ruler="u0"), RUNS, None, None),
    ],
)
def test_what_an_effect_has_changed(
    effect: Effect, observed: Observed | None, change: Churn | None, decision: Decision | None
) -> None:
    assert carried_out(effect, observed=observed) == (change, decision)


@pytest.mark.parametrize(
    ("ruler", "known", "change"),
    [
        (Record(), set(), Churn(Change.CREATED)),
        (Record(runtime_id="r2"), {"r2"}, None),
        # One that came later wrote first, or a process died between the two.
        (Record(), {"r2"}, None),
        (Record(runtime_id="r1", removing="r1"), {"r1"}, None),
        (Record(runtime_id="r1"), {"r1"}, Churn(Change.REPAIRED, Reason.OOM_KILLED)),
        (Record(runtime_id="r1", removing="r0"), {"r1"}, Churn(Change.REPAIRED, Reason.OOM_KILLED)),
    ],
)
def test_what_it_means_that_a_record_names_another_runtime(
    ruler: Record, known: set[str], change: Churn | None
) -> None:
    assert came("r2", ruler=ruler, known=known, was=None, died_of=Reason.OOM_KILLED) == change


def test_why_there_was_none_before_is_told_with_the_new_one() -> None:
    found = came("r2", ruler=Record(), known=set(), was=Reason.IDLE, died_of=None)
    assert found == Churn(Change.CREATED, Reason.IDLE)
