"""A plan's effect, carried out on the backend that it concerns."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient
from sandkeeper.api.policy import Backend
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.lifecycle import Create, Effect, Observed, Preflight, Remove, Setup, Start, Stop, Unreachable
from sandkeeper.reconcile.claims import Claim
from sandkeeper.runtimes.protocol import Notice, Order, Owner, Runtimes
from sandkeeper.telemetry.metrics import Metrics

__all__ = ["Effects"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Effects:
    """Carries out effects. Raises :class:`~sandkeeper.api.errors.SandkeeperError` where one did not work."""

    runtimes: Mapping[Backend, Runtimes]
    metrics: Metrics

    async def observe(self, key: RuntimeKey, claims: tuple[Claim, ...]) -> Observed | Unreachable | None:
        """Look for the key's runtime: where one is recorded, where one is wanted, and where one is known of."""
        recorded = {
            claim.sandbox.status.runtime.backend: claim.sandbox.status.runtime
            for claim in claims
            if claim.sandbox.status.runtime is not None and claim.recorded == key
        }
        wanted = {claim.resolution.config.backend.value for claim in claims if claim.resolution.config}
        unreachable: Unreachable | None = None
        # By name: a status may record a backend that only a newer operator knows.
        served = {backend.value: runtimes for backend, runtimes in self.runtimes.items()}
        # What is recorded first: what comes back from the dead is not what the Sandboxes were promised.
        for backend in sorted(
            recorded.keys() | wanted | served.keys(), key=lambda name: (name not in recorded, name)
        ):
            runtimes = served.get(backend)
            if runtimes is None:
                message = f"this operator does not serve the backend {backend!r}, which the status records"
                unreachable = Unreachable(reason=Reason.BACKEND_UNAVAILABLE, message=message)
            elif (
                backend in recorded
                or backend in wanted
                or (_is_possible(runtimes, claims) and runtimes.knows(key))
            ):
                record = recorded.get(backend)
                seen = await runtimes.observe(
                    key, node=record.node if record else None, name=record.name if record else None
                )
                if isinstance(seen, Observed):
                    return seen
                unreachable = seen or unreachable
        return unreachable

    async def uphold(
        self,
        key: RuntimeKey,
        *,
        observed: Observed | None,
        owners: tuple[Owner, ...],
        config: RuntimeConfig | None,
        use: str,
    ) -> Sequence[Notice] | None:
        """Keep what belongs to the key's runtime as it should be, on every backend that may have something of it.

        Returns what the backend of the runtime has to say about it.
        """
        notices: Sequence[Notice] | None = ()
        for backend, runtimes in self.runtimes.items():
            here = observed is not None and observed.backend == backend
            said = await runtimes.uphold(
                key,
                runtime_id=observed.id if observed is not None and here else None,
                owners=owners,
                config=config if config is not None and config.backend is backend else None,
                use=use,
            )
            notices = said if here else notices
        return notices

    def needs_no_finalizer(self, key: RuntimeKey, observed: Observed | None) -> bool:
        """Whether what is there needs none: a Pod, and certainly no container beside it."""
        if observed is None or observed.backend != Backend.POD:
            return False
        engine = self.runtimes.get(Backend.DOCKER)
        return engine is not None and engine.is_certain and not engine.knows(key)

    def may_have_begun(self, runtime: Observed) -> bool:
        """Whether somebody else may have begun the runtime's setup before this process took it."""
        return self.runtimes[Backend(runtime.backend)].began(runtime.id)

    async def carry_out(
        self, effect: Effect, *, key: RuntimeKey, order: Order | None, observed: Observed | None
    ) -> Observed | None:
        """Do it, and return the runtime where the effect showed it anew."""
        if isinstance(effect, (Create, Preflight)):
            backend = order.config.backend if order else None
        else:
            backend = Backend(observed.backend) if observed else None
        name = type(effect).__name__
        why = effect.reason if isinstance(effect, Remove) else None
        logger.info(
            "%s %s on %s", _PARTICIPLES[name], key, backend, extra={"reason": why.value} if why else None
        )
        try:
            seen = await self._do(effect, key=key, order=order, backend=backend)
        except SandkeeperError as error:
            self.metrics.effects[name, str(backend or "none"), error.reason.value].inc()
            # What a setupCommand said is for the user's eyes: it is in the condition.
            message = (
                error.message if name != "Setup" else f"{len(error.message)} characters, see its condition"
            )
            details = {"reason": error.reason.value}
            logger.warning(
                "%s %s failed: %s: %s", _PARTICIPLES[name], key, error.reason, message, extra=details
            )
            raise
        self.metrics.effects[name, str(backend or "none"), "ok"].inc()
        return seen

    async def _do(
        self, effect: Effect, *, key: RuntimeKey, order: Order | None, backend: Backend | None
    ) -> Observed | None:
        if backend is None:
            raise Transient(Reason.PENDING, "what is wanted has changed meanwhile")
        runtimes = self.runtimes.get(backend)
        if runtimes is None:
            raise Permanent(Reason.BACKEND_UNAVAILABLE, f"this operator does not serve {backend}")
        match effect:
            case Remove(id=runtime_id, announced=announced):
                # What is announced is a prune or a replacement: a command that began since counts as a use.
                await runtimes.remove(runtime_id, key=key, unused=announced)
            case Start(id=runtime_id):
                await runtimes.start(runtime_id, key=key)
            case Stop(id=runtime_id):
                await runtimes.stop(runtime_id, key=key)
            case Create() if order:
                return await runtimes.create(order)
            case Preflight() if order:
                await runtimes.preflight(order)
            case Setup(id=runtime_id) if order:
                await runtimes.setup(runtime_id, order)
            case _:
                raise Transient(Reason.PENDING, f"{type(effect).__name__} has nothing to work on")
        return None


def _is_possible(runtimes: Runtimes, claims: tuple[Claim, ...]) -> bool:
    """Whether the backend may have a runtime for these, though it cannot say: only if a finalizer was put on before.

    So an engine that is out of reach holds up nobody who never had anything to do with it.
    """
    return runtimes.is_certain or not claims or any(claim.sandbox.has_finalizer for claim in claims)


_PARTICIPLES = {
    "Create": "Creating",
    "Preflight": "Checking",
    "Remove": "Removing",
    "Setup": "Setting up",
    "Start": "Starting",
    "Stop": "Stopping",
}
