"""Who acts, and in which namespaces: :class:`Lead`, in three kinds.

Everything is led by one process without further ado (:class:`AlwaysLeader`), or by the holder of a Lease
(:class:`Leadership`), or it is shared among several (:class:`~sandkeeper.cluster.sharding.Sharding`). Whoever works
need not know which: before it begins it asks whether it leads the namespace, and before each effect again
(:meth:`Lead.check`), for by then its time may be over.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from sandkeeper.cluster.api import ApiError, KubeApi, NotFound
from sandkeeper.cluster.clocks import boot_time
from sandkeeper.cluster.leases import RENEW_SECONDS, RETRY_SECONDS, Lease, leader_name, record_name
from sandkeeper.cluster.resources import LEASES
from sandkeeper.cluster.slots import EVERY_SLOT, Shares

__all__ = ["AlwaysLeader", "Lead", "Leadership", "NotLeader", "OnChange", "give_back", "seek"]

logger = logging.getLogger(__name__)

_SOON: Final = 0.05
"""Seconds, so that a lease that expires is looked at right after that and not right before."""

OnChange = Callable[[frozenset[int], frozenset[int]], None]
"""Told which slots are no longer led, and then which are. One that was lost and is led again is in both."""


class NotLeader(Exception):  # noqa: N818 - it says a fact; nobody did anything wrong
    """The namespace is not, or no longer, ours to work on: no effect may follow."""


class Lead(Protocol):
    """What a process leads. All of it is asked by our own clock, without a request."""

    @property
    def terms(self) -> Mapping[int, int]:
        """The slots that are led at this moment; the number is another one each time that a slot is led anew."""

    def leads(self, namespace: str) -> bool:
        """Whether work on the namespace may begin now."""

    def check(self, namespace: str) -> None:
        """Raise :class:`NotLeader` unless an effect on the namespace, of work that has begun, may take place now."""

    async def run(self, on_change: OnChange) -> None:
        """Try to lead, and to go on leading, until cancelled; tell of each change."""

    async def release(self, *, seconds: float) -> None:
        """Give everything back, so that others need not wait for it to expire; no longer than some seconds."""


class AlwaysLeader:
    """Stands in for a lease where there is one process by design: ``--no-leader-election``, for development."""

    def __init__(self) -> None:
        self.terms: Mapping[int, int] = {}

    def leads(self, namespace: str) -> bool:
        """Whether it has begun."""
        del namespace
        return bool(self.terms)

    def check(self, namespace: str) -> None:
        """Allow everything."""

    async def run(self, on_change: OnChange) -> None:
        """Lead until cancelled."""
        self.terms = dict.fromkeys(EVERY_SLOT, 1)
        on_change(frozenset(), EVERY_SLOT)
        await asyncio.Event().wait()

    async def release(self, *, seconds: float) -> None:
        """Nothing to give back."""


class Leadership:
    """One candidate for one Lease, with which all slots come and go.

    While several share the slots, because the installation is just being changed over, nobody leads them all.
    """

    def __init__(
        self,
        api: KubeApi,
        *,
        namespace: str,
        release: str,
        identity: str,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._record_name = record_name(release)
        self._lease = Lease(
            api, namespace=namespace, name=leader_name(release), identity=identity, clock=clock
        )
        self._term = 0
        """The one of which it is known that nobody shares the slots."""
        self._were_shared = False

    @property
    def terms(self) -> Mapping[int, int]:
        """All slots, or none."""
        return dict.fromkeys(EVERY_SLOT, self._term) if self._leads else {}

    def leads(self, namespace: str) -> bool:
        """Whether the lease is held."""
        del namespace
        return self._leads

    def check(self, namespace: str) -> None:
        """Raise :class:`NotLeader` unless the lease is held."""
        if not self._leads:
            raise NotLeader(f"the lease {self._lease.name} is not held, and {namespace} is not ours")

    @property
    def _leads(self) -> bool:
        return self._lease.held and self._term == self._lease.term

    async def run(self, on_change: OnChange) -> None:
        """Try to get the lease and keep it, until cancelled; tell of each change."""
        await seek(self, self.attempt, on_change)

    async def attempt(self) -> float:
        """Try once; return after how many seconds to try again."""
        if self._were_shared and await self._are_shared():
            return RETRY_SECONDS
        if not await self._lease.seek():
            return min(RETRY_SECONDS, max(0.0, self._lease.expires_in) + _SOON)
        if self._term != self._lease.term:
            # Whoever shares looks for a leader after taking a slot, and we for them after taking the lease: so one of
            # two who come at the same time sees the other.
            if await self._are_shared():
                await self._lease.give_back()
                return RETRY_SECONDS
            self._term = self._lease.term
        return RETRY_SECONDS

    async def _are_shared(self) -> bool:
        try:
            record = await self._api.get(LEASES, name=self._record_name, namespace=self._namespace)
        except NotFound:
            record = None
        were, self._were_shared = self._were_shared, bool(Shares.of_lease(record).holders)
        if self._were_shared and not were:
            logger.warning(
                "Operators with sharding are at work; this one waits until they have ended. If they all crashed, "
                "delete the Lease %s/%s",
                self._namespace,
                self._record_name,
            )
        return self._were_shared

    async def release(self, *, seconds: float) -> None:
        """Give the lease back, so that a standby need not wait for it to expire; no longer than some seconds."""
        await give_back(self._lease.give_back(), seconds=seconds)


async def give_back(giving: Awaitable[None], *, seconds: float) -> None:
    """Wait until what is led is given back, for so long; say so where it is not: then it expires by itself."""
    try:
        async with asyncio.timeout(seconds):
            await giving
    except (ApiError, TimeoutError) as error:
        why = str(error) or f"no answer within {seconds:.1f} s"
        logger.warning("What is led could not be given back, others wait until it expires: %s", why)


async def seek(lead: Lead, attempt: Callable[[], Awaitable[float]], on_change: OnChange) -> None:
    """Try again and again, until cancelled, and tell what came of it."""
    told: Mapping[int, int] = {}
    while True:
        pause = RETRY_SECONDS
        try:
            async with asyncio.timeout(RENEW_SECONDS - RETRY_SECONDS):
                pause = await attempt()
        except (ApiError, TimeoutError) as error:
            logger.warning("Cannot renew the lease: %s", str(error) or "time-out")
        except Exception:
            logger.exception("Cannot make sense of the lease")
        terms = dict(lead.terms)
        if terms != told:
            lost = frozenset(slot for slot, term in told.items() if terms.get(slot) != term)
            gained = frozenset(slot for slot, term in terms.items() if told.get(slot) != term)
            told = terms
            logger.info("Leading %d of %d slots", len(terms), len(EVERY_SLOT))
            on_change(lost, gained)
        await asyncio.sleep(pause * random.uniform(0.8, 1))  # noqa: S311 - keeps several from meeting every time
