"""What passes see and do, as metrics: each change once, and how long it takes until a runtime is Ready."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from sandkeeper.api.conditions import ConditionType, Phase, Reason
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.lifecycle import Create, Effect, Observed, Plan, Start, churn
from sandkeeper.lifecycle.churn import NOTHING_TOLD, Change, Churn, Decision, Told
from sandkeeper.reconcile.claims import Claim
from sandkeeper.reconcile.memory import Memory
from sandkeeper.reconcile.statuses import record_of
from sandkeeper.telemetry.metrics import Metrics

__all__ = ["Counting"]

logger = logging.getLogger(__name__)

_PRUNED: Final = {Reason.IDLE: "idle", Reason.TOO_OLD: "age"}
_BACKENDLESS: Final = "none"

_COMING: Final = frozenset({Phase.PENDING, Phase.CREATING, Phase.SETUP, Phase.REPLACING, Phase.FAILED})
_WAITING_FOR_SOMEBODY: Final = frozenset({"unresolved", "paused", "gone-elsewhere", "stopped"})
"""Rules under which nothing is made, whatever phase they report."""
_SETTLED: Final = frozenset(
    {None, Phase.READY, Phase.PRUNING, Phase.PRUNED, Phase.STOPPED, Phase.NOT_SANDBOXED}
)
"""Phases that a status has before a runtime is wanted. Any other was written by whoever saw that it is."""


class Counting:
    """Counts for one process."""

    def __init__(self, metrics: Metrics, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock

    def plan(
        self,
        key: RuntimeKey,
        plan: Plan,
        *,
        claims: Sequence[Claim],
        observed: Observed | None,
        memory: Memory,
        asked_at: float,
    ) -> None:
        """Take in a plan that is about to be followed. ``asked_at``: since when the key waited for this pass."""
        ruling = _ruling(plan, claims)
        if ruling is None:
            return
        told = memory.told if memory.told is not None else _told_by(ruling, claims)
        changes, decision, memory.told = churn.seen(plan, observed=observed, told=told)
        for change in changes:
            self._count(key, change, observed=observed, claim=ruling)
            if change.change is Change.DRIFTED:
                _log_drift(key, change, claim=ruling, observed=observed)
        self._decide(decision)
        self._note_wanted(plan, ruling, memory, asked_at=asked_at)
        if isinstance(plan.effect, Create) and memory.was is None:
            memory.was = _why_there_is_none(ruling)

    def did(
        self,
        key: RuntimeKey,
        effect: Effect,
        *,
        claims: Sequence[Claim],
        observed: Observed | None,
        memory: Memory,
    ) -> None:
        """Take in that an effect was carried out on what was ``observed`` before."""
        change, decision = churn.carried_out(effect, observed=observed)
        if change is not None:
            self._count(key, change, observed=observed, claim=claims[0] if claims else None)
        self._decide(decision)
        if isinstance(effect, Start):
            memory.told = None if memory.told is None else _started(memory.told)

    def arrival(
        self, plan: Plan, *, claims: Sequence[Claim], observed: Observed | None, memory: Memory
    ) -> Churn | None:
        """Tell what it will mean once the first record names the runtime that is there."""
        ruling = _ruling(plan, claims)
        if ruling is None or observed is None:
            return None
        if plan.reports[ruling.sandbox.uid].record.runtime_id != observed.id:
            return None
        before = record_of(ruling.sandbox.status)
        statuses = (claim.sandbox.status for claim in claims)
        return churn.came(
            observed.id,
            ruler=before,
            known={status.runtime.id for status in statuses if status.runtime is not None},
            was=memory.was,
            died_of=memory.died_of if memory.mourned == before.runtime_id else None,
        )

    def arrived(self, key: RuntimeKey, change: Churn, *, observed: Observed | None, memory: Memory) -> None:
        """Take in that a record names it."""
        memory.was = None
        self._count(key, change, observed=observed, claim=None)

    def ready(self, observed: Observed | None, memory: Memory) -> None:
        """Take in that Ready=True was written."""
        if memory.wanted_since is not None and observed is not None:
            self._metrics.time_to_ready[observed.backend,].observe(self._clock() - memory.wanted_since)
        memory.wanted_since = None

    @staticmethod
    def _note_wanted(plan: Plan, ruling: Claim, memory: Memory, *, asked_at: float) -> None:
        report = plan.reports[ruling.sandbox.uid]
        if report.readiness.ready:
            return  # it is counted once that is written
        if report.phase not in _COMING or plan.rule in _WAITING_FOR_SOMEBODY:
            memory.wanted_since = None
        elif memory.wanted_since is None and ruling.sandbox.status.phase in _SETTLED:
            memory.wanted_since = asked_at

    def _decide(self, decision: Decision | None) -> None:
        if decision is not None:
            self._metrics.hot_window[decision.value,].inc()

    def _count(
        self, key: RuntimeKey, change: Churn, *, observed: Observed | None, claim: Claim | None
    ) -> None:
        reason = change.reason.value if change.reason is not None else ""
        if change.change is Change.PRUNED and change.reason is not None:
            reason = _PRUNED[change.reason]
        config = claim.resolution.config if claim is not None else None
        wanted = config.backend.value if config is not None else _BACKENDLESS
        backend = observed.backend if observed is not None else wanted
        # What nobody can resolve may name any policy.
        policy = self._metrics.policies.label(key.policy, admit=observed is not None or config is not None)
        self._metrics.churn[change.change.value, reason, backend, policy].inc()


def _ruling(plan: Plan, claims: Sequence[Claim]) -> Claim | None:
    """Find the one that rules, if something is said of it."""
    if not plan.sharers or plan.sharers[0] not in plan.reports:
        return None
    return next((claim for claim in claims if claim.sandbox.uid == plan.sharers[0]), None)


def _told_by(ruling: Claim, claims: Sequence[Claim]) -> Told:
    """Read from the statuses what was counted by whoever wrote them.

    Of the last use they do not say enough, so the first that is seen is not counted.
    """
    status = ruling.sandbox.status
    if status.phase is None:
        return NOTHING_TOLD
    drift = next((c.reason for c in status.conditions if c.type == ConditionType.DRIFTED), None)
    ready = next((c.reason for c in status.conditions if c.type == ConditionType.READY), None)
    runtime = status.runtime.id if status.runtime is not None and status.phase == Phase.READY else None
    sharing = (claim.sandbox.status.runtime for claim in claims)
    return Told(
        runtime=runtime,
        used_at=math.inf,
        sharers=sum(1 for record in sharing if record is not None and record.id == runtime),
        drift=_reason(drift),
        failed=_reason(ready) if status.phase == Phase.FAILED else None,
    )


def _reason(text: str | None) -> Reason | None:
    """Read a reason; one that only a newer operator knows is none of ours."""
    try:
        return Reason(text) if text is not None else None
    except ValueError:
        return None


def _started(told: Told) -> Told:
    """Forget that it was Ready: the use that started it found nothing running."""
    return Told(drift=told.drift, failed=told.failed, kept=told.kept)


def _why_there_is_none(claim: Claim) -> Reason | None:
    record = record_of(claim.sandbox.status)
    if record.pruned is not None:
        return record.pruned.reason
    return Reason.STOPPED if record.stopped else None


def _log_drift(key: RuntimeKey, change: Churn, *, claim: Claim, observed: Observed | None) -> None:
    details = {
        "reason": change.reason.value if change.reason is not None else "",
        "diff": list(claim.changed),
        "runs": observed.config_hash if observed is not None else "",
        "wanted": claim.resolution.config_hash or "",
    }
    logger.info("Noting that %s is not what is wanted any more", key, extra=details)
