"""The rollouts of all policies: who is replaced next, and how far each is.

Each runtime stands in the rollout of its policy as the statuses of its Sandboxes say (:mod:`standing`), and is counted
anew only when one of them changes, so it costs the same whether a policy has ten or ten thousand. Of those that are to
be replaced the coldest gets leave to go first; a pass asks for that leave before it prepares or removes anything. What
is lost with a process, who had leave and did not begin, is found out again by the next one.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import RemovalRate
from sandkeeper.config.rollouts import RolloutLimits, rollout_limits
from sandkeeper.lifecycle import Counts, Failed, Member, Standing, Waiting, is_stopped, room
from sandkeeper.reconcile.claims import Claims, is_private
from sandkeeper.reconcile.coldest import ColdestFirst
from sandkeeper.reconcile.objects import PolicyObject
from sandkeeper.reconcile.removals import RemovalBudget
from sandkeeper.reconcile.standing import standing_of

__all__ = ["Progress", "Rollouts"]

_TOGETHER: Final = 0.05
"""Seconds in which changes are waited for that come together."""
_AT_ONCE: Final = 500
"""Runtimes that are counted in one go, which takes some 25 ms; others have their turn in between."""
_LONGEST_PAUSE: Final = 30.0
"""Seconds; a clock may be set."""
_ONE: Final = 1
"""A policy's own rate is spread evenly, so nothing is saved up."""
_WAITS_FOR_TURN: Final = Waiting(
    message="It is replaced when its turn comes: so many of a policy at once, the coldest first (rollout)."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far one rollout is."""

    counts: Counts = field(default_factory=Counts)
    replaced: int = 0
    failed: tuple[Failed, ...] = ()
    stopped: bool = False
    rolling: bool = False
    """Something is out of date, or was, and what replaces it is not ready yet."""
    started_at: datetime | None = None


@dataclass(slots=True)
class _Group:
    """The runtimes under one policy."""

    name: str
    started_at: datetime | None = None
    rolling: bool = False
    counts: Counts = field(default_factory=Counts)
    waiting: ColdestFirst[RuntimeKey] = field(default_factory=ColdestFirst)
    """Who would go, if it were their turn."""
    going: set[RuntimeKey] = field(default_factory=set)
    """Who has leave, and did not announce it yet."""
    failed: dict[RuntimeKey, Failed] = field(default_factory=dict)
    replaced: set[RuntimeKey] = field(default_factory=set)
    stopped: bool = False
    rate: tuple[int, RemovalBudget[RuntimeKey]] | None = None
    next_at: datetime | None = None
    """When the rate allows the next."""


class Rollouts:
    """Gives leave to replace. Everything is called on the event loop."""

    def __init__(
        self,
        claims: Claims,
        *,
        rate: RemovalBudget[RuntimeKey],
        enqueue: Callable[[RuntimeKey], None],
        enqueue_later: Callable[[RuntimeKey], None],
        now: Callable[[], datetime],
        epoch: int,
        forbidden: bool = False,
        leads: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._claims = claims
        claims.on_indexed, claims.on_policy = self.mark, self.mark_policy
        self._rate = rate
        self._enqueue = enqueue
        self._enqueue_later = enqueue_later
        self._now = now
        self._epoch = epoch
        self._forbidden = forbidden
        self._leads = leads
        self._groups: dict[str, _Group] = {}
        self._members: dict[RuntimeKey, tuple[str, Member]] = {}
        self._changed: dict[RuntimeKey, None] = {}
        """Keys of which something changed since they were looked at, in that order."""
        self._concerned: set[str] = set()
        """Policies whose counts changed since it was last known whether a rollout begins or ends."""
        self._wake = asyncio.Event()
        self.leading = False
        """Whether any namespace is led."""
        self.touched: set[str] = set()
        """Policies of which there may be news. Whoever tells of them takes them out."""

    # --- what changes -------------------------------------------------------------------------------------------------

    def mark(self, key: RuntimeKey) -> None:
        """Note that a claim of the key came, changed or went."""
        if not is_private(key):
            self._changed[key] = None
            self._wake.set()

    def mark_policy(self, name: str) -> None:
        """Note that a policy, by its full name, came, says something else, or went."""
        self.touched.add(name)
        self._wake.set()

    def lead(self, *, leading: bool, is_lost: Callable[[str], bool] = lambda _: True) -> None:
        """Begin, go on or end to give leave. What others did meanwhile in namespaces that are lost is in the statuses.

        Everybody counts all runtimes of a policy, and gives leave to those in namespaces that it leads.
        """
        self.leading = leading
        for group in self._groups.values():
            group.going -= {key for key in group.going if is_lost(key.namespace)}
            for key in [key for key in group.waiting if not self._leads(key.namespace)]:
                group.waiting.discard(key)
            self._take_over(group)
        for key, (name, member) in self._members.items():
            self._line_up(self._groups[name], key, member)
        self.touched |= {policy.full_name for policy in self._claims.policies} | self._groups.keys()
        self._wake.set()

    # --- what a pass asks ---------------------------------------------------------------------------------------------

    def plans(self, key: RuntimeKey) -> bool:
        """Whether the key has a runtime whose replacement is part of a rollout."""
        self._count_one(key)
        found = self._members.get(key)
        return found is not None and found[1].standing in {Standing.DRIFTED, Standing.REPLACING}

    def ask(self, key: RuntimeKey, *, removing: bool) -> Waiting | None:
        """Ask for leave to replace the key's runtime, or (not ``removing``) to find out whether that is possible.

        None: go on. What was announced already goes on, too; and what failed may try again whether it is possible.
        """
        self._count_one(key)
        policy, member = self._members[key]
        group = self._groups[policy]
        if member.standing is Standing.REPLACING or (member.failed is not None and not removing):
            return None
        if key not in group.going:
            group.waiting.put(key, member.last_use)
            if self.is_behind:
                return _WAITS_FOR_TURN  # who is the coldest is not known yet
            self._count()
            self._advance(group)
        if key in group.going:
            return None
        if member.failed is not None and self._may_try_again(group, member):
            group.waiting.discard(key)
            group.going.add(key)
            return None
        return self._why(group, key)

    def settled(self, key: RuntimeKey, *, waits: bool) -> None:
        """Note that a pass over the key came to its end; ``waits``: it asked for leave, and got none."""
        self._count_one(key)
        found = self._members.get(key)
        if found is None or waits:
            return
        group = self._groups[found[0]]
        group.waiting.discard(key)  # it does not want to go: it is in use, or held, or what not
        if key in group.going:
            self._give_back(group, key)
            self._wake.set()

    @property
    def is_behind(self) -> bool:
        """Whether so much has changed that what is known is out of date: it is being counted."""
        return len(self._changed) > _AT_ONCE

    # --- what others read ---------------------------------------------------------------------------------------------

    def progress(self, name: str) -> Progress:
        """Tell how far the rollout of a policy is, by the policy's full name."""
        group = self._groups.get(name)
        if group is None:
            return Progress()
        return Progress(
            counts=group.counts,
            replaced=len(group.replaced),
            failed=tuple(group.failed.values()),
            stopped=is_stopped(group.counts, self._limits(name)),
            rolling=group.rolling,
            started_at=group.started_at,
        )

    def by_state(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Tell of each policy that is there or used, by the last part of its name, how its runtimes stand.

        Only who leads the policy's namespace has any: they must not be counted twice.
        """
        for name in tuple(self._groups) if self.leading else ():
            if not self._leads(name.partition("/")[0]):
                continue
            found = self.progress(name)
            if found.counts.total == 0 and self._policy(name) is None:
                continue
            yield (
                name.rpartition("/")[2],
                {
                    "total": found.counts.total,
                    "current": found.counts.current,
                    "drifted": found.counts.drifted,
                    "replacing": found.counts.replacing,
                    "replaced": found.replaced,
                    "blocked": found.counts.failed,
                },
            )

    # --- going on -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Give leave as runtimes come up and time passes, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(_TOGETHER)
            self._wake.clear()
            while self.is_behind:
                self._count(_AT_ONCE)
                await asyncio.sleep(0)
            if self.leading:
                self.advance()

    def advance(self) -> None:
        """Give leave to whoever may go by now."""
        self._count()
        for group in self._groups.values():
            self._advance(group)

    def _pause(self) -> float:
        moments = [group.next_at for group in self._groups.values() if group.next_at is not None]
        if not moments:
            return _LONGEST_PAUSE
        return min(max((min(moments) - self._now()).total_seconds(), 0.0), _LONGEST_PAUSE)

    def _advance(self, group: _Group) -> None:
        limits = self._limits(group.name)
        stopped = is_stopped(group.counts, limits)
        if stopped:
            self._recall(group)
        if stopped is not group.stopped:
            group.stopped = stopped
            for key in group.waiting:
                self._enqueue_later(key)  # it says what it waits for
        group.next_at = None
        if stopped or self._forbidden:
            return
        while group.waiting and room(group.counts, limits, going=len(group.going)) > 0:
            group.next_at = self._draw(group, limits)
            if group.next_at is not None:
                return
            key = group.waiting.take()
            group.going.add(key)
            self._enqueue(key)

    def _recall(self, group: _Group) -> None:
        """Take leave back from those who did not begin."""
        for key in [key for key in group.going if self._members[key][1].failed is None]:
            self._give_back(group, key)
            group.waiting.put(key, self._members[key][1].last_use)

    def _may_try_again(self, group: _Group, member: Member) -> bool:
        """Whether one that failed, and could be made by now, may go: as if it had not failed."""
        limits = self._limits(group.name)
        others = group.counts.changed(member, -1)
        if (
            self._forbidden
            or is_stopped(others, limits)
            or room(group.counts, limits, going=len(group.going)) < 1
        ):
            return False
        return self._draw(group, limits) is None

    def _why(self, group: _Group, key: RuntimeKey) -> Waiting:
        others = [failed for known, failed in group.failed.items() if known != key]
        if not group.stopped or not others:
            return _WAITS_FOR_TURN
        message = (
            "It is not replaced as long as another replacement under the policy has failed: "
            f"{others[0].told_in(key.namespace)}."
        )
        return Waiting(message=message, reason=Reason.ROLLOUT_BLOCKED)

    # --- rates --------------------------------------------------------------------------------------------------------

    def _draw(self, group: _Group, limits: RolloutLimits) -> datetime | None:
        """Draw from the policy's own rate and from the operator's; return when there is one again."""
        now, own = self._now(), self._rate_of(group, limits)
        at = own.draw(now) if own is not None else None
        if at is not None:
            return at
        at = self._rate.draw(now)
        if at is not None and own is not None:
            own.put_back()
        return at

    def _give_back(self, group: _Group, key: RuntimeKey) -> None:
        group.going.discard(key)
        self._rate.put_back()
        if group.rate is not None:
            group.rate[1].put_back()

    @staticmethod
    def _rate_of(group: _Group, limits: RolloutLimits) -> RemovalBudget[RuntimeKey] | None:
        if limits.per_minute is None:
            group.rate = None
            return None
        if group.rate is None or group.rate[0] != limits.per_minute:
            rate = RemovalRate(per_minute=limits.per_minute, burst=_ONE)
            group.rate = limits.per_minute, RemovalBudget(rate)
        return group.rate[1]

    def _limits(self, name: str) -> RolloutLimits:
        policy = self._policy(name)
        spec = policy.spec if policy is not None else None
        return rollout_limits(spec if isinstance(spec, AgentSandboxPolicySpec) else None)

    def _policy(self, name: str) -> PolicyObject | None:
        namespace, _, own = name.partition("/")
        return self._claims.policies.get((namespace, own))

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count(self, most: int | None = None) -> None:
        """Look at what changed, or at so many of it."""
        for key in list(itertools.islice(self._changed, most)):
            self._count_one(key)
        if self._changed:
            return
        for name in self._concerned:
            self._note_beginning(self._groups[name])
        self._concerned.clear()

    def _count_one(self, key: RuntimeKey) -> None:
        """Look at the key, if something of it changed."""
        if key not in self._changed:
            return
        del self._changed[key]
        before = self._members.get(key)
        found = standing_of(self._claims.of(key), key=key, now=self._now(), epoch=self._epoch)
        if found == before:
            return
        if before is not None:
            self._take_out(key, *before, found=found)
        if found is not None:
            self._take_in(key, *found)
        names = {name for name, _ in filter(None, (before, found))}
        self.touched |= names
        self._concerned |= names

    def _take_out(
        self, key: RuntimeKey, name: str, member: Member, *, found: tuple[str, Member] | None
    ) -> None:
        group = self._groups[name]
        group.counts = group.counts.changed(member, -1)
        group.failed.pop(key, None)
        group.replaced.discard(key)
        group.waiting.discard(key)
        del self._members[key]
        if key not in group.going:
            return
        if found is not None and found[0] == name and found[1].standing is Standing.REPLACING:
            group.going.discard(key)  # it is counted by its status now
        elif found is None or found[0] != name or found[1].standing is not Standing.DRIFTED:
            self._give_back(group, key)

    def _take_in(self, key: RuntimeKey, name: str, member: Member) -> None:
        group = self._groups.get(name) or self._open(name)
        self._members[key] = name, member
        group.counts = group.counts.changed(member, 1)
        if member.failed is not None:
            group.failed[key] = member.failed
        if group.started_at is not None and member.was_replaced_since(group.started_at):
            group.replaced.add(key)
        self._line_up(group, key, member)

    def _line_up(self, group: _Group, key: RuntimeKey, member: Member) -> None:
        if member.may_go and key not in group.going and self._leads(key.namespace):
            group.waiting.put(key, member.last_use)

    # --- beginnings ---------------------------------------------------------------------------------------------------

    def _open(self, name: str) -> _Group:
        group = self._groups[name] = _Group(name)
        self._take_over(group)
        return group

    def _take_over(self, group: _Group) -> None:
        """Read from the policy's status when the rollout that goes on, or the last one, began."""
        policy = self._policy(group.name)
        told = policy.status.rollout if policy is not None else None
        if told is None or told.started_at == group.started_at:
            return
        group.started_at = told.started_at
        group.rolling = told.drifted + told.replacing > 0
        group.replaced.clear()
        for key, (name, member) in self._members.items():
            if name == group.name and told.started_at and member.was_replaced_since(told.started_at):
                group.replaced.add(key)

    def _note_beginning(self, group: _Group) -> None:
        """Note that a rollout begins: something is out of date, and nothing was before."""
        if group.counts.drifted > 0 and not group.rolling:
            group.rolling = True
            group.started_at = self._now().replace(microsecond=0)
            group.replaced.clear()
        elif group.counts.drifted + group.counts.replacing == 0:
            group.rolling = False
