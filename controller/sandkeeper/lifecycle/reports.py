"""What is said of a key: the plan, with one report for each claimant.

Two reports of an unchanged truth are equal, so that a pass that changes nothing writes nothing: nothing in them is
taken from the clock, but the moment of an event (a prune, the first sight of a hold) that is then recorded. A last use
moves all the time; it is refreshed with another change, or once per hot window, and whatever depends on it (the next
transition, the time in a message) is computed from the refreshed value. Only ``Plan.wake_at`` is exact.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.api.names import Annotation
from sandkeeper.lifecycle.instants import after
from sandkeeper.lifecycle.model import (
    Drift,
    Effect,
    Moved,
    Observed,
    Plan,
    Readiness,
    Record,
    Removal,
    Remove,
    Report,
    RuntimeState,
    Transition,
    Unresolved,
)
from sandkeeper.lifecycle.use import Claim, mark_of
from sandkeeper.lifecycle.view import View

__all__ = [
    "RECHECK",
    "SAY_REPLACING",
    "SOON",
    "Saying",
    "base",
    "compose",
    "forgotten",
    "frozen",
    "noted",
    "parted",
    "released",
    "removal_of",
    "say",
    "say_parting",
    "strictly_after",
]

RECHECK: Final = timedelta(seconds=30)
"""When to look again at what no deadline tells: a clock that is not trusted, a backend that does not answer."""

SOON: Final = timedelta(seconds=5)
"""When to look again at what is on its way, should the backend's event be lost."""

Saying = tuple[Phase, Readiness]
"""What is said of one claimant."""

_INSTANT: Final = timedelta(milliseconds=1)
"""Deadlines are strict: nothing is due at the moment itself."""

_MOST_NAMED: Final = 10
"""Sandboxes that a message names; hundreds may share a runtime."""

_LEAST_REFRESH: Final = timedelta(minutes=1)
"""How often a last use is recorded at most where the hot window is shorter, or off."""


SAY_REPLACING: Final[Saying] = (
    Phase.REPLACING,
    Readiness(ready=False, reason=Reason.REPLACING, message="Its old runtime makes way."),
)
"""Said from the announcement until the next runtime is ready, word for word, so that it is written once."""


# --- records ----------------------------------------------------------------------------------------------------------


def base(claim: Claim) -> Record:
    """Keep what is known of the runtime; a Sandbox that is wanted running is neither pruned nor stopped."""
    wipe = mark_of(claim.claimant.wipe) if claim.wipe_done else claim.record.wipe
    return replace(claim.record, hold=claim.hold, wipe=wipe, pruned=None, stopped=False)


def noted(runtime: Observed, claim: Claim) -> Record:
    """Record a runtime that is set up: the only way in which an id gets into a record.

    Where the record knew another, whose removal nobody had announced, that one died: a recovery. Both are written at
    once, so each recovery is counted exactly once, wherever the process dies in between.
    """
    known = claim.record
    is_new = known.runtime_id != runtime.id
    died = is_new and known.runtime_id is not None and known.runtime_id != known.removing
    mark = mark_of(claim.claimant.recreate)
    return replace(
        base(claim),
        runtime_id=runtime.id,
        backend=runtime.backend,
        node=runtime.node,
        setup_complete=runtime.has_setup,
        config_hash=runtime.config_hash,
        removing=None,
        # A new runtime honours whatever was asked before it; but a wipe only where it was made with it.
        recreate=mark if is_new and mark is not None else known.recreate,
        recoveries=known.recoveries + died,
    )


def released(claim: Claim) -> Record:
    """Forget the runtime: it is gone on purpose."""
    return forgotten(base(claim))


def forgotten(record: Record) -> Record:
    """Leave out all that a record says of a runtime."""
    return replace(
        record,
        runtime_id=None,
        backend=None,
        node=None,
        setup_complete=False,
        config_hash=None,
        removing=None,
    )


