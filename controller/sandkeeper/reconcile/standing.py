"""How one runtime stands in the rollout of its policy, as the statuses of its Sandboxes have it: pure.

Only statuses count: they are what is left when a process ends, and the same for whoever reads them.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.api.conditions import ConditionType, Reason
from sandkeeper.api.names import Annotation
from sandkeeper.api.sandbox import RuntimeRecord, SandboxStatus
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.resolution import Resolution
from sandkeeper.lifecycle import Failed, Member, Standing
from sandkeeper.lifecycle.drift import epoch_of
from sandkeeper.lifecycle.instants import after, parse_instant
from sandkeeper.reconcile.claims import Claim
from sandkeeper.reconcile.objects import SandboxObject
from sandkeeper.reconcile.situations import is_paused

__all__ = ["standing_of"]

_AHEAD: Final = timedelta(seconds=60)
"""A last use that is further ahead is ignored."""


def standing_of(
    claims: Sequence[Claim], *, key: RuntimeKey, now: datetime, epoch: int
) -> tuple[str, Member] | None:
    """Tell under which policy a key's runtime is, and how it stands; None: there is none that is to run."""
    holders = [claim for claim in claims if _holds(claim, key)]
    if not holders or all(claim.sandbox.stopped for claim in holders):
        return None
    residents = [claim for claim in holders if claim.resolved == key]
    ruler = min(residents or holders, key=lambda claim: (claim.sandbox.created_at, claim.sandbox.uid))
    status, runtime = ruler.sandbox.status, ruler.sandbox.status.runtime
    policy = ruler.resolution.policy or status.policy
    if policy is None:
        return None
    standing = _standing(ruler, runtime, holders=holders, key=key, epoch=epoch)
    paused = any(map(is_paused, holders))
    failed = None if paused else _failed(holders, standing)
    last_use = max(_last_use(claim.sandbox, now) for claim in holders)
    windows = ruler.resolution.windows
    is_cold = after(last_use, windows.hot) <= now
    return policy, Member(
        standing=standing,
        last_use=last_use,
        claimed_at=ruler.sandbox.created_at,
        made_at=runtime.created_at if runtime is not None else ruler.sandbox.created_at,
        failed=failed,
        may_go=standing is Standing.DRIFTED
        and is_cold
        and not (paused or failed is not None or windows.rollout_paused),
    )


def _holds(claim: Claim, key: RuntimeKey) -> bool:
    """Whether the Sandbox has a runtime of the key, or waits for the one that replaces another."""
    sandbox, status = claim.sandbox, claim.sandbox.status
    return (
        claim.recorded == key
        and sandbox.deleting_since is None
        and (status.runtime is not None or status.removing is not None)
        and status.pruned is None
    )


def _standing(
    ruler: Claim, runtime: RuntimeRecord | None, *, holders: Sequence[Claim], key: RuntimeKey, epoch: int
) -> Standing:
    if any(claim.sandbox.status.removing is not None for claim in holders):
        return Standing.REPLACING
    if ruler.resolution.problem is not None:
        return Standing.UNKNOWN
    made_from = ruler.sandbox.status.config_hash or ""
    if runtime is None:
        return Standing.UNKNOWN
    if epoch_of(made_from) > epoch or _is_as_wanted(ruler.resolution, runtime, made_from, key=key):
        return Standing.CURRENT
    return Standing.DRIFTED


def _is_as_wanted(resolution: Resolution, runtime: RuntimeRecord, made_from: str, *, key: RuntimeKey) -> bool:
    config = resolution.config
    return (
        resolution.key == key
        and config is not None
        and (runtime.backend, made_from) == (config.backend.value, resolution.config_hash)
    )


def _failed(holders: Sequence[Claim], standing: Standing) -> Failed | None:
    """Find out whether a replacement failed, by what was said of what is still wanted."""
    for claim in holders:
        sandbox, status = claim.sandbox, claim.sandbox.status
        if status.desired_config_hash == claim.resolution.config_hash:
            reason = _reason_of_failure(status, standing)
            if reason is not None:
                return Failed(namespace=sandbox.namespace, sandbox=sandbox.name, reason=reason)
    return None


def _reason_of_failure(status: SandboxStatus, standing: Standing) -> str | None:
    for condition in status.conditions:
        match standing, condition.type:
            case Standing.REPLACING, ConditionType.REPLACEMENT_FAILED:
                return condition.reason
            case Standing.DRIFTED, ConditionType.DRIFTED if condition.reason == Reason.REPLACEMENT_BLOCKED:
                return condition.reason
    return None


def _last_use(sandbox: SandboxObject, now: datetime) -> datetime:
    uses = [sandbox.created_at]
    if sandbox.status.last_used_at is not None:
        uses.append(sandbox.status.last_used_at)
    touched = parse_instant(sandbox.annotations.get(Annotation.LAST_USED, ""))
    if touched is not None and touched - now <= _AHEAD:
        uses.append(touched)
    return max(uses)
