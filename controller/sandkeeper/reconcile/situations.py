"""What :func:`sandkeeper.lifecycle.decide` is shown: claims as claimants."""

from typing import Final

from sandkeeper.api.names import Annotation
from sandkeeper.api.policy import Backend
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.lifecycle import (
    Claimant,
    Desire,
    Moved,
    Unresolved,
    Wanted,
    rebound,
)
from sandkeeper.reconcile.claims import Claim
from sandkeeper.reconcile.statuses import record_of

__all__ = ["MOST_OWNERS", "claimant_of", "is_paused"]

MOST_OWNERS: Final = 256
"""Owners of one Pod. Each takes some 150 bytes of an object that every watcher is sent whole with every change."""


def is_paused(claim: Claim) -> bool:
    """Whether the user said: hands off. Anything but ``false`` says so, lest a typing error be an answer."""
    value = claim.sandbox.annotations.get(Annotation.PAUSED)
    return value is not None and value.strip().lower() != "false"


def _desire(claim: Claim, key: RuntimeKey) -> Desire:
    resolution = claim.resolution
    if resolution.problem is not None:
        return Unresolved(reason=resolution.problem.reason, message=resolution.problem.message)
    if resolution.config is None or resolution.config_hash is None or resolution.key != key:
        return Moved(to=str(resolution.key) if resolution.key else None, windows=resolution.windows)
    return Wanted(
        backend=resolution.config.backend.value,
        config_hash=resolution.config_hash,
        has_setup=resolution.config.setup_command is not None,
        windows=resolution.windows,
        most_sharers=MOST_OWNERS if resolution.config.backend is Backend.POD else None,
    )


def claimant_of(claim: Claim, key: RuntimeKey) -> Claimant:
    """Show one claim as a claimant of the key."""
    sandbox = claim.sandbox
    record = record_of(sandbox.status)
    if claim.recorded != key:
        record = rebound(record)
    return Claimant(
        uid=sandbox.uid,
        name=sandbox.name,
        created_at=sandbox.created_at,
        desire=_desire(claim, key),
        stopped=sandbox.stopped,
        paused=is_paused(claim),
        last_used=sandbox.annotations.get(Annotation.LAST_USED),
        hold_until=sandbox.annotations.get(Annotation.HOLD_UNTIL),
        recreate=sandbox.annotations.get(Annotation.RECREATE),
        wipe=sandbox.annotations.get(Annotation.WIPE),
        record=record,
        has_status=sandbox.has_status,
    )
