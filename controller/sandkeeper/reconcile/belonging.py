"""To which key a claim belongs at the moment; most have one, those whose identity moved have two to choose from."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandkeeper.api.policy import Backend
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.lifecycle import bound_key, relies
from sandkeeper.reconcile.claims import Claim, Claims
from sandkeeper.reconcile.statuses import record_of
from sandkeeper.runtimes.protocol import Runtimes

__all__ = ["Belonging"]


@dataclass(frozen=True)
class Belonging:
    """Answers from the caches alone."""

    claims: Claims
    runtimes: Mapping[Backend, Runtimes]

    def bound(self, key: RuntimeKey) -> tuple[Claim, ...]:
        """Return the live claims that belong to the key now."""
        return tuple(
            claim
            for claim in self.claims.of(key)
            if claim.sandbox.deleting_since is None and self.key_of(claim) == key
        )

    def leaving(self, key: RuntimeKey) -> tuple[Claim, ...]:
        """Return the claims on the key that are being deleted and wait for us."""
        return tuple(
            claim
            for claim in self.claims.of(key)
            if claim.sandbox.deleting_since is not None
            and claim.sandbox.has_finalizer
            and (claim.recorded or claim.resolved) == key
        )

    def key_of(self, claim: Claim) -> RuntimeKey:
        """Return which of its keys a claim belongs to."""
        recorded = claim.recorded
        if recorded is None or recorded == claim.resolved:
            return claim.resolved
        known = relies(record_of(claim.sandbox.status)) and any(
            runtimes.knows(recorded) for runtimes in self.runtimes.values()
        )
        return bound_key(resolved=claim.resolved, recorded=recorded, runtime_known=known)
