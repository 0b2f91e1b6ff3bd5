"""In what a runtime differs from what is wanted, and what is said about it."""

import re
from datetime import datetime
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.lifecycle.instants import show_instant
from sandkeeper.lifecycle.model import Drift, Moved
from sandkeeper.lifecycle.use import Claim
from sandkeeper.lifecycle.view import View

__all__ = ["FORBIDDEN", "difference", "drift_of", "epoch_of", "is_different", "outlook"]

FORBIDDEN: Final = "The operator's configuration forbids removals."

_EPOCH: Final = re.compile(r"v([0-9]{1,9})-")


def difference(view: View) -> Reason | None:
    """Tell in what the runtime differs, if it does. The most that a replacement would change comes first.

    A runtime of a higher epoch was made by a newer operator, before this one was rolled back; what this one makes of
    its configuration, or of its claimants' identity, says nothing. It is left alone until it is pruned or stopped.
    """
    runtime, wanted = view.observed, view.wanted
    if runtime is None:
        return None
    if wanted is None or runtime.backend != wanted.backend:
        found = Reason.IDENTITY_MOVED
    elif runtime.config_hash != wanted.config_hash:
        found = Reason.CONFIG_CHANGED
    elif view.is_asked_for:
        found = Reason.RECREATE_REQUESTED
    else:
        return None
    return Reason.NEWER_EPOCH if epoch_of(runtime.config_hash) > view.situation.epoch else found


def is_different(view: View) -> bool:
    """Whether the runtime is to be replaced (rules 7 and 8)."""
    return difference(view) not in {None, Reason.NEWER_EPOCH}


def drift_of(view: View, claim: Claim, prospect: str, *, because: Reason | None = None) -> Drift | None:
    """Say it of one claimant: what differs, with both hashes, and when that ends.

    ``because``: what keeps it from being replaced, where that is not its use.
    """
    reason = difference(view)
    desire = claim.claimant.desire
    if isinstance(desire, Moved) and reason is not Reason.NEWER_EPOCH:
        reason = Reason.IDENTITY_MOVED
        text = _moves(desire)
    elif reason is None:
        return None
    else:
        text = _differs(view, reason)
    return Drift(reason=because or reason, message=f"{text} {prospect}".strip())


def outlook(view: View, last_use: datetime) -> str:
    """Say when a runtime that is kept will be replaced."""
    if view.windows.rollout_paused:
        return "The policy holds back replacements (rollout)."
    if view.is_forbidden:
        return FORBIDDEN
    if view.is_busy:
        at = show_instant(view.cold_at(last_use))
        return f"It is in use or held, and is replaced when it no longer is: at {at} at the earliest."
    if not view.situation.clock_trusted:
        return "It is replaced when the operator's clock agrees with the API server's."
    if view.waiting is not None:
        return view.waiting.message
    return "It is replaced when the rate of replacements allows."


def _differs(view: View, reason: Reason) -> str:
    runtime, wanted = view.observed, view.wanted
    have = runtime.config_hash if runtime is not None else ""
    want = wanted.config_hash if wanted is not None else "nothing here"
    match reason:
        case Reason.RECREATE_REQUESTED:
            how = " with a fresh copy of the workspace" if view.wipes else ""
            return f"A new runtime of {want}{how} was asked for by annotation."
        case Reason.IDENTITY_MOVED if runtime is not None and wanted is not None:
            return f"{have} runs on backend {runtime.backend}; {want} is wanted on {wanted.backend}."
        case Reason.NEWER_EPOCH:
            return (
                f"{have} runs, made by a newer operator; this one would make {want}. "
                "It is left alone until it is pruned or stopped."
            )
        case _:
            return f"{have} runs; {want} is wanted."


def _moves(desire: Moved) -> str:
    if desire.to is None:
        return "It is no longer to be sandboxed; what it had still runs."
    return f"It belongs to {desire.to} now, and still uses the runtime that it had."


def epoch_of(config_hash: str) -> int:
    """Read the epoch of a hash; one that is not ours counts as older than any."""
    match = _EPOCH.match(config_hash)
    return int(match[1]) if match is not None else 0