def parted(claim: Claim) -> Record:
    """Forget the runtime of a Sandbox that belongs elsewhere.

    One that was pruned arrives pruned: a change of policy is not a use. One that was replaced still waits for another.
    """
    desire = claim.claimant.desire
    goes_on = isinstance(desire, Moved) and desire.to is not None
    pruned = claim.record.pruned if goes_on and not claim.woken else None
    removing = claim.record.removing if goes_on and claim.record.pruned is None else None
    return replace(released(claim), pruned=pruned, removing=removing)


def _refreshed(view: View, claim: Claim, record: Record) -> Record:
    """Set the last use where something else is written anyway, or the recorded one is a window old, or never was."""
    known = claim.record
    interval = max(view.windows.hot, _LEAST_REFRESH)
    if (
        known.last_used_at is None
        or replace(record, last_used_at=known.last_used_at) != known
        or claim.last_use - known.last_used_at >= interval
        or claim.last_use < known.last_used_at
    ):
        return replace(record, last_used_at=claim.last_use)
    return record


def _told(view: View, record: Record, last_use: datetime) -> datetime:
    """Tell one claimant the last use of all: its own, and whole intervals more, so that not each use is told to all."""
    if record.last_used_at is None:
        return last_use
    interval = max(view.windows.hot, _LEAST_REFRESH)
    return record.last_used_at + (last_use - record.last_used_at) // interval * interval


# --- plans ------------------------------------------------------------------------------------------------------------


def say(phase: Phase, reason: Reason, message: str, *, ready: bool | None = False) -> Saying:
    """Put a phase and a value of Ready together."""
    return phase, Readiness(ready=ready, reason=reason, message=message)


def say_parting(claim: Claim) -> Saying:
    """Tell a Sandbox that belongs elsewhere that it is on its way, or that it has arrived at nothing."""
    desire = claim.claimant.desire
    if isinstance(desire, Moved) and desire.to is not None:
        return say(Phase.PENDING, Reason.PENDING, f"It is moving to {desire.to}.")
    message = "It is not sandboxed: its policy leaves it out, so nothing is made for it."
    return say(Phase.NOT_SANDBOXED, Reason.NOT_SANDBOXED, message, ready=True)


_SAY_TOO_MANY: Final = say(
    Phase.FAILED,
    Reason.TOO_MANY_SHARERS,
    "As many older Sandboxes share this runtime as it can belong to. Give this one a scope or session of its own, or "
    "delete some of the others.",
)


def compose(
    view: View,
    rule: str,
    saying: Saying | Callable[[Claim], Saying],
    *,
    effect: Effect | None = None,
    record: Callable[[Claim], Record] = base,
    drift: Callable[[Claim, datetime], Drift | None] | None = None,
    following: Callable[[datetime], Transition | None] | None = None,
    wake: Iterable[datetime | None] = (),
    withheld: str | None = None,
    passing: bool = False,
) -> Plan:
    """Make a plan with a report for every claimant that is not paused.

    ``drift`` and ``following`` are asked with the last use as it is reported. The first moment of ``wake`` counts; one
    that has passed is looked at again in a while, never at once.
    """
    records = {claim.uid: _refreshed(view, claim, record(claim)) for claim in view.claims}
    last_use = max((each.last_used_at for each in records.values() if each.last_used_at), default=view.now)
    transition = following(last_use) if following is not None else None
    far = following is not None and transition is not None and transition.what == "Prune"
    reports: dict[str, Report] = {}
    for claim in view.claims:
        if not claim.claimant.paused:
            found = drift(claim, last_use) if drift is not None else None
            own = following(_told(view, records[claim.uid], last_use)) if far and following else transition
            reports[claim.uid] = _report(
                claim,
                saying,
                records[claim.uid],
                drift=found,
                following=own,
                wipe_pending=_wipe_pending(view, claim),
                withheld=withheld,
            )
    return replace(
        _finished(view, rule, reports, effect=effect, wake=wake),
        passing=passing,
        last_use=view.last_use if view.claims else None,
    )


def frozen(
    view: View, rule: str, saying: Saying | Callable[[Claim], Saying], *, wake: Iterable[datetime | None] = ()
) -> Plan:
    """Make a plan that does nothing and leaves every record as it is."""
    reports = {
        claim.uid: _report(claim, saying, claim.record, wipe_pending=_wipe_pending(view, claim))
        for claim in view.claims
        if not claim.claimant.paused
    }
    return _finished(view, rule, reports, effect=None, wake=wake)


