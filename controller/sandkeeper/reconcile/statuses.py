"""A report as a status: pure. And what changed between two statuses, as a merge patch and as an Event."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sandkeeper.api.conditions import ConditionType, Phase, Reason
from sandkeeper.api.policy import Backend, Scope
from sandkeeper.api.sandbox import (
    Condition,
    HoldRecord,
    NextTransition,
    PruneRecord,
    RuntimeRecord,
    SandboxStatus,
)
from sandkeeper.cluster.events import Note
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.lifecycle import Hold, Observed, Pruned, Record, Report
from sandkeeper.reconcile.claims import Claim, is_private
from sandkeeper.reconcile.objects import SandboxObject
from sandkeeper.runtimes.protocol import Notice

__all__ = ["merge_patch", "note_of", "paused_status", "record_of", "status_of", "to_json"]

_LONGEST_MESSAGE: Final = 4096
"""The CRD's bound on ``status.message``."""

_BENIGN: Final = frozenset(
    {
        Reason.PENDING,
        Reason.CREATING,
        Reason.SETTING_UP,
        Reason.REPLACING,
        Reason.PRUNING,
        Reason.IDLE,
        Reason.TOO_OLD,
        Reason.STOPPING,
        Reason.STOPPED,
        Reason.TERMINATING,
        Reason.RUNNING,
        Reason.NOT_SANDBOXED,
        Reason.WAITING_FOR_SHARERS,
        Reason.REMOVALS_FORBIDDEN,
    }
)

_ON_THE_WAY: Final = frozenset(
    {
        Reason.PENDING,
        Reason.CREATING,
        Reason.SETTING_UP,
        Reason.REPLACING,
        Reason.RECOVERING,
        Reason.TERMINATING,
        Reason.PAUSED,
    }
)
"""What is said of a replacement that goes on."""


_AT_REST: Final = frozenset({Reason.STOPPING, Reason.STOPPED})
"""What says that it was to be stopped, so that to run it again is a use."""


def _reason(text: str) -> Reason:
    """Read a reason; one that only a newer operator knows is as good as the commonest."""
    try:
        return Reason(text)
    except ValueError:
        return Reason.IDLE


def _clipped(message: str) -> str:
    """Shorten a message to what a status takes: what was wrong must be told, however long it is."""
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"


def record_of(status: SandboxStatus) -> Record:
    """Read the registry's row from a status."""
    runtime = status.runtime
    return Record(
        runtime_id=runtime.id if runtime else None,
        backend=runtime.backend if runtime else None,
        node=runtime.node if runtime else None,
        setup_complete=bool(runtime and runtime.setup == "Complete"),
        config_hash=status.config_hash,
        last_used_at=status.last_used_at,
        pruned=Pruned(
            at=status.pruned.at, reason=_reason(status.pruned.reason), last_used=status.pruned.last_used
        )
        if status.pruned
        else None,
        hold=Hold(until=status.hold.until, since=status.hold.since) if status.hold else None,
        recreate=status.recreate,
        wipe=status.wipe,
        removing=status.removing,
        stopped=any(c.type == ConditionType.READY and c.reason in _AT_REST for c in status.conditions),
        recoveries=status.recoveries,
    )


def _runtime(report: Report, *, before: SandboxStatus, observed: Observed | None) -> RuntimeRecord | None:
    record = report.record
    if record.runtime_id is None:
        return None
    if observed is None or observed.id != record.runtime_id:
        return before.runtime
    done = "Complete" if record.setup_complete else "Pending"
    return RuntimeRecord(
        backend=observed.backend,
        name=observed.name,
        id=observed.id,
        node=observed.node,
        created_at=observed.created_at,
        user=observed.user,
        setup=done if observed.has_setup else "NotNeeded",
    )


def _incomplete(
    notices: Sequence[Notice] | None, before: SandboxStatus
) -> Iterator[tuple[ConditionType, str, Reason, str]]:
    """Tell what the workspace lacks; where that is not known, what was told before."""
    kind = ConditionType.WORKSPACE_INCOMPLETE
    if notices is None:
        for condition in before.conditions:
            if condition.type == kind:
                yield kind, "True", _reason(condition.reason), condition.message
    elif notices:
        yield kind, "True", notices[0].reason, " ".join(notice.message for notice in notices)


