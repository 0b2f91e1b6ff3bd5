"""Rule 5: what is missing or dead is made anew, and what is half made is brought to an end."""

from typing import Final

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle.drift import FORBIDDEN, is_different
from sandkeeper.lifecycle.instants import after
from sandkeeper.lifecycle.model import (
    Create,
    Observed,
    Plan,
    Removal,
    RuntimeState,
    Setup,
    Start,
    Transition,
)
from sandkeeper.lifecycle.reports import RECHECK, SAY_REPLACING, SOON, Saying, compose, removal_of, say
from sandkeeper.lifecycle.view import View

__all__ = ["bury", "create", "finish", "wait_until_gone"]

_RAN: Final = (RuntimeState.RUNNING, RuntimeState.STOPPED)

_ROOM: Final = (Reason.UNSCHEDULABLE, Reason.VOLUME_BUSY)
"""Waiting for these is nobody's mistake."""

_SAY_TERMINATING: Final = say(Phase.PENDING, Reason.TERMINATING, "Its old runtime is on its way out.")


def wait_until_gone(view: View) -> Plan | None:
    """Gone means gone: a runtime that is terminating is waited for, and nothing is put beside it."""
    if not view.is_in(RuntimeState.TERMINATING):
        return None
    runtime = view.observed
    saying, passing = SAY_REPLACING if view.replaces else _SAY_TERMINATING, True
    if runtime is not None and runtime.message:
        # Nobody here asked for it: why it goes is told at once, for soon nothing is left to tell it by.
        saying = say(Phase.PENDING, runtime.ended or Reason.TERMINATING, runtime.message)
        passing = runtime.ended is None
    return compose(view, "terminating", saying, wake=[after(view.now, SOON)], passing=passing)


def bury(view: View) -> Plan | None:
    """Remove what serves nobody, at once: it died, or cannot be proven set up, or is not wanted half made.

    That the setupCommand completed has to be proven by the record or by this process. Where neither knows, it may
    have run half, and is never run twice; so the runtime goes even where the status was lost and somebody might use it:
    Ready was not True, so nobody was told that he could. A command that runs in it may be the orphaned setupCommand.
    """
    runtime = view.observed
    if runtime is None:
        return None
    died = runtime.state is RuntimeState.FAILED
    unproven = runtime.state in _RAN and not view.is_set_up and not _can_set_up(view, runtime)
    if not (died or unproven or (_is_half_made(view) and is_different(view))):
        return None
    kept = view.is_forbidden
    return compose(
        view,
        "dead",
        _say_dead(view, runtime, unproven=unproven),
        effect=None if kept else removal_of(view, Removal.DEAD, announced=False, reason=runtime.ended),
        withheld=f"Its runtime would be removed by now, and another made. {FORBIDDEN}" if kept else None,
    )


def create(view: View) -> Plan | None:
    """Nothing is there: make it, eagerly, unless the last attempt failed and its time has not come."""
    failure = view.situation.failure
    if view.observed is not None or view.ruler is None:
        return None
    if failure is not None and view.now < failure.retry_at:
        return compose(
            view,
            "back-off",
            say(Phase.FAILED, failure.reason, failure.message),
            following=lambda _: Transition(at=failure.retry_at, what="Retry"),
            wake=[failure.retry_at],
        )
    if view.replaces:
        saying = SAY_REPLACING
    elif view.recovers:
        saying = say(Phase.CREATING, Reason.RECOVERING, "Its runtime is gone; a new one is being made.")
    else:
        saying = say(Phase.CREATING, Reason.CREATING, "Its runtime is being made.")
    effect = Create(ruler=view.ruler.uid, recovery=view.recovers, wipe=view.wipes, wiped_for=view.wiped_for)
    return compose(view, "create", saying, effect=effect)


def finish(view: View) -> Plan | None:
    """Bring a runtime that was never ready to the end: start it, wait for it, set it up."""
    runtime = view.observed
    if runtime is None or view.ruler is None or not _is_half_made(view):
        return None
    if runtime.state is RuntimeState.RUNNING:
        saying = say(Phase.SETUP, Reason.SETTING_UP, "Its setupCommand runs.")
        return compose(view, "set-up", saying, effect=Setup(id=runtime.id, ruler=view.ruler.uid))
    saying = SAY_REPLACING if view.replaces and runtime.waits_for is None else _say_starting(runtime)
    if runtime.state is RuntimeState.CREATED:
        return compose(view, "start", saying, effect=Start(id=runtime.id))
    return compose(view, "starting", saying, wake=[after(view.now, RECHECK)], passing=True)


def _is_half_made(view: View) -> bool:
    """Whether a runtime was never ready: not started, not up for the first time, or not set up."""
    if view.is_in(RuntimeState.STARTING):
        return not view.is_recorded
    return view.is_in(RuntimeState.CREATED) or (view.is_in(*_RAN) and not view.is_set_up)


def _can_set_up(view: View, runtime: Observed) -> bool:
    """Whether the setupCommand may run: it has certainly not begun, and somebody wants the runtime."""
    return (
        runtime.state is RuntimeState.RUNNING
        and view.situation.fresh == runtime.id
        and view.wanted is not None
    )


def _say_dead(view: View, runtime: Observed, *, unproven: bool) -> Saying:
    failure = view.situation.failure
    if runtime.state is RuntimeState.FAILED:
        return say(Phase.FAILED, runtime.ended or Reason.EXITED, runtime.message or "Its runtime died.")
    if not unproven:
        return say(
            Phase.CREATING, Reason.CREATING, "Its runtime is not wanted any more, and was never ready."
        )
    if failure is not None:
        return say(Phase.FAILED, failure.reason, failure.message)
    message = "It cannot be proven that its setupCommand completed; its runtime is made anew."
    return say(Phase.FAILED, Reason.SETUP_FAILED, message)


def _say_starting(runtime: Observed) -> Saying:
    message = runtime.message or "Its runtime is starting."
    if runtime.waits_for is None:
        return say(Phase.CREATING, Reason.CREATING, message)
    return say(
        Phase.PENDING if runtime.waits_for in _ROOM else Phase.FAILED,
        runtime.waits_for,
        message,
    )
