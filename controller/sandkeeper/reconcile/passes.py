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
from sandkeeper.cluster.api import KubeApi
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
    decide,
    next_failure,
)
from sandkeeper.reconcile.belonging import Belonging
from sandkeeper.reconcile.claims import Claim, Claims, is_private
from sandkeeper.reconcile.deadlines import Deadlines
from sandkeeper.reconcile.effects import Effects
from sandkeeper.reconcile.finalizers import Finalizers
from sandkeeper.reconcile.keeper import Keeper
from sandkeeper.reconcile.queue import KeyedQueue
from sandkeeper.reconcile.removals import RemovalBudget
from sandkeeper.reconcile.situations import Memory, claimant_of, is_paused
from sandkeeper.reconcile.statuses import paused_status, status_of
from sandkeeper.runtimes.protocol import Order

__all__ = ["Reconciler"]

logger = logging.getLogger(__name__)

_MOST_STEPS: Final = 20
"""More than any life needs in one go; beyond it something goes round in circles, and back-off is the answer."""
_LONG_STEP: Final = 2.0
"""Seconds after which a step that is still going on is told in the status."""
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
        belonging: Belonging,
        effects: Effects,
        keeper: Keeper,
        finalizers: Finalizers,
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
        self._belonging = belonging
        self._finalizers = finalizers
        self._leadership = leadership
        self._budget = budget
        self._queue = queue
        self._deadlines = deadlines
        self._now = now
        self._epoch = epoch
        self._memory: dict[RuntimeKey, Memory] = defaultdict(Memory)

    async def look(self, key: RuntimeKey) -> str:
        """Make one pass; return the name of the rule that settled it.

        Raises :class:`~sandkeeper.cluster.api.ApiError` (a Conflict: look again, at what is there now),
        :class:`~sandkeeper.cluster.leadership.NotLeader`, and a SandkeeperError where it goes round in circles.
        """
        seen: Observed | None = None
        fresh: str | None = None
        failed: type[Effect] | None = None
        for _ in range(_MOST_STEPS):
            claims = self._belonging.bound(key)
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
            claims = self._belonging.bound(key)  # as we wrote them in announcing
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
        """Announce a removal, or prove that nobody claims the runtime; False: somebody does.

        Raises :class:`~sandkeeper.cluster.api.Conflict` where somebody wrote in between: the removal is off.
        """
        if effect.announced:
            await self._report(key, plan, claims, observed)
        elif effect.removal is Removal.UNCLAIMED and not self._belonging.leaving(key):
            # Nobody asked for this removal: what a cache lacks is not proof enough.
            await self._keeper.refresh_namespace(key.namespace)
            if self._belonging.bound(key) or self._belonging.leaving(key):
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
            claims = await self._finalizers.put_on(claims)
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
            memory.preflight, memory.preflight_failure = PreflightCheck(config_hash=order.config_hash), None
        return result

    def _order(self, key: RuntimeKey, effect: Effect, claims: tuple[Claim, ...]) -> Order | None:
        if not isinstance(effect, (Create, Setup, Preflight)):
            return None
        for claim in claims:
            config, config_hash = claim.resolution.config, claim.resolution.config_hash
            if claim.sandbox.uid == effect.ruler and config is not None and config_hash is not None:
                return Order(key=key, config=config, config_hash=config_hash)
        return None  # the ruler has gone, or wants something else, since this was decided

    def _note_failure(
        self, key: RuntimeKey, effect: Effect, error: SandkeeperError, claims: tuple[Claim, ...]
    ) -> None:
        memory = self._memory[key]
        checked = isinstance(effect, Preflight)
        failure = next_failure(
            memory.preflight_failure if checked else memory.failure,
            reason=error.reason,
            message=error.message,
            now=self._now(),
            ran_for=None,
            jitter=_jitter(),
        )
        order = self._order(key, effect, claims)
        if checked:
            memory.preflight_failure = failure
            if order is not None:
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
            claims = await self._finalizers.put_on(claims)
        await self._report(key, plan, claims, observed)
        await self._finalizers.take_off_unsandboxed(key, claims)
        leaving = self._belonging.leaving(key)
        nothing_left = observed is None or bool(claims)  # where others have a claim, it is theirs now
        patience = await self._finalizers.let_go(leaving, nothing_left=nothing_left, now=self._now())
        for claim in self._claims.of(key):
            # A Sandbox that left this key waits for nothing else to tell it so.
            if claim.recorded == key and (elsewhere := self._belonging.key_of(claim)) != key:
                self._queue.add(elsewhere)
        moments = [moment for moment in (plan.wake_at, patience) if moment is not None]
        self._deadlines.set(key, min(moments, default=None))
        if observed is None and not self._claims.of(key):
            self._memory.pop(key, None)

    async def _report(self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen) -> None:
        """Write what is to be said, each on condition that nothing was written since the decision."""
        now = self._now()
        there = observed if isinstance(observed, Observed) else None
        for claim in claims:
            report = plan.reports.get(claim.sandbox.uid)
            if report is not None:
                status = status_of(claim, report, key=key, observed=there, now=now)
                await self._keeper.write_status(claim.sandbox, status)
            elif is_paused(claim):
                await self._keeper.write_status(claim.sandbox, paused_status(claim.sandbox, now=now))


def _jitter() -> float:
    return random.uniform(0.9, 1.1)  # noqa: S311 - spreads load; guards nothing
