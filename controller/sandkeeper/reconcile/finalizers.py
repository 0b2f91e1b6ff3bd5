"""When a Sandbox carries our finalizer: from before a container may exist until it is proven gone."""

import logging
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.config.keys import RuntimeKey
from sandkeeper.reconcile.claims import Claim, Claims, is_private
from sandkeeper.reconcile.keeper import Keeper
from sandkeeper.reconcile.situations import is_paused
from sandkeeper.reconcile.statuses import leaving_status
from sandkeeper.telemetry.metrics import Metrics

__all__ = ["Finalizers"]

logger = logging.getLogger(__name__)

_ENGINE_GRACE: Final = timedelta(minutes=5)
"""How long a deletion waits for an engine that does not answer; then the sweep finishes it later."""


class Finalizers:
    """Puts them on and takes them off."""

    def __init__(self, *, keeper: Keeper, claims: Claims, metrics: Metrics) -> None:
        self._keeper = keeper
        self._claims = claims
        self._metrics = metrics

    async def put_on(self, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
        """Put it on each claim that lacks it, and return the claims as they are then."""
        result = []
        for claim in claims:
            if claim.sandbox.has_finalizer or is_paused(claim):
                result.append(claim)
            else:
                result.append(self._claims.resolve(await self._keeper.add_finalizer(claim.sandbox)))
        return tuple(result)

    async def take_off_needless(self, key: RuntimeKey, claims: tuple[Claim, ...], *, always: bool) -> None:
        """Take it off what is not sandboxed, or where nothing is left in any case that it would guard."""
        if not (is_private(key) or always):
            return
        for claim in claims:
            if claim.sandbox.has_finalizer and claim.resolution.problem is None:
                await self._keeper.drop_finalizer(claim.sandbox)

    async def let_go(
        self, leaving: tuple[Claim, ...], *, nothing_left: bool, now: datetime, clock_trusted: bool
    ) -> datetime | None:
        """Let go what is being deleted, where nothing of it is left, or its engine has been silent for too long.

        Return when to ask again, where some have to wait.
        """
        patience: datetime | None = None
        for claim in leaving:
            limit = (claim.sandbox.deleting_since or now) + _ENGINE_GRACE
            if not nothing_left and (now <= limit or not clock_trusted):
                await self._keeper.write_status(
                    claim.sandbox, leaving_status(claim.sandbox, until=limit, now=now)
                )
                patience = max(min(patience or limit, limit), now) + timedelta(seconds=1)
                continue
            if not nothing_left:
                logger.warning(
                    "Letting %s/%s go though its engine does not answer; the sweep removes the container later",
                    *claim.sandbox.id,
                )
                self._metrics.finalizers_released.inc()
            await self._keeper.drop_finalizer(claim.sandbox)
        return patience
