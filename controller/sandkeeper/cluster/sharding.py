"""Several operators at work, each with a share of the slots.

Every operator is a member by a Lease of its own, which only it renews. Who has which slot is written in one object, the
record, which is changed by compare-and-swap only. A slot is believed to be ours from when a change of the record by
ourselves succeeded, and for as long as our own lease has been held without a break since. That makes two believers
impossible:

- Others take a slot from us only after they saw our lease unchanged for its whole duration, and by then it is no longer
  held by our own clock.
- If we come back in between, we change the record before we believe anything again; so whoever was about to take the
  slot, by the record as it was before, is refused, and sees us when it looks again.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final, Protocol

from sandkeeper.cluster.api import Conflict, KubeApi, Object
from sandkeeper.cluster.clocks import boot_time
from sandkeeper.cluster.leadership import NotLeader, OnChange, give_back, seek
from sandkeeper.cluster.leases import (
    LEASE_SECONDS,
    RETRY_SECONDS,
    Lease,
    Sighting,
    leader_name,
    lease_state,
    present_time,
    record_name,
)
from sandkeeper.cluster.resources import LEASES
from sandkeeper.cluster.slots import SHARES, Shares, moves, slot_of

__all__ = ["Hands", "Sharding", "member_of"]

logger = logging.getLogger(__name__)

_GONE: Final = "gone"
"""How a lease is seen that is not there."""
_IMPATIENT_SECONDS: Final = 0.5
"""Between two looks while slots are on their way."""


def member_of(identity: str) -> str:
    """Return what a member is called in the record, and its Lease is named by."""
    return sha256(identity.encode()).hexdigest()[:10]


class Hands(Protocol):
    """What is in hand at the moment."""

    def passing(self) -> Iterable[str]:
        """Namespaces that something is done in which is over soon."""

    def lasting(self) -> Iterable[str]:
        """Namespaces that something is done in which may take minutes."""


class Sharding:
    """One member. A slot that should be another's is given up when nothing of it is in hand any more."""

    def __init__(
        self,
        api: KubeApi,
        *,
        namespace: str,
        release: str,
        identity: str,
        labels: Mapping[str, str],
        hands: Hands,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self.name = member_of(identity)
        self._api = api
        self._namespace = namespace
        self._prefix = f"{release}-member-"
        self._record_name = record_name(release)
        self._labels = dict(labels)
        self._hands = hands
        self._clock = clock
        self._lease = Lease(
            api,
            namespace=namespace,
            name=self._prefix + self.name,
            identity=identity,
            labels=labels,
            clock=clock,
        )
        self._leader = Lease(
            api, namespace=namespace, name=leader_name(release), identity=identity, clock=clock
        )
        """Of an operator without sharding; never taken."""
        self._was_led = False
        self._term = 0
        self._count = 0
        self._terms: dict[int, int] = {}
        """The slots that are ours, and when each became so, counted by :attr:`_count`."""
        self._closing: frozenset[int] = frozenset()
        """Those among them in which nothing new is begun."""
        self._sightings: dict[str, Sighting] = {}

    # --- what is led --------------------------------------------------------------------------------------------------

    @property
    def terms(self) -> Mapping[int, int]:
        """The slots in which work may begin."""
        if not self._lease.held:
            return {}
        return {slot: term for slot, term in self._terms.items() if slot not in self._closing}

    def leads(self, namespace: str) -> bool:
        """Whether work on the namespace may begin now."""
        return slot_of(namespace) not in self._closing and self._has(namespace)

    def check(self, namespace: str) -> None:
        """Raise :class:`~sandkeeper.cluster.leadership.NotLeader` unless the namespace's slot is ours."""
        if not self._has(namespace):
            raise NotLeader(f"the slot {slot_of(namespace)} of {namespace} is not ours")

    def _has(self, namespace: str) -> bool:
        return slot_of(namespace) in self._terms and self._lease.held

    # --- getting and giving -------------------------------------------------------------------------------------------

    async def run(self, on_change: OnChange) -> None:
        """Be a member, and have the slots that are ours, until cancelled."""
        logger.info("Being the member %s", self.name)
        await seek(self, self.attempt, on_change)

    async def attempt(self) -> float:
        """Renew the lease, look at the others', take and give what is to be; return when to do so again."""
        if not await self._lease.seek():
            return RETRY_SECONDS
        if self._term != self._lease.term:
            # Others may have had it all meanwhile.
            self._term, self._terms, self._closing = self._lease.term, {}, frozenset()
        leases = await self._list()
        record = leases.pop(self._record_name, None)
        shares = Shares.of_lease(record)
        self._disbelieve(self._terms.keys() - shares.of(self.name))
        gone = self._look(leases, record, shares)
        if record is None and self._is_lost():
            return _IMPATIENT_SECONDS
        members = {name for name in self._members(leases) if name not in gone} | {self.name}
        take, give = moves(shares, member=self.name, members=members, gone=gone)
        if is_led := await self._is_led():
            take, give = frozenset(), shares.of(self.name)
        given = self._let_go(give)
        taken = take - self._terms.keys()
        if taken or given:
            await self._swap(record, shares.changed(self.name, take=taken, give=given), taken=taken)
        await self._clean(leases, gone - set(shares.holders.values()))
        expected = not is_led and self._expected(shares, members)
        return _IMPATIENT_SECONDS if expected or give - given or taken - self._terms.keys() else RETRY_SECONDS

    async def release(self, *, seconds: float) -> None:
        """Give up every slot, and be a member no longer; no longer than some seconds are spent on that."""
        await give_back(self.leave(), seconds=seconds)

    async def leave(self) -> None:
        """Do what :meth:`release` does, for as long as it takes. Raises ApiError."""
        self._disbelieve(frozenset(self._terms))
        is_out = False
        while not is_out:
            leases = await self._list()
            is_out = await self._give_all(leases.get(self._record_name))
        own = leases.get(self._lease.name)
        if own is not None:
            uid = own["metadata"]["uid"]
            await self._api.delete(LEASES, name=self._lease.name, namespace=self._namespace, uid=uid)

    async def _give_all(self, record: Object | None) -> bool:
        """Take ourselves off the record; return whether nobody finds us there any more."""
        try:
            shares = Shares.of_lease(record)
        except ValueError as error:
            # Who mends it finds no lease of ours, whatever it says then.
            logger.warning("Cannot read who has which slot; %s stays as it is: %s", self._record_name, error)
            return True
        held = shares.of(self.name)
        return not held or await self._replace(record, shares.changed(self.name, take=(), give=held))

    def _disbelieve(self, slots: Collection[int]) -> None:
        self._terms = {slot: term for slot, term in self._terms.items() if slot not in slots}
        self._closing -= frozenset(slots)

    def _let_go(self, give: frozenset[int]) -> frozenset[int]:
        """Begin nothing new in the slots that are to be given up; return those of which nothing is in hand.

        One in which something lasts goes on being worked on until that is over: its namespaces would wait as long.
        """
        lasting = {slot_of(namespace) for namespace in self._hands.lasting()}
        passing = {slot_of(namespace) for namespace in self._hands.passing()}
        self._closing = give & (self._terms.keys() - lasting)
        idle = give - lasting - passing
        idle |= give - self._terms.keys()  # it is not ours to work on in any case
        self._disbelieve(idle)
        return idle

    async def _swap(self, record: Object | None, shares: Shares, *, taken: frozenset[int]) -> None:
        """Change the record, and believe what was taken by that.

        If the lease was lost meanwhile, what is believed here is forgotten with the term that it is of.
        """
        if await self._replace(record, shares) and not await self._is_led():
            self._count += 1
            self._terms |= dict.fromkeys(taken, self._count)

    async def _is_led(self) -> bool:
        """Whether an operator without sharding leads all slots; it does not begin while we have any."""
        was, self._was_led = self._was_led, not self._terms and await self._leader.is_taken()
        if self._was_led and not was:
            logger.warning("An operator without sharding is at work; this one waits until it has ended")
        return self._was_led

    async def _replace(self, record: Object | None, shares: Shares) -> bool:
        """Write the record if it is as it was read; return whether that was so."""
        body: Object = record or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._record_name, "namespace": self._namespace, "labels": self._labels},
        }
        metadata, spec = body["metadata"], body.get("spec") or {}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), SHARES: shares.to_json()}
        # A change every time, also where the slots stay the same: what others were about to do is refused then.
        spec |= {"leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1, "renewTime": present_time()}
        body["spec"] = spec
        try:
            if record is None:
                await self._api.create(LEASES, body, namespace=self._namespace)
            else:
                await self._api.replace(LEASES, body, name=self._record_name, namespace=self._namespace)
        except Conflict:
            return False
        return True

    # --- others -------------------------------------------------------------------------------------------------------

    async def _list(self) -> dict[str, Object]:
        """Read the record and the members' leases, by name, as they are at one moment."""
        selector = ",".join(f"{name}={value}" for name, value in self._labels.items())
        return {
            lease["metadata"]["name"]: lease
            async for page, _ in self._api.pages(
                LEASES, namespace=self._namespace, params={"labelSelector": selector}
            )
            for lease in page
        }

    def _members(self, leases: Mapping[str, Object]) -> Iterable[str]:
        return (name.removeprefix(self._prefix) for name in leases if name.startswith(self._prefix))

    def _look(self, leases: Mapping[str, Object], record: Object | None, shares: Shares) -> frozenset[str]:
        """Take in how everybody is seen; return those who are gone: seen unchanged for a whole lease, or missing."""
        present = {*self._members(leases)}
        seen: dict[str, object] = {name: lease_state(leases[self._prefix + name]) for name in present}
        seen |= {name: _GONE for name in shares.holders.values() if name not in present}
        if record is not None or self._record_name in self._sightings or present - {self.name}:
            seen[self._record_name] = _GONE if record is None else "there"
        self._sightings = {
            name: self._sightings.get(name) or Sighting(self._clock) for name in seen if name != self.name
        }
        for name, sighting in self._sightings.items():
            sighting.see(seen[name], unless_after=LEASE_SECONDS if seen[name] == _GONE else math.inf)
        return frozenset(
            name
            for name, sighting in self._sightings.items()
            if name != self._record_name and sighting.seconds > LEASE_SECONDS
        )

    def _is_lost(self) -> bool:
        """Whether somebody may still believe in a record that was there."""
        sighting = self._sightings.get(self._record_name)
        return sighting is not None and sighting.seconds <= LEASE_SECONDS

    def _expected(self, shares: Shares, members: Collection[str]) -> bool:
        """Whether others are about to give us something, or are to be seen as gone soon."""
        take, _ = moves(shares, member=self.name, members=members, gone=frozenset(shares.holders.values()))
        return bool(take - self._terms.keys())

    async def _clean(self, leases: Mapping[str, Object], gone: Collection[str]) -> None:
        """Remove the leases of those who are gone, and have nothing any more."""
        for member in gone:
            lease = leases.get(self._prefix + member)
            if lease is not None:
                with contextlib.suppress(Conflict):  # it has come back
                    metadata = lease["metadata"]
                    await self._api.delete(
                        LEASES,
                        name=metadata["name"],
                        namespace=self._namespace,
                        uid=metadata["uid"],
                        resource_version=metadata["resourceVersion"],
                    )