def _failed_replacement(claim: Claim, report: Report) -> Iterator[tuple[ConditionType, str, Reason, str]]:
    """Tell of a replacement that it failed, until it is up or something else is wanted: trying again is no success."""
    kind, ready, status = ConditionType.REPLACEMENT_FAILED, report.readiness, claim.sandbox.status
    is_under_way = report.record.removing is not None and report.record.pruned is None and not ready.ready
    if not is_under_way or claim.resolution.problem is not None:
        return
    if ready.reason not in _ON_THE_WAY:
        yield kind, "True", ready.reason, ready.message
    elif status.desired_config_hash == claim.resolution.config_hash:
        for condition in status.conditions:
            if condition.type == kind:
                yield kind, "True", _reason(condition.reason), condition.message


def _wanted_conditions(
    claim: Claim, report: Report, *, backend: str | None, notices: Sequence[Notice] | None
) -> Iterator[tuple[ConditionType, str, Reason, str]]:
    ready = report.readiness
    value = {True: "True", False: "False", None: "Unknown"}[ready.ready]
    yield ConditionType.READY, value, ready.reason, ready.message
    if report.drift:
        yield ConditionType.DRIFTED, "True", report.drift.reason, report.drift.message
    yield from _failed_replacement(claim, report)
    if report.withheld is not None:
        yield ConditionType.REMOVAL_WITHHELD, "True", Reason.REMOVALS_FORBIDDEN, report.withheld
    if report.wipe_pending is not None:
        yield ConditionType.WIPE_PENDING, "True", Reason.WAITING_FOR_SHARERS, report.wipe_pending
    if report.invalid_annotations:
        message = "; ".join(report.invalid_annotations)
        yield ConditionType.ANNOTATION_INVALID, "True", Reason.ANNOTATION_INVALID, message
    if claim.resolution.filtered_env:
        names = ", ".join(claim.resolution.filtered_env)
        message = (
            f"left out, for the name looks like a secret's: {names}; list it in the policy's allowSecretEnv"
        )
        yield ConditionType.ENV_FILTERED, "True", Reason.SECRET_LIKE_NAME, message
    yield from _incomplete(notices, claim.sandbox.status)
    if backend != Backend.POD:
        return
    if claim.resolution.network_enforced:
        message = (
            "A NetworkPolicy says what it may reach, and the installer states that such are enforced here."
        )
        yield ConditionType.NETWORK_ISOLATED, "True", Reason.NETWORK_POLICY_ENFORCED, message
    else:
        message = (
            "A NetworkPolicy says what it may reach. Whether the cluster enforces it cannot be seen; where it does, "
            "the installer says so with pod.networkPolicyEnforced."
        )
        yield ConditionType.NETWORK_ISOLATED, "Unknown", Reason.ENFORCEMENT_UNKNOWN, message


def _conditions(
    wanted: Iterator[tuple[ConditionType, str, Reason, str]], *, sandbox: SandboxObject, now: datetime
) -> list[Condition]:
    before = {condition.type: condition for condition in sandbox.status.conditions}
    now = now.replace(microsecond=0)  # as Kubernetes writes it
    result = []
    for kind, value, reason, message in wanted:
        old = before.get(kind)
        result.append(
            Condition(
                type=kind.value,
                status=value,
                reason=reason.value,
                message=_clipped(message),
                last_transition_time=old.last_transition_time if old and old.status == value else now,
                observed_generation=sandbox.generation,
            )
        )
    return result


def _scope_of(key: RuntimeKey) -> str:
    """Read the scope from a scope key; an agent's id has no colon."""
    if key.scope == Scope.SHARED:
        return Scope.SHARED
    return Scope.SESSION if ":session:" in key.scope else Scope.AGENT


def _backend_of(claim: Claim, runtime: RuntimeRecord | None) -> str | None:
    if runtime is not None:
        return runtime.backend
    config = claim.resolution.config
    return config.backend.value if config else None


