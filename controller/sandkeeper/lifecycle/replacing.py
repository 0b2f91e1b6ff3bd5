"""Rules 6 to 8: a runtime that is up to date is used again; one that is not is replaced when nobody uses it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle.drift import FORBIDDEN, difference, drift_of, is_different, outlook
from sandkeeper.lifecycle.instants import after
from sandkeeper.lifecycle.model import (
    Effect,
    Kept,
    Moved,
    Plan,
    Preflight,
    PreflightCheck,
    Removal,
    RuntimeState,
    Start,
    Transition,
)
from sandkeeper.lifecycle.reports import (
    RECHECK,
    SAY_REPLACING,
    Saying,
    base,
    compose,
    noted,
    removal_of,
    say,
    strictly_after,
)
from sandkeeper.lifecycle.use import is_hot
from sandkeeper.lifecycle.view import View

__all__ = ["keep", "replace_it", "reuse"]

_SAY_READY: Final = say(Phase.READY, Reason.RUNNING, "It runs.", ready=True)
_SAY_STARTING: Final = say(Phase.CREATING, Reason.CREATING, "Its runtime is starting again.")


def reuse(view: View) -> Plan | None:
    """Rule 6: it is what is wanted: use it again, and start it if it was stopped."""
    return None if is_different(view) else _serve(view, "reuse", passing=_is_about_to_go(view))


def keep(view: View) -> Plan | None:
    """Rule 7: it is not what is wanted, but it is in use, or replacements wait: keep it, and say until when."""
    if not view.is_busy and view.may_replace:
        return None
    if not view.is_busy or view.is_held_back:
        # Nobody tells of a clock that is trusted again.
        wake = None if view.situation.clock_trusted else after(view.now, RECHECK)
        return _serve(view, "keep", prospect=partial(outlook, view), because=_held_back_by(view), wake=wake)
    return _serve(
        view,
        "keep",
        prospect=partial(outlook, view),
        following=lambda last_use: Transition(at=view.cold_at(last_use), what="Replace"),
        wake=view.cold_at(view.last_use),
    )


def replace_it(view: View) -> Plan | None:
    """Rule 8: it is not what is wanted, and cold: check that another can be made; then announce, and remove."""
    if view.wanted is not None:
        check = view.situation.preflight
        if check is None or check.config_hash != view.wanted.config_hash:
            return _serve(view, "preflight", prospect=partial(outlook, view), effect=_preflight(view))
        if check.problem is not None:
            return _blocked(view, check)
    return compose(
        view,
        "replace",
        SAY_REPLACING,
        effect=removal_of(
            view,
            Removal.REPLACE,
            announced=True,
            reason=difference(view),
            by_request=view.is_asked_for,
        ),
        record=lambda claim: replace(base(claim), removing=view.observed.id if view.observed else None),
    )


def _held_back_by(view: View) -> Reason | None:
    """Tell what else than its turn keeps a runtime that nobody uses from being replaced."""
    if view.windows.rollout_paused:
        return None  # as the policy says: that is no news
    if view.is_forbidden:
        return Reason.REMOVALS_FORBIDDEN
    return view.waiting.reason if view.waiting is not None else None


def _blocked(view: View, check: PreflightCheck) -> Plan:
    """Keep what runs, though nobody uses it: a typing error in an image's name must not take a sandbox away."""
    retry_at = check.retry_at
    due = retry_at is not None and retry_at <= view.now
    return _serve(
        view,
        "preflight" if due else "blocked",
        prospect=lambda _: f"It cannot be replaced ({check.problem}): {check.message}",
        following=lambda _: None if retry_at is None else Transition(at=retry_at, what="Retry"),
        effect=_preflight(view) if due else None,
        wake=retry_at,
        because=Reason.REPLACEMENT_BLOCKED,
    )


def _preflight(view: View) -> Effect | None:
    return Preflight(ruler=view.ruler.uid, by_request=view.is_asked_for) if view.ruler is not None else None


def _serve(
    view: View,
    rule: str,
    *,
    prospect: Callable[[datetime], str] = lambda _: "",
    following: Callable[[datetime], Transition | None] | None = None,
    effect: Effect | None = None,
    wake: datetime | None = None,
    because: Reason | None = None,
    passing: bool = False,
) -> Plan:
    """Let the claimants have the runtime that is there, started again where it was stopped."""
    runtime = view.observed
    is_withheld = view.is_forbidden and not view.is_busy and view.overdue is not None
    saying: Saying = _SAY_STARTING
    record = base
    if runtime is not None and runtime.state is RuntimeState.RUNNING:
        saying, record = _SAY_READY, partial(noted, runtime)
    elif runtime is not None and runtime.state is RuntimeState.STOPPED:
        effect = effect or Start(id=runtime.id)
    plan = compose(
        view,
        rule,
        saying,
        effect=effect,
        record=record,
        drift=lambda claim, last_use: drift_of(view, claim, prospect(last_use), because=because),
        following=following or partial(_prune_next, view),
        wake=(
            wake,
            None if is_withheld else strictly_after(view.prune_at(view.last_use)),
            None if view.may_remove else view.situation.removals_from,
            *_departures(view),
            after(view.now, RECHECK) if view.is_in(RuntimeState.STARTING) else None,
        ),
        withheld=f"It would be pruned by now. {FORBIDDEN}" if is_withheld else None,
        passing=passing,
    )
    return replace(plan, kept=_kept(view)) if view.is_busy else plan


def _kept(view: View) -> Kept | None:
    """Tell what keeps a runtime that is busy, if it were to go otherwise."""
    if not is_different(view) and view.overdue is None:
        return None
    hot = is_hot(view.observed, last_use=view.last_use, now=view.now, hot=view.windows.hot)
    return Kept.HOT if hot else Kept.HELD


def _is_about_to_go(view: View) -> bool:
    """Whether it waits only for its turn to be pruned. A thousand do so at once, and have more to say once it comes."""
    runtime = view.observed
    if runtime is None or view.is_busy or view.overdue is None or view.may_remove:
        return False
    known = all(claim.record.runtime_id == runtime.id for claim in view.claims)
    return known and runtime.state is RuntimeState.RUNNING and view.situation.clock_trusted


def _prune_next(view: View, last_use: datetime) -> Transition | None:
    at = None if view.is_forbidden else view.prune_at(last_use)
    return None if at is None else Transition(at=at, what="Prune")


def _departures(view: View) -> list[datetime]:
    """Tell when those who belong elsewhere stop using what is here: then they are bound to where they belong."""
    moments: list[datetime] = []
    for claim in view.claims:
        if isinstance(claim.claimant.desire, Moved):
            if not view.situation.clock_trusted:
                moments.append(after(view.now, RECHECK))
            hot = is_hot(view.observed, last_use=claim.last_use, now=view.now, hot=view.windows.hot)
            ends = [claim.held_until, after(claim.last_use, view.windows.hot) if hot else None]
            moments.extend(end for end in ends if end is not None)
    return moments
