"""The rules under which nothing is made: rules 0 to 2, and what stands beside them."""

from dataclasses import replace
from functools import partial
from typing import Final

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle.drift import drift_of
from sandkeeper.lifecycle.instants import after
from sandkeeper.lifecycle.model import Observed, Plan, Record, Removal, RuntimeState, Stop, Unresolved
from sandkeeper.lifecycle.reports import (
    RECHECK,
    SOON,
    Saying,
    base,
    compose,
    frozen,
    noted,
    parted,
    released,
    removal_of,
    say,
    say_parting,
)
from sandkeeper.lifecycle.use import ALIVE, Claim
from sandkeeper.lifecycle.view import View

__all__ = ["gone_elsewhere", "paused", "stopped", "unclaimed", "unreachable", "unresolved"]

_SAY_STOPPED: Final = say(Phase.STOPPED, Reason.STOPPED, "Stopped, as spec.state says; its volumes are kept.")


def unresolved(view: View) -> Plan | None:
    """Rule 0: what the ruler wants cannot be said. Freeze: not even Stopped is acted upon, for who would be asked."""
    if view.ruler is None or not isinstance(view.ruler.desire, Unresolved):
        return None
    ruler, problem = view.ruler.name, view.ruler.desire

    def saying(claim: Claim) -> Saying:
        own = claim.claimant.desire
        if isinstance(own, Unresolved):
            return say(Phase.FAILED, own.reason, own.message)
        message = (
            f"The older Sandbox {ruler}, which rules this runtime, cannot be resolved: {problem.message}"
        )
        return say(Phase.FAILED, problem.reason, message)

    return frozen(view, "unresolved", saying)


def unreachable(view: View) -> Plan | None:
    """Nothing is known of the runtime, and nothing is decided on no knowledge."""
    problem = view.unreachable
    if problem is None:
        return None
    saying = say(Phase.UNKNOWN, problem.reason, problem.message, ready=None)
    return frozen(view, "unreachable", saying, wake=[after(view.now, RECHECK)])


def unclaimed(view: View) -> Plan | None:
    """Rule 1: nobody claims it, so it goes; not announced, for there is nobody to tell."""
    if view.claims:
        return None
    if view.situation.removals_forbidden and not view.situation.was_deleted:
        return Plan(rule="unclaimed", effect=None)
    effect = removal_of(view, Removal.UNCLAIMED, announced=False)
    waits = view.observed is not None and effect is None
    return Plan(rule="unclaimed", effect=effect, wake_at=after(view.now, SOON) if waits else None)


def paused(view: View) -> Plan | None:
    """Hands off one Sandbox is hands off its runtime. The others hear how things are."""
    if not any(claim.claimant.paused for claim in view.claims):
        return None
    if view.observed is not None and view.is_set_up and view.is_in(RuntimeState.RUNNING):
        return compose(
            view,
            "paused",
            say(Phase.READY, Reason.RUNNING, "It runs.", ready=True),
            record=partial(noted, view.observed),
            drift=lambda claim, _: drift_of(view, claim, "Nothing is done about it while it is paused."),
        )
    who = next(claim.claimant.name for claim in view.claims if claim.claimant.paused)
    state = f"its runtime is {view.observed.state}" if view.observed is not None else "it has no runtime"
    message = f"Sandbox {who} is paused, so nothing is done; {state}."
    return frozen(view, "paused", say(Phase.PENDING, Reason.PAUSED, message))


def gone_elsewhere(view: View) -> Plan | None:
    """Every claimant belongs elsewhere or nowhere, and nothing is left here: let go (mode off comes to rest here)."""
    if view.wanted is not None or view.observed is not None:
        return None
    return compose(view, "gone-elsewhere", say_parting, record=parted)


def stopped(view: View) -> Plan | None:
    """Rule 2: all say Stopped. Stop and keep; no time prunes it, and nothing that it differs in is acted upon."""
    if not view.all_stopped:
        return None
    runtime = view.observed
    return compose(
        view,
        "stopped",
        _say_stopping(runtime),
        effect=Stop(id=runtime.id) if runtime is not None and runtime.state in ALIVE else None,
        record=partial(_at_rest, view),
        drift=lambda claim, _: drift_of(view, claim, "It is replaced when it is to run again."),
        wake=[after(view.now, SOON) if view.is_in(RuntimeState.TERMINATING) else None],
        passing=view.is_in(RuntimeState.TERMINATING),
    )


def _say_stopping(runtime: Observed | None) -> Saying:
    """Say that it is stopped only when it is: who is told so may rely on nothing running there any more."""
    if runtime is None or runtime.state not in {*ALIVE, RuntimeState.TERMINATING}:
        return _SAY_STOPPED
    held = runtime.message if runtime.state is RuntimeState.TERMINATING else ""
    return say(Phase.PENDING, Reason.STOPPING, held or "It is being stopped, as spec.state says.")


def _at_rest(view: View, claim: Claim) -> Record:
    """Record that it is stopped, and whatever can still be proven of its runtime."""
    if view.observed is None:
        record = released(claim)
    elif view.is_set_up and view.is_in(RuntimeState.RUNNING, RuntimeState.STOPPED):
        record = noted(view.observed, claim)
    else:
        record = base(claim)
    return replace(record, stopped=True, removing=None)
