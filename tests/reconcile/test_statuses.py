"""A status is built from a report, written as the smallest patch, and told as at most one Event."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.lifecycle import (
    Drift,
    Hold,
    Observed,
    Pruned,
    Readiness,
    Record,
    Report,
    RuntimeState,
    Transition,
)
from sandkeeper.reconcile.claims import Claim, Claims
from sandkeeper.reconcile.objects import SandboxObject
from sandkeeper.reconcile.statuses import merge_patch, note_of, paused_status, record_of, status_of, to_json

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

OBSERVED = Observed(
    backend="docker",
    id="abc",
    name="sandkeeper-rain",
    node="ENGINE",
    state=RuntimeState.RUNNING,
    created_at=NOW,
    config_hash="v1-1",
    image="image:1",
    has_setup=True,
)
RECORD = Record(
    runtime_id="abc",
    backend="docker",
    node="ENGINE",
    setup_complete=True,
    config_hash="v1-1",
    last_used_at=NOW,
    recreate="please",
    wipe="all of it",
)
READY = Report(
    phase=Phase.READY,
    readiness=Readiness(ready=True, reason=Reason.RUNNING, message="It runs."),
    record=RECORD,
    next=Transition(at=NOW + timedelta(days=1), what="Prune"),
)


def raw(status: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "rain",
            "namespace": "team",
            "uid": "uid-1",
            "resourceVersion": "5",
            "generation": 3,
            "creationTimestamp": "2026-01-02T03:00:00Z",
            "annotations": annotations,
        },
        "spec": {"agentId": "rain"},
        "status": status or {},
    }


def claim_of(status: dict[str, Any] | None = None, **annotations: str) -> Claim:
    claims = Claims(OperatorConfig(), enqueue=lambda _: None)
    claims.namespaces.put({"metadata": {"name": "team", "uid": "ns-1", "resourceVersion": "1"}})
    return claims.resolve(SandboxObject.parse(raw(status, **annotations)))


KEY = RuntimeKey("team", "ns-1", "default", "agent:rain")


def test_what_is_written_is_what_is_read_again() -> None:
    record = replace(
        RECORD,
        pruned=Pruned(at=NOW, reason=Reason.IDLE, last_used="2026-01-01T00:00:00Z"),
        hold=Hold(until="2026-01-03T00:00:00Z", since=NOW),
        removing="abc",
        recoveries=2,
    )
    status = status_of(claim_of(), replace(READY, record=record), key=KEY, observed=OBSERVED, now=NOW)
    again = SandboxObject.parse(raw(to_json(status)))
    assert record_of(again.status) == record
    assert again.status == status


def test_a_condition_keeps_its_time_while_its_value_stays() -> None:
    first = to_json(status_of(claim_of(), READY, key=KEY, observed=OBSERVED, now=NOW))
    later = NOW + timedelta(hours=1)
    drift = Drift(reason=Reason.CONFIG_CHANGED, message="other")
    second = status_of(claim_of(first), replace(READY, drift=drift), key=KEY, observed=OBSERVED, now=later)
    times = {condition.type: condition.last_transition_time for condition in second.conditions}
    assert times == {"Ready": NOW, "Drifted": later}


def test_the_same_report_again_is_no_patch_and_no_event() -> None:
    first = status_of(claim_of(), READY, key=KEY, observed=OBSERVED, now=NOW)
    claim = claim_of(to_json(first))
    second = status_of(claim, READY, key=KEY, observed=OBSERVED, now=NOW + timedelta(days=1))
    assert merge_patch(to_json(claim.sandbox.status), to_json(second)) == {}
    assert note_of(claim.sandbox, second) is None


def test_one_change_is_one_event_and_readiness_comes_first() -> None:
    drift = Drift(reason=Reason.CONFIG_CHANGED, message="other")
    claim = claim_of()
    note = note_of(
        claim.sandbox, status_of(claim, replace(READY, drift=drift), key=KEY, observed=None, now=NOW)
    )
    assert note is not None
    assert (note.kind, note.reason) == ("Normal", "Running")


@pytest.mark.parametrize(
    ("ready", "reason", "kind"),
    [
        (False, Reason.IMAGE_MISSING, "Warning"),
        (None, Reason.ENGINE_UNREACHABLE, "Warning"),
        (False, Reason.IDLE, "Normal"),
        (True, Reason.NOT_SANDBOXED, "Normal"),
    ],
)
def test_what_somebody_has_to_look_at_is_a_warning(*, ready: bool | None, reason: Reason, kind: str) -> None:
    report = replace(READY, readiness=Readiness(ready=ready, reason=reason, message="so"))
    claim = claim_of()
    note = note_of(claim.sandbox, status_of(claim, report, key=KEY, observed=None, now=NOW))
    assert note is not None
    assert note.kind == kind


def test_a_recovery_is_told_though_it_runs_before_and_after() -> None:
    first = status_of(claim_of(), READY, key=KEY, observed=OBSERVED, now=NOW)
    claim = claim_of(to_json(first))
    again = status_of(
        claim, replace(READY, record=replace(RECORD, recoveries=1)), key=KEY, observed=OBSERVED, now=NOW
    )
    note = note_of(claim.sandbox, again)
    assert note is not None
    assert (note.kind, note.reason) == ("Warning", "Recovering")


def test_a_wipe_that_waits_is_a_condition_and_worth_no_warning() -> None:
    claim = claim_of(to_json(status_of(claim_of(), READY, key=KEY, observed=OBSERVED, now=NOW)))
    waits = status_of(claim, replace(READY, wipe_pending="not tio"), key=KEY, observed=OBSERVED, now=NOW)
    (condition,) = [each for each in waits.conditions if each.type == "WipePending"]
    assert (condition.status, condition.reason, condition.message) == ("True", "WaitingForSharers", "not tio")
    note = note_of(claim.sandbox, waits)
    assert note is not None
    assert (note.kind, note.reason) == ("Normal", "WaitingForSharers")


@pytest.mark.parametrize("reason", [Reason.STOPPING, Reason.STOPPED])
def test_that_it_was_to_be_stopped_is_in_the_registry_while_it_stops_and_after(reason: Reason) -> None:
    record = replace(RECORD, stopped=True)
    report = replace(
        READY, readiness=Readiness(ready=False, reason=reason, message="As it says."), record=record
    )
    status = status_of(claim_of(), report, key=KEY, observed=OBSERVED, now=NOW)
    assert record_of(SandboxObject.parse(raw(to_json(status))).status) == record


def test_stopped_is_read_from_the_condition_that_says_so() -> None:
    stopped = replace(
        READY,
        phase=Phase.STOPPED,
        readiness=Readiness(ready=False, reason=Reason.STOPPED, message="so"),
        record=replace(RECORD, stopped=True),
    )
    status = status_of(claim_of(), stopped, key=KEY, observed=OBSERVED, now=NOW)
    assert record_of(SandboxObject.parse(raw(to_json(status))).status) == stopped.record


def test_a_message_of_any_length_is_told() -> None:
    report = replace(
        READY, readiness=Readiness(ready=False, reason=Reason.BIND_REFUSED, message="x" * 10_000)
    )
    status = status_of(claim_of(), report, key=KEY, observed=OBSERVED, now=NOW)
    assert len(status.message or "") == 4096


def test_paused_adds_a_condition_and_leaves_the_rest_alone() -> None:
    first = status_of(claim_of(), READY, key=KEY, observed=OBSERVED, now=NOW)
    paused = paused_status(claim_of(to_json(first)).sandbox, now=NOW)
    assert [condition.type for condition in paused.conditions] == ["Ready", "Paused"]
    assert merge_patch(to_json(first), to_json(paused)).keys() == {"conditions"}


def test_a_status_that_another_hand_broke_is_as_good_as_lost() -> None:
    sandbox = SandboxObject.parse(raw({"phase": "Ready", "runtime": {"id": 5}}))
    assert not sandbox.has_status
    assert record_of(sandbox.status) == Record()


JSON = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON)


def apply_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch as RFC 7386 has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_patch(result.get(key), value)
    return result


@given(before=OBJECTS, after=OBJECTS)
def test_a_patch_makes_the_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert apply_patch(before, merge_patch(before, after)) == after
    assert merge_patch(after, after) == {}


def failing(reason: Reason, *, ready: bool | None = False, **record: Any) -> Report:
    """A runtime was removed for another, and this is said of that."""
    return replace(
        READY,
        phase=Phase.FAILED,
        readiness=Readiness(ready=ready, reason=reason, message="So it is."),
        record=replace(RECORD, removing="abc", **record),
        next=None,
    )


def failed_after(report: Report, *, before: dict[str, Any] | None = None) -> str | None:
    status = status_of(claim_of(before), report, key=KEY, observed=None, now=NOW)
    found = [each.reason for each in status.conditions if each.type == "ReplacementFailed"]
    return found[0] if found else None


def test_a_replacement_that_failed_stays_so_until_it_is_up_or_something_else_is_wanted() -> None:
    assert failed_after(failing(Reason.SETUP_FAILED)) == "SetupFailed"
    assert failed_after(failing(Reason.UNSCHEDULABLE)) == "Unschedulable"
    assert failed_after(failing(Reason.NODE_LOST, ready=None)) == "NodeLost"
    assert failed_after(failing(Reason.REPLACING)) is None, "it goes on"

    wanted = claim_of().resolution.config_hash
    condition = {
        "type": "ReplacementFailed",
        "status": "True",
        "reason": "SetupFailed",
        "message": "So it is.",
        "lastTransitionTime": "2026-01-02T03:00:00Z",
    }
    before = {"desiredConfigHash": wanted, "conditions": [condition]}
    assert failed_after(failing(Reason.SETTING_UP), before=before) == "SetupFailed", "it is tried again"
    assert failed_after(failing(Reason.IMAGE_MISSING), before=before) == "ImageMissing"
    assert failed_after(failing(Reason.SETTING_UP), before={**before, "desiredConfigHash": "v1-0"}) is None
    assert failed_after(READY, before=before) is None, "it is up"
    stopped = replace(failing(Reason.SETUP_FAILED), record=RECORD)
    assert failed_after(stopped, before=before) is None, "nothing is replaced any more"
    pruned = Pruned(at=NOW, reason=Reason.IDLE, last_used=None)
    assert failed_after(failing(Reason.PRUNING, pruned=pruned), before=before) is None


def test_what_waits_for_another_that_failed_is_no_event_for_each() -> None:
    def drifted(reason: Reason) -> Report:
        return replace(READY, drift=Drift(reason=reason, message="It differs."))

    def status(report: Report, before: dict[str, Any] | None = None) -> Any:
        return status_of(claim_of(before), report, key=KEY, observed=OBSERVED, now=NOW)

    changed = to_json(status(drifted(Reason.CONFIG_CHANGED)))
    waiting = status(drifted(Reason.ROLLOUT_BLOCKED), changed)
    assert note_of(SandboxObject.parse(raw(changed)), waiting) is None
    again = status(drifted(Reason.CONFIG_CHANGED), to_json(waiting))
    assert note_of(SandboxObject.parse(raw(to_json(waiting))), again) is None
    blocked = status(drifted(Reason.REPLACEMENT_BLOCKED), changed)
    assert note_of(SandboxObject.parse(raw(changed)), blocked) is not None


def test_what_is_withheld_is_a_condition() -> None:
    report = replace(READY, withheld="It would be pruned by now.")
    status = status_of(claim_of(), report, key=KEY, observed=OBSERVED, now=NOW)
    found = [(each.reason, each.message) for each in status.conditions if each.type == "RemovalWithheld"]
    assert found == [("RemovalsForbidden", "It would be pruned by now.")]
    note = note_of(
        SandboxObject.parse(raw(to_json(status_of(claim_of(), READY, key=KEY, observed=OBSERVED, now=NOW)))),
        status,
    )
    assert note is not None
    assert (note.kind, note.reason) == ("Normal", "RemovalsForbidden")