def _report(
    claim: Claim,
    saying: Saying | Callable[[Claim], Saying],
    record: Record,
    *,
    drift: Drift | None = None,
    following: Transition | None = None,
    wipe_pending: str | None = None,
    withheld: str | None = None,
) -> Report:
    phase, readiness = saying if isinstance(saying, tuple) else saying(claim)
    return Report(
        phase=phase,
        readiness=readiness,
        record=record,
        drift=drift,
        next=following,
        wipe_pending=wipe_pending,
        withheld=withheld,
        invalid_annotations=claim.complaints,
    )


def _wipe_pending(view: View, claim: Claim) -> str | None:
    """Tell one who asks for a fresh copy who else would have to ask, for theirs is in it as well."""
    if not claim.wipe_asked or view.wipes or view.wanted is None:
        return None
    others = sorted(other.claimant.name for other in view.claims if not other.wipe_asked)
    listed = ", ".join(others[:_MOST_NAMED])
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return (
        "A fresh copy of the workspace was asked for. It is made when all who share the workspace have set the "
        f"annotation {Annotation.WIPE}; these have not: {listed}{more}."
    )


def _finished(
    view: View,
    rule: str,
    reports: dict[str, Report],
    *,
    effect: Effect | None,
    wake: Iterable[datetime | None],
) -> Plan:
    for claim in view.conflicting:
        if not claim.claimant.paused:
            reports[claim.uid] = _conflict(view, claim)
    for claim in view.surplus:
        if not claim.claimant.paused:
            reports[claim.uid] = _report(claim, _SAY_TOO_MANY, forgotten(claim.record))
    for claim in view.leaving:
        reports[claim.uid] = _report(claim, say_parting, _refreshed(view, claim, parted(claim)))
    told = after(view.now, SOON) if view.leaving else None  # then they count for nothing any more
    everybody = (*view.claims, *view.conflicting, *view.surplus, *view.leaving)
    validities = [claim.valid_at for claim in everybody]
    ruler = view.ruler.uid if view.ruler is not None else None
    return Plan(
        rule=rule,
        effect=effect,
        reports=reports,
        wake_at=_soonest(view, (*wake, told, *validities)),
        sharers=tuple(sorted((claim.uid for claim in view.claims), key=lambda uid: uid != ruler)),
    )


def _soonest(view: View, moments: Iterable[datetime | None]) -> datetime | None:
    """Find the first of some moments. One that has passed already is looked at again in a while, never at once."""
    candidates = [
        moment if moment > view.now else after(view.now, RECHECK) for moment in moments if moment is not None
    ]
    return min(candidates, default=None)


def strictly_after(moment: datetime | None) -> datetime | None:
    """Tell when to look at a deadline that counts only once it has passed."""
    return None if moment is None else after(moment, _INSTANT)


def removal_of(
    view: View,
    removal: Removal,
    *,
    announced: bool,
    reason: Reason | None = None,
    by_request: bool = False,
) -> Remove | None:
    """Remove the runtime that is there. One that is terminating already is waited for, never pushed."""
    if view.observed is None or view.is_in(RuntimeState.TERMINATING):
        return None
    return Remove(
        id=view.observed.id,
        removal=removal,
        announced=announced,
        limited=announced,
        by_request=by_request,
        reason=reason,
    )


def _conflict(view: View, claim: Claim) -> Report:
    """Say to one who does not count why: its own problem, or that an older one wants something else."""
    desire = claim.claimant.desire
    if isinstance(desire, Unresolved):
        saying = say(Phase.FAILED, desire.reason, desire.message)
    else:
        ruler = view.ruler.name if view.ruler is not None else ""
        message = (
            f"The older Sandbox {ruler} has the same key and wants a different runtime; it rules. Make both agree, "
            f"give this one a scope or session of its own, or delete {ruler}."
        )
        saying = say(Phase.FAILED, Reason.CONFIG_CONFLICT, message)
    # Nothing runs for it, so its row of the registry names nothing.
    return _report(claim, saying, forgotten(claim.record))
