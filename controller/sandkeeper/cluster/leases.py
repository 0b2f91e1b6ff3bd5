"""One Lease, got and kept by the rules of client-go's leader election: 10 s of lease, 7 s to renew in, a try every 2 s.

Clocks of two machines are never compared: another takes over when it has *seen* the lease unchanged for its whole
duration, by its own clock. The holder compares its own clock with its own deadline; the clock is the boot-time one,
which goes on while a machine sleeps.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from sandkeeper.cluster.api import Conflict, KubeApi, NotFound, Object
from sandkeeper.cluster.clocks import boot_time
from sandkeeper.cluster.resources import LEASES

__all__ = [
    "LEASE_SECONDS",
    "RENEW_SECONDS",
    "RETRY_SECONDS",
    "Lease",
    "Sighting",
    "leader_name",
    "lease_state",
    "present_time",
    "record_name",
]

LEASE_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 7.0
RETRY_SECONDS: Final = 2.0

_NEVER: Final = object()


def leader_name(release: str) -> str:
    """Return the name of the Lease of whoever leads everything."""
    return f"{release}-leader"


def record_name(release: str) -> str:
    """Return the name of the Lease that says who has which slot, where several share them."""
    return f"{release}-shards"


class Sighting:
    """Since when something was seen as it is, by our own clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: object = _NEVER
        self._since = self._looked_at = clock()

    def see(self, state: object, *, unless_after: float = math.inf) -> None:
        """Take in how it is at this moment.

        ``unless_after`` so many seconds without a look it counts as changed: for a state that comes again, as that of
        being missing.
        """
        now = self._clock()
        if state != self._seen or now - self._looked_at > unless_after:
            self._seen, self._since = state, now
        self._looked_at = now

    @property
    def seconds(self) -> float:
        """For how long it was seen so."""
        return self._clock() - self._since


def lease_state(lease: Object) -> tuple[object, ...]:
    """Return what changes with each renewal."""
    spec = lease.get("spec") or {}
    return spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions")


def present_time() -> str:
    """Return the present time as a Lease has it; nobody decides anything by it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Lease:
    """A candidate for one Lease. Methods raise :class:`~sandkeeper.cluster.api.ApiError`."""

    def __init__(
        self,
        api: KubeApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        labels: Mapping[str, str] | None = None,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self.name = name
        self.term = 0
        """Another number each time that it is held anew: in between, somebody else may have held it."""
        self._api = api
        self._namespace = namespace
        self._identity = identity
        self._labels = dict(labels or {})
        self._clock = clock
        self._deadline = float("-inf")
        self._sighting = Sighting(clock)
        self._duration = 0.0

    @property
    def held(self) -> bool:
        """Whether it is ours at this moment."""
        return self._clock() < self._deadline

    @property
    def expires_in(self) -> float:
        """In how many seconds somebody else's may be taken, if nothing more is seen of him."""
        return self._duration - self._sighting.seconds

    async def seek(self) -> bool:
        """Take or renew it, if it may be taken; return whether it is ours.

        The deadline counts from before the request: it may have been slow.
        """
        started = self._clock()
        try:
            lease = await self._api.get(LEASES, name=self.name, namespace=self._namespace)
        except NotFound:
            lease = None
        try:
            if lease is None:
                await self._api.create(LEASES, self._body(transitions=0), namespace=self._namespace)
            elif not self._may_take(lease):
                self._deadline = float("-inf")  # whatever our clock says
                return False
            else:
                await self._take(lease)
        except Conflict:
            return self.held  # somebody was quicker; the next try shows who
        self.term += not self.held
        self._deadline = started + RENEW_SECONDS
        return True

    async def is_taken(self) -> bool:
        """Whether somebody else has it, or may still believe so."""
        try:
            lease = await self._api.get(LEASES, name=self.name, namespace=self._namespace)
        except NotFound:
            return False
        return not self._may_take(lease)

    async def give_back(self) -> None:
        """Leave it to whoever comes, who need not wait for it to expire."""
        if not self.term:
            return  # it was never ours; where it was, it may still be in our name after we ceased to believe so
        self._deadline = float("-inf")
        with contextlib.suppress(NotFound):
            while not await self._given_back():
                pass

    async def _given_back(self) -> bool:
        """Try once; False: it changed meanwhile, which a renewal may do that was on its way when we stopped."""
        lease = await self._api.get(LEASES, name=self.name, namespace=self._namespace)
        if lease["spec"].get("holderIdentity") != self._identity:
            return True
        lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._api.replace(LEASES, lease, name=self.name, namespace=self._namespace)
        except Conflict:
            return False
        return True

    def _may_take(self, lease: Object) -> bool:
        spec = lease.get("spec") or {}
        self._sighting.see(lease_state(lease))
        self._duration = max(LEASE_SECONDS, float(spec.get("leaseDurationSeconds") or 0))
        return spec.get("holderIdentity") in {self._identity, "", None} or self.expires_in < 0

    async def _take(self, lease: Object) -> None:
        spec = lease.get("spec") or {}
        ours = spec.get("holderIdentity") == self._identity
        fresh = self._body(transitions=int(spec.get("leaseTransitions") or 0) + (not ours))["spec"]
        if ours:
            fresh["acquireTime"] = spec.get("acquireTime")
        lease["spec"] = fresh
        await self._api.replace(LEASES, lease, name=self.name, namespace=self._namespace)

    def _body(self, *, transitions: int) -> Object:
        now = present_time()
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self._namespace, "labels": self._labels},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(LEASE_SECONDS),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }
