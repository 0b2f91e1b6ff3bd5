"""One pass over one key: observe, decide, act, report.

A pass goes on until nothing is left to do at once. Between any two of its steps the process may die: every step is
decided anew from what the world and the statuses say, so the next pass, of whichever process, goes on from there.
"""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import SandkeeperError, Transient
from sandkeeper.api.policy import Backend
from sandkeeper.cluster.api import Conflict, KubeApi, NotFound
from sandkeeper.cluster.leadership import AlwaysLeader, Leadership
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.lifecycle import (
    Create,
    DeleteClaimants,
    Effect,
    Observed,
    Plan,
    Preflight,
    PreflightCheck,
    Removal,
    Remove,
    Setup,
    Situation,
    Unreachable,
    bound_key,
    decide,
    next_failure,
)
from sandkeeper.reconcile.claims import Claim, Claims, is_private
from sandkeeper.reconcile.deadlines import Deadlines
from sandkeeper.reconcile.effects import Effects
from sandkeeper.reconcile.keeper import Keeper
from sandkeeper.reconcile.queue import KeyedQueue
from sandkeeper.reconcile.removals import RemovalBudget
from sandkeeper.reconcile.situations import Memory, claimant_of, is_paused, keeps_busy
from sandkeeper.reconcile.statuses import paused_status, status_of
from sandkeeper.runtimes.protocol import Order

__all__ = ["Reconciler"]

logger = logging.getLogger(__name__)

_MOST_STEPS: Final = 20
"""More than any life needs in one go; beyond it something goes round in circles, and back-off is the answer."""
_LONG_STEP: Final = 2.0
"""Seconds after which a step that is still going on is told in the status."""
_ENGINE_GRACE: Final = timedelta(minutes=5)
"""How long a deletion waits for an engine that does not answer; then the sweep finishes it later."""
_CLOCK_TOLERANCE: Final = 30.0
"""Seconds that our clock may be off the API server's for removals that depend on time."""

Seen = Observed | Unreachable | None


class Reconciler:
    """Holds what passes need, and makes them."""

    def __init__(
        self,
        *,
        api: KubeApi,
        claims: Claims,
        effects: Effects,
        keeper: Keeper,
        leadership: Leadership | AlwaysLeader,
        budget: RemovalBudget,
        queue: KeyedQueue[RuntimeKey],
        deadlines: Deadlines[RuntimeKey],
        now: Callable[[], datetime],
        epoch: int,
    ) -> None:
        self._api = api
        self._claims = claims
        self._effects = effects
        self._keeper = keeper
        self._leadership = leadership
        self._budget = budget
        self._queue = queue
        self._deadlines = deadlines
        self._now = now
        self._epoch = epoch
        self._memory: dict[RuntimeKey, Memory] = defaultdict(Memory)

    async def look(self, key: RuntimeKey) -> str:
        """Make one pass; return the name of the rule that settled it.

        Raises :class:`~sandkeeper.cluster.api.ApiError` and :class:`~sandkeeper.cluster.leadership.NotLeader`.
        """
        seen: Observed | None = None
        fresh: str | None = None
        failed: type[Effect] | None = None
        for _ in range(_MOST_STEPS):
            claims = self._bound(key)
            observed = seen or await self._observe(key, claims)
            plan = self._decide(key, claims, observed, fresh=fresh)
            effect = plan.effect
            if effect is None:
                await self._settle(key, plan, claims, observed)
                return plan.rule
            later = self._held_up(key, effect, failed=failed)
            if later is not None:
                self._deadlines.set(key, later)
                return "held-up"
            if isinstance(effect, DeleteClaimants):
                await self._delete(claims, effect)
                return plan.rule
            if isinstance(effect, Remove) and not await self._may_remove(key, effect, plan, claims, observed):
                return "cancelled"
            self._mourn(key, effect, claims, observed)
            if isinstance(effect, Create) and self._must_wait(key):
                continue
            claims = self._bound(key)  # as we wrote them in announcing
            try:
                seen = await self._act(key, effect, plan, claims, observed)
                fresh = seen.id if isinstance(effect, Create) and seen else fresh
                if isinstance(effect, (Setup, Preflight)) and isinstance(observed, Observed):
                    seen = observed
            except SandkeeperError as error:
                seen, failed = None, type(effect)
                self._note_failure(key, effect, error, claims)
        raise Transient(Reason.PENDING, f"{key} did not come to rest in {_MOST_STEPS} steps")

    # --- observe ------------------------------------------------------------------------------------------------------

    def _bound(self, key: RuntimeKey) -> tuple[Claim, ...]:
        """Return the live claims that belong to the key now."""
        return tuple(
            claim
            for claim in self._claims.of(key)
            if claim.sandbox.deleting_since is None and self._key_of(claim) == key
        )

    def _key_of(self, claim: Claim) -> RuntimeKey:
        """Return which of its keys a claim belongs to at the moment."""
        recorded = claim.recorded
        if recorded is None or recorded == claim.resolved:
            return claim.resolved
        stay = any(
            other.resolved == recorded
            and other.recorded in {None, recorded}
            and other.sandbox.deleting_since is None
            for other in self._claims.of(recorded)
        )
        return bound_key(
            resolved=claim.resolved,
            recorded=recorded,
            runtime_known=any(r.knows(recorded) for r in self._effects.runtimes.values()),
            busy=keeps_busy(claim, recorded, now=self._now()),
            in_use=False,  # where others stay nothing is removed, and where nobody does, the claim stays anyway
            others_stay=stay,
        )

    async def _observe(self, key: RuntimeKey, claims: tuple[Claim, ...]) -> Observed | Unreachable | None:
        if is_private(key):
            return None
        return await self._effects.observe(key, claims or self._claims.of(key))

    # --- decide -------------------------------------------------------------------------------------------------------

    def _decide(
        self, key: RuntimeKey, claims: tuple[Claim, ...], observed: Seen, *, fresh: str | None
    ) -> Plan:
        memory = self._memory[key]
        wanted = {claim.resolution.config_hash for claim in claims}
        if memory.failure is not None and memory.failed_hash is not None and memory.failed_hash not in wanted:
            memory.failure = memory.failed_hash = None
        offset = self._api.clock_offset
        return decide(
            Situation(
                claimants=tuple(claimant_of(claim, key) for claim in claims),
                observed=observed,
                now=self._now(),
                clock_trusted=offset is not None and abs(offset) <= _CLOCK_TOLERANCE,
                setup_done=memory.setup_done,
                fresh=fresh,
                failure=memory.failure,
                preflight=memory.preflight,
                epoch=self._epoch,
            )
        )

    def _must_wait(self, key: RuntimeKey) -> bool:
        failure = self._memory[key].failure
        return failure is not None and self._now() < failure.retry_at

    def _held_up(self, key: RuntimeKey, effect: Effect, *, failed: type[Effect] | None) -> datetime | None:
        """Return when the effect may be tried: after a failure in this pass, or for want of budget."""
        if failed is type(effect):
            failure, soon = self._memory[key].failure, self._now() + timedelta(seconds=1)
            return max(failure.retry_at, soon) if failure else soon
        if isinstance(effect, Create) and not self._claims.accepts(key.namespace):
            return self._now() + timedelta(seconds=5)  # its namespace is on its way out, or not known yet
        if isinstance(effect, Remove) and effect.limited:
            return self._budget.take(self._now())
        return None

    def _mourn(self, key: RuntimeKey, effect: Effect, claims: tuple[Claim, ...], observed: Seen) -> None:
        """Count the death of a runtime once, so that one that keeps dying is made again ever more slowly."""
        memory = self._memory[key]
        now = self._now()
        if isinstance(effect, Remove) and effect.removal is Removal.DEAD and isinstance(observed, Observed):
            dead, reason, message = observed.id, observed.ended or Reason.EXITED, observed.message
            ran_for: timedelta | None = now - observed.created_at
        elif isinstance(effect, Create) and effect.recovery:
            runtime = next((c.sandbox.status.runtime for c in claims if c.sandbox.status.runtime), None)
            if runtime is None:
                return
            dead, reason, message = runtime.id, Reason.EXITED, "the runtime vanished"
            ran_for = now - runtime.created_at
        else:
            return
        if memory.mourned == dead:
            return
        memory.mourned = dead
        memory.failure = next_failure(
            memory.failure, reason=reason, message=message, now=now, ran_for=ran_for, jitter=_jitter()
        )

    # --- act ----------------------------------------------------------------------------------------------------------

    async def _may_remove(
        self,
        key: RuntimeKey,
        effect: Remove,
        plan: Plan,
        claims: tuple[Claim, ...],
        observed: Seen,
    ) -> bool:
        """Announce a removal, or prove that nobody claims the runtime; False: somebody came in between."""
        if effect.announced:
            return await self._report(key, plan, claims, observed)
        if effect.removal is Removal.UNCLAIMED and not self._leaving(key):
            # Nobody asked for this removal: what a cache lacks is not proof enough.
            await self._keeper.refresh_namespace(key.namespace)
            if self._bound(key) or self._leaving(key):
                self._queue.add(key)
                return False
        return True

    async def _act(
        self,
        key: RuntimeKey,
        effect: Effect,
        plan: Plan,
        claims: tuple[Claim, ...],
        observed: Seen,
    ) -> Observed | None:
        order = self._order(key, effect, claims)
        if isinstance(effect, Create) and order is not None and order.config.backend is Backend.DOCKER:
            claims = await self._with_finalizers(claims)
        self._leadership.check()
        there = observed if isinstance(observed, Observed) else None
        doing = asyncio.ensure_future(self._effects.carry_out(effect, key=key, order=order, observed=there))
        try:
            done, _ = await asyncio.wait({doing}, timeout=_LONG_STEP)
            if not done and not isinstance(effect, Preflight):
                await self._report(key, plan, claims, observed)
            result = await doing
        finally:
            doing.cancel()
        memory = self._memory[key]
        if isinstance(effect, Setup):
            memory.setup_done = effect.id
        if isinstance(effect, Preflight) and order is not None:
            memory.preflight = PreflightCheck(config_hash=order.config_hash)
        return result

    def _order(self, key: RuntimeKey, effect: Effect, claims: tuple[Claim, ...]) -> Order | None:
        if not isinstance(effect, (Create, Setup, Preflight)):
            return None
        ruler = next(claim for claim in claims if claim.sandbox.uid == effect.ruler)
        config, config_hash = ruler.resolution.config, ruler.resolution.config_hash
        if config is None or config_hash is None:
            return None
        return Order(key=key, config=config, config_hash=config_hash)

    def _note_failure(
        self, key: RuntimeKey, effect: Effect, error: SandkeeperError, claims: tuple[Claim, ...]
    ) -> None:
        memory = self._memory[key]
        now = self._now()
        failure = next_failure(
            memory.failure,
            reason=error.reason,
            message=error.message,
            now=now,
            ran_for=None,
            jitter=_jitter(),
        )
        order = self._order(key, effect, claims)
        if isinstance(effect, Preflight) and order is not None:
            memory.preflight = PreflightCheck(
                config_hash=order.config_hash,
                problem=error.reason,
                message=error.message,
                retry_at=failure.retry_at,
            )
            return
        if isinstance(effect, Setup):
            memory.mourned = effect.id  # it is removed for this failure, not for one more
        memory.failure = failure
        memory.failed_hash = order.config_hash if order else None

    async def _delete(self, claims: tuple[Claim, ...], effect: DeleteClaimants) -> None:
        for claim in claims:
            if claim.sandbox.uid in effect.uids:
                await self._keeper.delete(claim.sandbox)

    # --- report -------------------------------------------------------------------------------------------------------

    async def _settle(self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen) -> None:
        if isinstance(observed, Observed) and observed.backend == Backend.DOCKER.value:
            claims = await self._with_finalizers(claims)
        if not await self._report(key, plan, claims, observed):
            return
        patience = await self._let_go(key, claims, observed)
        for claim in self._claims.of(key):
            # A Sandbox that left this key waits for nothing else to tell it so.
            if claim.recorded == key and (elsewhere := self._key_of(claim)) != key:
                self._queue.add(elsewhere)
        moments = [moment for moment in (plan.wake_at, patience) if moment is not None]
        self._deadlines.set(key, min(moments, default=None))
        if observed is None and not self._claims.of(key):
            self._memory.pop(key, None)

    async def _report(self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen) -> bool:
        """Write what is to be said; False: somebody was quicker, and the key is in the queue again."""
        now = self._now()
        there = observed if isinstance(observed, Observed) else None
        for claim in claims:
            sandbox = claim.sandbox
            report = plan.reports.get(sandbox.uid)
            if report is not None:
                status = status_of(claim, report, key=key, observed=there, now=now)
            elif is_paused(claim):
                status = paused_status(sandbox, now=now)
            else:
                continue
            try:
                await self._keeper.write_status(sandbox, status)
            except (Conflict, NotFound):
                self._queue.add(key)
                return False
        return True

    async def _with_finalizers(self, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
        """Put the finalizer on each claim that lacks it, and return the claims as they are then."""
        result = []
        for claim in claims:
            if claim.sandbox.has_finalizer or is_paused(claim):
                result.append(claim)
            else:
                result.append(self._claims.resolve(await self._keeper.add_finalizer(claim.sandbox)))
        return tuple(result)

    def _leaving(self, key: RuntimeKey) -> tuple[Claim, ...]:
        """Return the claims that are being deleted and wait for us."""
        return tuple(
            claim
            for claim in self._claims.of(key)
            if claim.sandbox.deleting_since is not None
            and claim.sandbox.has_finalizer
            and (claim.recorded or claim.resolved) == key
        )

    async def _let_go(self, key: RuntimeKey, claims: tuple[Claim, ...], observed: Seen) -> datetime | None:
        """Drop the finalizer of what no longer needs it; return when to ask again.

        What is being deleted goes once nothing of it is left, or once its engine has been silent for too long. What
        is not sandboxed has nothing left that a finalizer would guard.
        """
        if is_private(key):
            for claim in claims:
                if claim.sandbox.has_finalizer and claim.resolution.problem is None:
                    await self._keeper.drop_finalizer(claim.sandbox)
        patience: datetime | None = None
        for claim in self._leaving(key):
            limit = (claim.sandbox.deleting_since or self._now()) + _ENGINE_GRACE
            if observed is None or claims:
                await self._keeper.drop_finalizer(claim.sandbox)
            elif self._now() > limit:
                logger.warning(
                    "Letting %s/%s go though its engine does not answer; the sweep removes the container later",
                    *claim.sandbox.id,
                )
                self._effects.metrics.finalizers_released.inc()
                await self._keeper.drop_finalizer(claim.sandbox)
            else:
                patience = min(patience or limit, limit + timedelta(seconds=1))
        return patience


def _jitter() -> float:
    return random.uniform(0.9, 1.1)  # noqa: S311 - spreads load; guards nothing
