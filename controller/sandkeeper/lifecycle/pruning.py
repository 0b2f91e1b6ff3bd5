"""Rules 3 and 4: a runtime that nobody uses goes, and its Sandboxes remember why."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.api.names import Annotation
from sandkeeper.lifecycle.drift import FORBIDDEN
from sandkeeper.lifecycle.instants import after, show_instant
from sandkeeper.lifecycle.model import DeleteClaimants, Plan, Pruned, Record, Removal, Transition
from sandkeeper.lifecycle.reports import (
    SOON,
    Saying,
    base,
    compose,
    released,
    removal_of,
    say,
    strictly_after,
)
from sandkeeper.lifecycle.use import Claim
from sandkeeper.lifecycle.view import View

__all__ = ["prune", "stay_pruned"]


def prune(view: View) -> Plan | None:
    """Rule 3: cold, not held, and idle too long or too old: record, then remove; with none there, only record."""
    if view.all_pruned or view.is_busy or not view.may_remove or _is_to_stay(view):
        return None
    reason = view.overdue
    return None if reason is None else _pruned(view, "prune", reason)


def stay_pruned(view: View) -> Plan | None:
    """Rule 4: pruned, and not used since. A hold is not a use: it keeps what is there, and brings nothing back.

    A newer claimant is a use by having been created. One that was pruned but never told (the process died between two
    announcements) is no newer claimant: its last use is as old as the others', and rule 3 comes first.
    """
    if not view.all_pruned or _is_to_stay(view):
        return None
    # The reason is recorded already for each; this one is never used.
    return _pruned(view, "stay-pruned", Reason.IDLE)


def _is_to_stay(view: View) -> bool:
    """Whether there is something to remove, and it may not be. Where nothing is, it is only recorded."""
    return view.observed is not None and view.is_forbidden


def _pruned(view: View, rule: str, reason: Reason) -> Plan:
    if view.observed is not None:
        why = _mark(view, reason, view.claims[0]).reason
        effect = removal_of(view, Removal.PRUNE, announced=True, reason=why)
        return compose(
            view,
            rule,
            partial(_say_pruning, view, reason),
            effect=effect,
            record=partial(_record, view, reason),
            wake=[after(view.now, SOON) if effect is None else None],
        )
    delete_at = _delete_at(view)
    forbidden = view.situation.removals_forbidden
    passed = delete_at is not None and delete_at < view.now
    due = passed and view.situation.clock_trusted and not forbidden
    return compose(
        view,
        rule,
        partial(_say_pruned, view, reason),
        effect=DeleteClaimants(uids=tuple(claim.uid for claim in view.claims)) if due else None,
        record=partial(_record, view, reason),
        following=lambda _: (
            None if delete_at is None or forbidden else Transition(at=delete_at, what="Delete")
        ),
        wake=[None if passed and forbidden else strictly_after(delete_at)],
        withheld=f"This Sandbox would be deleted by now. {FORBIDDEN}" if passed and forbidden else None,
    )


def _record(view: View, reason: Reason, claim: Claim) -> Record:
    mark = _mark(view, reason, claim)
    if view.observed is None:
        return replace(released(claim), pruned=mark)
    return replace(base(claim), pruned=mark, removing=view.observed.id)


def _mark(view: View, reason: Reason, claim: Claim) -> Pruned:
    """Say when and why it was pruned: what was said first stands, so that saying it again writes nothing.

    Only a valid last use is recorded. One that is too far ahead may become valid, and is a use then.
    """
    known = claim.record.pruned
    if known is not None and not claim.woken:
        return known
    return Pruned(at=view.now, reason=reason, last_used=claim.last_used_raw)


def _say_pruning(view: View, reason: Reason, claim: Claim) -> Saying:
    mark = _mark(view, reason, claim)
    return say(Phase.PRUNING, Reason.PRUNING, f"Its runtime is being removed: {_why(mark)}.")


def _say_pruned(view: View, reason: Reason, claim: Claim) -> Saying:
    mark = _mark(view, reason, claim)
    message = (
        f"Its runtime was removed at {show_instant(mark.at)}: {_why(mark)}. "
        f"Set the annotation {Annotation.LAST_USED} to the present time to have a new one."
    )
    return say(Phase.PRUNED, mark.reason, message)


def _why(mark: Pruned) -> str:
    return (
        "it reached its greatest age" if mark.reason is Reason.TOO_OLD else "nobody used it for idleSeconds"
    )


def _delete_at(view: View) -> datetime | None:
    """Tell after which moment all of them have stayed pruned for deleteAfterSeconds; None: never."""
    if view.windows.delete_after <= timedelta():
        return None
    latest = max(
        claim.record.pruned.at if claim.record.pruned is not None else view.now for claim in view.claims
    )
    return after(latest, view.windows.delete_after)
