"""What becomes of runtimes, each change once: pure, for those who count.

A pass may be made a hundred times before anything happens, a step may be tried as often, and many Sandboxes may share
what happens. So each change is told where it becomes a fact: a runtime that is new when its id gets into the first
record; one that goes when its removal was carried out; and what only shows in a plan (a use, a drift, a failure), by
comparison with what was told of the key before (:class:`Told`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle.model import (
    Effect,
    Kept,
    Observed,
    Plan,
    Record,
    Removal,
    Remove,
    Report,
    RuntimeState,
    Start,
    Stop,
)

__all__ = ["NOTHING_TOLD", "Change", "Churn", "Decision", "Told", "came", "carried_out", "seen"]


class Change(StrEnum):
    """What may become of a runtime."""

    CREATED = "created"
    REUSED = "reused"
    STARTED = "started"
    STOPPED = "stopped"
    DRIFTED = "drifted"
    REPLACED = "replaced"
    PRUNED = "pruned"
    REPAIRED = "repaired"
    FAILED = "failed"


class Decision(StrEnum):
    """What the hot window decides about a runtime that is to go."""

    KEPT_HOT = "kept_hot"
    KEPT_HELD = "kept_held"
    REPLACED_COLD = "replaced_cold"
    PRUNED_COLD = "pruned_cold"


class Churn(NamedTuple):
    """One change, and why."""

    change: Change
    reason: Reason | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What was told of a key so far."""

    runtime: str | None = None
    """Id of the runtime that was Ready last."""
    used_at: float = 0.0
    """Its last use then, in seconds since the epoch."""
    sharers: int = 0
    """How many had it in common then."""
    drift: Reason | None = None
    """In what it differs."""
    failed: Reason | None = None
    """What it fails by, since it was Ready or at rest last."""
    kept: Kept | None = None
    """Why the hot window keeps it."""


NOTHING_TOLD: Final = Told()

_AT_REST: Final = frozenset({Phase.PRUNED, Phase.STOPPED, Phase.NOT_SANDBOXED})
_KEPT: Final = {Kept.HOT: Decision.KEPT_HOT, Kept.HELD: Decision.KEPT_HELD}
_COLD: Final = {Removal.REPLACE: Decision.REPLACED_COLD, Removal.PRUNE: Decision.PRUNED_COLD}


def seen(
    plan: Plan, *, observed: Observed | None, told: Told
) -> tuple[tuple[Churn, ...], Decision | None, Told]:
    """Tell what a plan shows that was not told before: uses, a drift, a failure; and what the hot window decides.

    The word of the Sandbox that rules stands for all. Returns what was told by now as well.
    """
    report = plan.reports.get(plan.sharers[0]) if plan.sharers else None
    if report is None:
        return (), None, told
    changes: list[Churn] = []
    drift = _drifted(report, told, changes)
    failed = _failed(report, told, changes)
    runtime, used_at, sharers = told.runtime, told.used_at, told.sharers
    if report.readiness.ready and observed is not None and plan.last_use is not None:
        used_at, sharers = plan.last_use.timestamp(), len(plan.sharers)
        if runtime == observed.id and observed.state is RuntimeState.RUNNING:
            joined = sharers - told.sharers
            # A command that runs in it is a use at every moment.
            used = used_at > told.used_at and not observed.in_use
            changes.extend([Churn(Change.REUSED)] * max(joined, int(used)))
        runtime = observed.id
    decision = _KEPT[plan.kept] if plan.kept is not None and plan.kept is not told.kept else None
    now = Told(runtime=runtime, used_at=used_at, sharers=sharers, drift=drift, failed=failed, kept=plan.kept)
    return tuple(changes), decision, now


def _drifted(report: Report, told: Told, changes: list[Churn]) -> Reason | None:
    if report.drift is None:
        return None if report.readiness.ready else told.drift
    if told.drift is None:
        changes.append(Churn(Change.DRIFTED, report.drift.reason))
    if report.drift.reason is Reason.REPLACEMENT_BLOCKED is not told.drift:
        changes.append(Churn(Change.FAILED, Reason.REPLACEMENT_BLOCKED))
    return report.drift.reason


def _failed(report: Report, told: Told, changes: list[Churn]) -> Reason | None:
    if report.phase is not Phase.FAILED:
        return None if report.readiness.ready or report.phase in _AT_REST else told.failed
    if report.readiness.reason is not told.failed:
        changes.append(Churn(Change.FAILED, report.readiness.reason))
    return report.readiness.reason


def carried_out(effect: Effect, *, observed: Observed | None) -> tuple[Churn | None, Decision | None]:
    """Tell what an effect that worked has changed; what it was done to is as it was before."""
    match effect:
        case Remove(removal=Removal.REPLACE | Removal.PRUNE as removal):
            change = Change.REPLACED if removal is Removal.REPLACE else Change.PRUNED
            return Churn(change, effect.reason), _COLD[removal]
        case Stop():
            return Churn(Change.STOPPED), None
        case Start() if observed is not None and observed.state is RuntimeState.STOPPED:
            return Churn(Change.STARTED), None
    return None, None


def came(
    runtime_id: str, *, ruler: Record, known: Collection[str], was: Reason | None, died_of: Reason | None
) -> Churn | None:
    """Tell what it means that a record names a runtime now; None: it is nothing new, or was told with a removal.

    ``ruler`` is the record of the Sandbox that rules as it was before, and ``known`` the runtimes that any of the
    records named then. ``was``: why there was none before; ``died_of``: of what the last one died; None: not known.
    """
    if runtime_id in known:
        return None
    if ruler.runtime_id is None:
        return Churn(Change.CREATED, was)
    if ruler.runtime_id == ruler.removing:
        return None  # replaced, which was told when the last one was removed
    return Churn(Change.REPAIRED, died_of)