def status_of(
    claim: Claim,
    report: Report,
    *,
    key: RuntimeKey,
    observed: Observed | None,
    notices: Sequence[Notice] | None = (),
    now: datetime,
) -> SandboxStatus:
    """Build the whole status of a Sandbox from what was decided. ``now`` goes only into times of transition.

    ``notices``: see :meth:`sandkeeper.runtimes.protocol.Runtimes.uphold`.
    """
    sandbox, record = claim.sandbox, report.record
    pruned, hold = record.pruned, record.hold
    runtime = _runtime(report, before=sandbox.status, observed=observed)
    backend = _backend_of(claim, runtime)
    same = observed is not None and runtime is not None and observed.id == runtime.id
    return SandboxStatus(
        phase=report.phase,
        observed_generation=sandbox.generation,
        conditions=_conditions(
            _wanted_conditions(claim, report, backend=backend, notices=notices), sandbox=sandbox, now=now
        ),
        policy=claim.resolution.policy or sandbox.status.policy,
        key=None if is_private(key) else key.scope,
        scope=None if is_private(key) else _scope_of(key),
        backend=backend,
        runtime=runtime,
        image=observed.image if observed and same else (sandbox.status.image if runtime else None),
        config_hash=record.config_hash,
        desired_config_hash=claim.resolution.config_hash,
        last_used_at=record.last_used_at,
        pruned=PruneRecord(at=pruned.at, reason=pruned.reason.value, last_used=pruned.last_used)
        if pruned
        else None,
        hold=HoldRecord(until=hold.until, since=hold.since) if hold else None,
        recreate=record.recreate,
        wipe=record.wipe,
        removing=record.removing,
        next_transition=NextTransition(at=report.next.at, what=report.next.what) if report.next else None,
        recoveries=record.recoveries,
        message=_clipped(report.readiness.message),
    )


def paused_status(sandbox: SandboxObject, *, now: datetime) -> SandboxStatus:
    """Build the status of a Sandbox that we keep our hands off: the last one, and a condition that says so."""
    others = [c for c in sandbox.status.conditions if c.type != ConditionType.PAUSED]
    message = "the annotation sandkeeper.dev/paused is set; remove it to go on"
    wanted = iter([(ConditionType.PAUSED, "True", Reason.PAUSED, message)])
    paused = _conditions(wanted, sandbox=sandbox, now=now)
    return sandbox.status.model_copy(update={"conditions": others + paused})


def leaving_status(sandbox: SandboxObject, *, until: datetime, now: datetime) -> SandboxStatus:
    """Build the status of a Sandbox that is to be deleted, and whose container cannot be removed at the moment."""
    message = (
        "It is deleted when its container is removed, which does not work at the moment, or at "
        f"{until:%Y-%m-%dT%H:%M:%SZ}; then the sweep removes the container when its engine is back."
    )
    wanted = iter([(ConditionType.READY, "False", Reason.TERMINATING, message)])
    conditions = _conditions(wanted, sandbox=sandbox, now=now)
    return sandbox.status.model_copy(
        update={"phase": Phase.PENDING, "conditions": conditions, "message": message}
    )


def to_json(status: SandboxStatus) -> dict[str, Any]:
    """Return the status as JSON, without what is not set."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) that makes ``after`` of ``before``; empty where they are equal."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if value == old:
            continue
        patch[key] = merge_patch(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch


def note_of(sandbox: SandboxObject, after: SandboxStatus) -> Note | None:
    """Return the one Event that tells of the change from the Sandbox's status to ``after``, if it is worth one."""
    if after.recoveries > sandbox.status.recoveries:
        return Note(
            namespace=sandbox.namespace,
            name=sandbox.name,
            uid=sandbox.uid,
            kind="Warning",
            reason=Reason.RECOVERING,
            message="The runtime died and was made again; its temporary files are gone.",
        )
    before = {condition.type: condition for condition in sandbox.status.conditions}
    for condition in after.conditions:  # Ready first: the change that matters most is the one that is told
        old = before.get(condition.type)
        if condition.type == ConditionType.NETWORK_ISOLATED:
            continue  # the same for every Sandbox of a cluster
        if Reason.ROLLOUT_BLOCKED in {condition.reason, old.reason if old else ""}:
            continue  # a thousand may wait for one, of which its policy tells
        if old and (old.status, old.reason) == (condition.status, condition.reason):
            continue
        benign = condition.reason in _BENIGN and condition.status != "Unknown"
        return Note(
            namespace=sandbox.namespace,
            name=sandbox.name,
            uid=sandbox.uid,
            kind="Normal" if benign or condition.type == ConditionType.DRIFTED else "Warning",
            reason=condition.reason,
            message=condition.message,
        )
    return None
