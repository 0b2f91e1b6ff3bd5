"""Who acts: the holder of a Lease, and of nothing else.

The rules are those of client-go's leader election, with 10 s of lease, 7 s to renew in, and a try every 2 s. Clocks
of two machines are never compared: a standby takes over when it has *seen* the record unchanged for the whole lease,
by its own clock. The holder compares its own clock with its own deadline before every effect
(:meth:`Leadership.check`); the clock is the boot-time one, which goes on while a machine sleeps.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from sandkeeper.cluster.api import ApiError, Conflict, KubeApi, NotFound, Object
from sandkeeper.cluster.clocks import boot_time
from sandkeeper.cluster.resources import LEASES

__all__ = ["AlwaysLeader", "Leadership", "NotLeader"]

logger = logging.getLogger(__name__)

_LEASE_SECONDS: Final = 10.0
_RENEW_SECONDS: Final = 7.0
_RETRY_SECONDS: Final = 2.0


class NotLeader(Exception):  # noqa: N818 - it says a fact; nobody did anything wrong
    """The lease is not, or no longer, ours: no effect may follow."""


class AlwaysLeader:
    """Stands in for a lease where there is one process by design: ``--no-leader-election``, for development."""

    leading = True

    def check(self) -> None:
        """Allow everything."""

    async def run(self, on_change: Callable[[bool], None]) -> None:
        """Lead until cancelled."""
        on_change(True)  # noqa: FBT003 - the one thing it tells
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Nothing to give back."""


class Leadership:
    """One candidate for one Lease."""

    def __init__(
        self,
        api: KubeApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._deadline = float("-inf")
        self._lapsed = False
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = float("-inf")

    @property
    def leading(self) -> bool:
        """Whether an effect may begin now."""
        return self._clock() < self._deadline

    def check(self) -> None:
        """Raise :class:`NotLeader` unless an effect may begin now."""
        if not self.leading:
            raise NotLeader(f"the lease {self._namespace}/{self._name} is not held")

    async def run(self, on_change: Callable[[bool], None]) -> None:
        """Try to get the lease and keep it, until cancelled; tell of each change."""
        was = False
        while True:
            started, self._lapsed = self._clock(), False
            try:
                async with asyncio.timeout(_RENEW_SECONDS - _RETRY_SECONDS):
                    held = await self._try(started)
            except (ApiError, TimeoutError) as error:
                logger.warning("Cannot renew the lease: %s", str(error) or "time-out")
                held = self.leading
            except Exception:
                logger.exception("Cannot make sense of the lease")
                held = self.leading
            if held and was and self._lapsed:
                on_change(False)  # noqa: FBT003 - the one thing it tells
                was = False
            if held != was:
                was = held
                logger.info("Leading" if held else "Not leading", extra={"identity": self._identity})
                on_change(held)
            await asyncio.sleep(_RETRY_SECONDS)

    async def release(self) -> None:
        """Give the lease back at once, so that a standby need not wait for it to expire."""
        if not self.leading:
            return
        self._deadline = float("-inf")
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(_RETRY_SECONDS):
                lease = await self._api.get(LEASES, name=self._name, namespace=self._namespace)
                if lease["spec"].get("holderIdentity") == self._identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._api.replace(LEASES, lease, name=self._name, namespace=self._namespace)

    async def _try(self, started: float) -> bool:
        """Take or renew the lease. The deadline counts from before the request: it may have been slow."""
        try:
            lease = await self._api.get(LEASES, name=self._name, namespace=self._namespace)
        except NotFound:
            lease = None
        try:
            if lease is None:
                await self._api.create(LEASES, self._body(transitions=0), namespace=self._namespace)
            elif not self._may_take(lease.get("spec") or {}):
                return False
            else:
                await self._take(lease)
        except Conflict:
            return self.leading  # somebody was quicker; the next try shows who
        self._lapsed = not self.leading  # meanwhile keys may have been turned away
        self._deadline = started + _RENEW_SECONDS
        return True

    def _may_take(self, spec: Object) -> bool:
        holder = spec.get("holderIdentity")
        seen = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        if holder in {self._identity, "", None}:
            return True
        duration = max(_LEASE_SECONDS, float(spec.get("leaseDurationSeconds") or 0))
        return self._clock() - self._seen_at > duration

    async def _take(self, lease: Object) -> None:
        spec = lease.get("spec") or {}
        ours = spec.get("holderIdentity") == self._identity
        fresh = self._body(transitions=int(spec.get("leaseTransitions") or 0) + (not ours))["spec"]
        if ours:
            fresh["acquireTime"] = spec.get("acquireTime")
        lease["spec"] = fresh
        await self._api.replace(LEASES, lease, name=self._name, namespace=self._namespace)

    def _body(self, *, transitions: int) -> Object:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(_LEASE_SECONDS),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }
