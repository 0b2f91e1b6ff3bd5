"""One pass over one key: observe, decide, act, report.

A pass goes on until nothing is left to do at once. Between any two of its steps the process may die: every step is
decided anew from what the world and the statuses say, so the next pass, of whichever process, goes on from there.
"""

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient
from sandkeeper.api.names import Annotation
from sandkeeper.api.policy import Backend
from sandkeeper.cluster.api import ApiError, KubeApi
from sandkeeper.cluster.leadership import Lead, NotLeader
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.lifecycle import (
    Create,
    DeleteClaimants,
    Effect,
    Failure,
    Observed,
    Plan,
    Preflight,
    PreflightCheck,
    Readiness,
    Removal,
    Remove,
    RuntimeState,
    Setup,
    Situation,
    Start,
    Unreachable,
    Waiting,
    decide,
)
from sandkeeper.reconcile.belonging import Belonging
from sandkeeper.reconcile.claims import Claim, Claims, is_private
from sandkeeper.reconcile.counting import Counting
from sandkeeper.reconcile.deadlines import Deadlines, next_look
from sandkeeper.reconcile.effects import Effects
from sandkeeper.reconcile.finalizers import Finalizers
from sandkeeper.reconcile.keeper import Keeper
from sandkeeper.reconcile.memory import Memory
from sandkeeper.reconcile.queue import KeyedQueue
from sandkeeper.reconcile.removals import RemovalBudget
from sandkeeper.reconcile.rollouts import Rollouts
from sandkeeper.reconcile.setups import Setups
from sandkeeper.reconcile.situations import claimant_of, is_paused
from sandkeeper.reconcile.statuses import paused_status, status_of
from sandkeeper.runtimes.protocol import Order, Owner
from sandkeeper.telemetry.logs import about

__all__ = ["Reconciler"]

logger = logging.getLogger(__name__)

_MOST_STEPS: Final = 20
"""More than any life needs in one go; beyond it something goes round in circles, and back-off is the answer."""
_LONG_STEP: Final = 2.0
"""Seconds after which a step that is still going on is told in the status."""
_STEP_IN_A_CROWD: Final = 0.05
"""Seconds more for each that waits too: of a thousand at once none is late yet after two, and to say so of every one
would make them all later."""
_SHORT_WAIT: Final = timedelta(seconds=60)
"""For a turn; whoever is pruned at the end of it is not told before."""
_NAMESPACE_PAUSE: Final = timedelta(seconds=2)
"""Before a namespace that is not known yet, or a policy that has just arrived, is looked at again."""
_MENDING_PAUSE: Final = timedelta(seconds=30)
"""Before what belongs to a runtime is looked at again, where it could not be put in order; or what was deleted."""

Seen = Observed | Unreachable | None


@dataclass
class _Step:
    """What one pass has found out so far."""

    seen: Observed | None = None
    """The runtime as the last effect left it, where that is known without looking."""
    passed: PreflightCheck | None = None
    """A preflight is believed in the pass that made it, and no longer."""
    waits_for: Removal | None = None
    """The removal that is to be done, and has to wait for its turn."""
    turn: datetime | None = None
    """When that is."""
    rollout: Waiting | None = None
    """What the replacement that is to be done has to wait for."""
    failed: type[Effect] | None = None


class Reconciler:
    """Holds what passes need, and makes them."""

    def __init__(
        self,
        *,
        api: KubeApi,
        claims: Claims,
        belonging: Belonging,
        effects: Effects,
        counting: Counting,
        keeper: Keeper,
        finalizers: Finalizers,
        lead: Lead,
        budgets: Mapping[Removal, RemovalBudget[RuntimeKey]],
        rollouts: Rollouts,
        removals_forbidden: bool,
        queue: KeyedQueue[RuntimeKey],
        deadlines: Deadlines[RuntimeKey],
        now: Callable[[], datetime],
        epoch: int,
    ) -> None:
        self._api = api
        self._claims = claims
        self._effects = effects
        self._counting = counting
        self._keeper = keeper
        self._belonging = belonging
        self._finalizers = finalizers
        self._lead = lead
        self._budgets = budgets
        self._rollouts = rollouts
        self._removals_forbidden = removals_forbidden
        self._queue = queue
        self._deadlines = deadlines
        self._now = now
        self._epoch = epoch
        self._memory: dict[RuntimeKey, Memory] = defaultdict(Memory)
        self._passing: dict[RuntimeKey, float] = {}
        """Since when (monotonic) nothing but what passes was to be said of a key."""
        self.setups = Setups()

    async def look(self, key: RuntimeKey) -> str:
        """Make one pass; return the name of the rule that settled it.

        Raises :class:`~sandkeeper.cluster.api.ApiError` (a Conflict: look again, at what is there now),
        :class:`~sandkeeper.cluster.leadership.NotLeader`, and a SandkeeperError where it goes round in circles.
        """
        step = _Step()
        for _ in range(_MOST_STEPS):
            claims = self._belonging.bound(key)
            if claims:
                about(sandbox=claims[0].sandbox.name)
            observed = step.seen or await self._observe(key, claims)
            plan = self._decide(key, claims, observed, step)
            effect = plan.effect
            if effect is None or (isinstance(effect, Setup) and self.setups.is_running(key, effect.id)):
                await self._settle(key, plan, claims, observed, step)
                return plan.rule
            rule = await self._prevented(key, plan, claims, observed, step)
            if rule is not None:
                return rule
            if not self._must_wait(key, effect, step):
                await self._try(key, plan, claims, observed, step)
        raise Transient(Reason.PENDING, f"{key} did not come to rest in {_MOST_STEPS} steps")

    def forget_fresh(self, is_lost: Callable[[str], bool]) -> None:
        """Forget which runtimes of namespaces were never set up: another operator has led them since, or may have."""
        for key, memory in self._memory.items():
            if is_lost(key.namespace):
                memory.fresh = None

    # --- observe ------------------------------------------------------------------------------------------------------

    async def _observe(self, key: RuntimeKey, claims: tuple[Claim, ...]) -> Observed | Unreachable | None:
        if is_private(key):
            return None
        return await self._effects.observe(key, claims or self._claims.of(key))

    # --- decide -------------------------------------------------------------------------------------------------------

    def _decide(
        self,
        key: RuntimeKey,
        claims: tuple[Claim, ...],
        observed: Seen,
        step: "_Step",
    ) -> Plan:
        memory = self._memory[key]
        now = self._now()
        memory.freshen({claim.resolution.config_hash for claim in claims}, now)
        if isinstance(observed, Observed):
            memory.see(observed)
        return decide(
            Situation(
                claimants=tuple(claimant_of(claim, key) for claim in claims),
                observed=observed,
                now=now,
                clock_trusted=self._api.clock.is_trusted,
                removals_from=step.turn,
                rollout=step.rollout,
                removals_forbidden=self._removals_forbidden,
                was_deleted=bool(self._belonging.leaving(key)),
                setup_done=memory.setup_done,
                fresh=memory.fresh,
                failure=memory.failure,
                preflight=step.passed or memory.preflight,
                epoch=self._epoch,
            )
        )

    async def _prevented(
        self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen, step: "_Step"
    ) -> str | None:
        """Find what keeps the pass from its next step, and end the pass with that; None: nothing does."""
        effect, failure = plan.effect, self._memory[key].failure
        if step.failed is type(effect) and failure is not None:
            await self._settle(key, _failing(plan, failure, self._now()), claims, observed, step)
            return "failing"
        if isinstance(effect, Create) and not await self._may_create(key, claims):
            self._deadlines.set(key, self._now() + _NAMESPACE_PAUSE)
            return "held-up"
        if isinstance(effect, DeleteClaimants):
            await self._delete(claims, effect)
            self._deadlines.set(key, self._now() + _MENDING_PAUSE)  # should the news of it get lost
            return plan.rule
        return None

    def _must_wait(self, key: RuntimeKey, effect: Effect, step: "_Step") -> bool:
        """Whether decide has to be told first that the step is not for now."""
        if self._is_of_rollout(key, effect):
            step.rollout = self._rollouts.ask(key, removing=isinstance(effect, Remove))
            return step.rollout is not None
        if isinstance(effect, Remove) and effect.limited and step.turn is None:
            # One that was announced before goes on: decide then asks for it whatever its turn.
            step.turn = self._budgets[effect.removal].take(key, self._now())
            step.waits_for = effect.removal if step.turn is not None else None
            return step.turn is not None
        return isinstance(effect, Create) and self._memory[key].is_backing_off(self._now())

    def _is_of_rollout(self, key: RuntimeKey, effect: Effect) -> bool:
        """Whether it is part of a replacement that nobody asked for."""
        if isinstance(effect, Remove) and effect.removal is not Removal.REPLACE:
            return False
        if not isinstance(effect, (Preflight, Remove)) or effect.by_request:
            return False
        return self._rollouts.plans(key)

    async def _try(
        self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen, step: "_Step"
    ) -> None:
        """Carry the next step out. It was decided on these claims, and an announcement is conditional on them."""
        effect = plan.effect
        assert effect is not None  # noqa: S101 - for the type checker
        if isinstance(effect, Remove) and not await self._may_remove(key, effect, plan, claims, observed):
            return
        self._count(key, plan, claims, observed)
        recorded = next((c.sandbox.status.runtime for c in claims if c.sandbox.status.runtime), None)
        there = observed if isinstance(observed, Observed) else None
        if isinstance(effect, Remove) and not effect.announced and _has_died(there):
            # Why it died is told now: once it is removed, nothing is left to tell it by.
            await self._tell(key, plan, claims, observed)
        self._memory[key].mourn(effect, observed=there, recorded=recorded, now=self._now())
        if isinstance(effect, Create) and self._memory[key].is_backing_off(self._now()):
            return  # the death that was counted just now is not the first
        claims = self._belonging.bound(key)  # as we wrote them in announcing
        try:
            step.seen = await self._act(key, effect, plan, claims, observed)
            if isinstance(effect, (Setup, Preflight)) and isinstance(observed, Observed):
                step.seen = observed
            if isinstance(effect, Preflight):
                step.passed = self._passed(key, effect, claims)
        except SandkeeperError as error:
            step.seen, step.failed = self._after(effect, error, observed), type(effect)
            self._note_failure(key, effect, error, claims)

    async def _may_create(self, key: RuntimeKey, claims: tuple[Claim, ...]) -> bool:
        """Whether something may be made for the namespace, under policies that are certainly the ones that apply."""
        if not self._claims.accepts(key.namespace):
            return False  # it is on its way out, or not known yet
        own = f"{key.namespace}/{key.policy}"
        if any(claim.sandbox.status.policy is None and claim.resolution.policy != own for claim in claims):
            # A policy that was written just before its first Sandbox may reach us just after it.
            return not await self._keeper.find_policy(key.namespace, key.policy)
        return True

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
        order = self._order(key, effect, claims, sharers=plan.sharers)
        if isinstance(effect, Create) and order is not None and order.config.backend is Backend.DOCKER:
            claims = await self._finalizers.put_on(claims)
        self._lead.check(key.namespace)
        there = observed if isinstance(observed, Observed) else None
        doing = asyncio.ensure_future(self._effects.carry_out(effect, key=key, order=order, observed=there))
        if isinstance(effect, Setup):
            self._set_up_in_background(key, effect, claims, doing)
        try:
            done, _ = await asyncio.wait({doing}, timeout=self._patience)
            if isinstance(effect, Setup):
                return there  # whoever looks at the key next sees whether it goes on
            if not done:
                await self._tell(key, plan, claims, observed)
            result = await doing
        finally:
            if not isinstance(effect, Setup):
                doing.cancel()
        made = result if isinstance(effect, Create) else there
        if isinstance(effect, (Create, Start)) and made is not None:
            self._memory[key].made = made.id
            self._memory[key].fresh = None if self._effects.may_have_begun(made) else made.id
        self._memory[key].succeed(effect)
        self._counting.did(key, effect, claims=claims, observed=there, memory=self._memory[key])
        return result

    async def _tell(self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen) -> None:
        """Say in the status that a step takes its time. A courtesy: the step goes on where nobody can be told."""
        if isinstance(plan.effect, Preflight):
            return
        try:
            await self._report(key, plan, claims, observed)
        except (ApiError, NotLeader) as error:
            logger.debug("Cannot say that %s takes its time: %s", key, error)

    def _set_up_in_background(
        self,
        key: RuntimeKey,
        effect: Setup,
        claims: tuple[Claim, ...],
        doing: "asyncio.Future[Observed | None]",
    ) -> None:
        def done(error: BaseException | None) -> None:
            memory = self._memory[key]
            if memory.made not in {None, effect.id}:
                return  # its runtime has gone meanwhile, and another is there
            memory.fresh = None
            if isinstance(error, SandkeeperError):
                self._note_failure(key, effect, error, claims)
            elif error is None:
                memory.setup_done = effect.id
            self._queue.add(key)

        self.setups.start(key, effect.id, doing, on_done=done)

    def _passed(self, key: RuntimeKey, effect: Preflight, claims: tuple[Claim, ...]) -> PreflightCheck | None:
        """Believe a preflight for this pass and no longer: an image that is there today may be gone tomorrow."""
        order = self._order(key, effect, claims)
        return PreflightCheck(config_hash=order.config_hash) if order else None

    @staticmethod
    def _after(effect: Effect, error: SandkeeperError, observed: Seen) -> Observed | None:
        """Take a runtime that cannot be started again, whatever is tried, for dead: a new one may do better."""
        if isinstance(effect, Start) and isinstance(error, Permanent) and isinstance(observed, Observed):
            return replace(observed, state=RuntimeState.FAILED, ended=error.reason, message=error.message)
        return None

    def _order(
        self, key: RuntimeKey, effect: Effect, claims: tuple[Claim, ...], *, sharers: Sequence[str] = ()
    ) -> Order | None:
        if not isinstance(effect, (Create, Setup, Preflight)):
            return None
        for claim in claims:
            config, config_hash = claim.resolution.config, claim.resolution.config_hash
            if claim.sandbox.uid == effect.ruler and config is not None and config_hash is not None:
                return Order(
                    key=key,
                    config=config,
                    config_hash=config_hash,
                    owners=_owners(claims, sharers),
                    wipe=isinstance(effect, Create) and effect.wipe,
                    wiped_for=effect.wiped_for if isinstance(effect, Create) else (),
                )
        return None  # the ruler has gone, or wants something else, since this was decided

    def _note_failure(
        self, key: RuntimeKey, effect: Effect, error: SandkeeperError, claims: tuple[Claim, ...]
    ) -> None:
        order = self._order(key, effect, claims)
        config_hash = order.config_hash if order else None
        self._memory[key].fail(effect, error, config_hash=config_hash, now=self._now())

    async def _delete(self, claims: tuple[Claim, ...], effect: DeleteClaimants) -> None:
        for claim in claims:
            if claim.sandbox.uid in effect.uids:
                await self._keeper.delete(claim.sandbox)

    # --- report -------------------------------------------------------------------------------------------------------

    async def _settle(
        self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen, step: "_Step"
    ) -> None:
        there = observed if isinstance(observed, Observed) else None
        if there is not None and there.backend == Backend.DOCKER.value:
            claims = await self._finalizers.put_on(claims)
        if plan.sharers and not isinstance(observed, Unreachable):
            plan = await self._uphold(key, plan, claims, there)
        self._count(key, plan, claims, observed)
        lasting = self._lasts(key, plan, turn=step.turn)
        if lasting is None:
            await self._report(key, plan, claims, observed)
        needless = self._effects.needs_no_finalizer(key, there)
        await self._finalizers.take_off_needless(key, claims, always=needless)
        leaving = self._belonging.leaving(key)
        nothing_left = observed is None or bool(claims)  # where others have a claim, it is theirs now
        patience = await self._finalizers.let_go(
            leaving, nothing_left=nothing_left, now=self._now(), clock_trusted=self._api.clock.is_trusted
        )
        for claim in self._claims.of(key):
            # A Sandbox that left this key waits for nothing else to tell it so.
            if claim.recorded == key and (elsewhere := self._belonging.key_of(claim)) != key:
                self._queue.add(elsewhere)
        self._rollouts.settled(key, waits=step.rollout is not None)
        for removal, budget in self._budgets.items():
            if removal is not step.waits_for:
                budget.give_up(key)
        if observed is None and not self._claims.of(key):
            self._deadlines.set(key, None)
            self._memory.pop(key, None)
            self._passing.pop(key, None)
            return
        moments, share = (plan.wake_at, patience, lasting), random.random()  # noqa: S311 - spreads load
        self._deadlines.set(key, next_look(moments, now=self._now(), share=share))

    def _lasts(self, key: RuntimeKey, plan: Plan, *, turn: datetime | None) -> datetime | None:
        """Tell from when on it is worth a write that a step takes its time; None: whatever is to be said is said."""
        if not plan.passing or turn is not None:
            self._passing.pop(key, None)
        if not plan.passing:
            return None
        if turn is not None:
            return turn if turn <= self._now() + _SHORT_WAIT else None
        now = time.monotonic()
        since = self._passing.setdefault(key, now)
        left = since + self._patience - now
        return self._now() + timedelta(seconds=left) if left > 0 else None

    @property
    def _patience(self) -> float:
        """How many seconds a step may take before that is worth a write."""
        crowd = len(self._passing) + len(self._queue) + self._queue.working
        return _LONG_STEP + _STEP_IN_A_CROWD * crowd

    async def _uphold(
        self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Observed | None
    ) -> Plan:
        """Keep in order what belongs to the runtime. Where that fails, what runs is not what was promised: say so."""
        ruling = next((c.resolution for c in claims if c.sandbox.uid == plan.sharers[0]), None)
        wanted = ruling.config if ruling is not None and ruling.key == key else None
        if observed is not None and (ruling is None or ruling.config_hash != observed.config_hash):
            wanted = None  # it was made from something else
        owners = _owners(claims, plan.sharers)
        use = " ".join(str(claim.sandbox.annotations.get(Annotation.LAST_USED)) for claim in claims)
        try:
            self._memory[key].notices = await self._effects.uphold(
                key, observed=observed, owners=owners, config=wanted, use=use
            )
        except SandkeeperError as error:
            logger.warning("Cannot keep what belongs to %s in order: %s", key, error)
            failure = Failure(
                reason=error.reason, message=error.message, count=1, retry_at=self._now() + _MENDING_PAUSE
            )
            return _failing(plan, failure, self._now())
        return plan

    def _count(self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen) -> None:
        there = observed if isinstance(observed, Observed) else None
        memory, asked_at = self._memory[key], self._queue.asked_at(key)
        self._counting.plan(key, plan, claims=claims, observed=there, memory=memory, asked_at=asked_at)

    async def _report(self, key: RuntimeKey, plan: Plan, claims: tuple[Claim, ...], observed: Seen) -> None:
        """Write what is to be said, each on condition that nothing was written since the decision."""
        now, memory = self._now(), self._memory[key]
        there = observed if isinstance(observed, Observed) else None
        arrival = self._counting.arrival(plan, claims=claims, observed=there, memory=memory)
        for claim in claims:
            report = plan.reports.get(claim.sandbox.uid)
            if report is not None:
                notices = memory.notices
                status = status_of(claim, report, key=key, observed=there, notices=notices, now=now)
                written = await self._keeper.write_status(claim.sandbox, status)
                if written and arrival is not None and status.runtime is not None:
                    self._counting.arrived(key, arrival, observed=there, memory=memory)
                    arrival = None
                if report.readiness.ready:
                    self._counting.ready(there, memory)
            elif is_paused(claim):
                await self._keeper.write_status(claim.sandbox, paused_status(claim.sandbox, now=now))


def _has_died(observed: Observed | None) -> bool:
    return observed is not None and observed.state is RuntimeState.FAILED


def _owners(claims: tuple[Claim, ...], sharers: Sequence[str]) -> tuple[Owner, ...]:
    """Name those who share a runtime, in the order in which the plan has them."""
    names = {claim.sandbox.uid: claim.sandbox.name for claim in claims}
    return tuple(Owner(name=names[uid], uid=uid) for uid in sharers if uid in names)


def _failing(plan: Plan, failure: Failure, now: datetime) -> Plan:
    """Say of a plan whose step failed why, and when it is tried again."""
    readiness = Readiness(ready=False, reason=failure.reason, message=failure.message)
    reports = {
        uid: replace(report, phase=Phase.FAILED, readiness=readiness) for uid, report in plan.reports.items()
    }
    retry_at = max(failure.retry_at, now + timedelta(seconds=1))
    return replace(plan, effect=None, reports=reports, wake_at=retry_at)
