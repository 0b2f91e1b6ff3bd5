"""How many runtimes there are, by backend, phase and policy: kept as claims come and go, so nobody has to count."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.telemetry.memory import Capped

if TYPE_CHECKING:
    from sandkeeper.reconcile.claims import Claim

__all__ = ["Tally"]

_Group = tuple[str, ...]

_NONE: Final = "none"


class Tally:
    """Counts each key once, in the group that its oldest Sandbox tells."""

    def __init__(self, policies: Capped) -> None:
        self._policies = policies
        self._of: dict[RuntimeKey, _Group] = {}
        self._counts: dict[_Group, float] = {}

    @property
    def counts(self) -> Mapping[tuple[str, ...], float]:
        """How many there are in each group: backend, phase, policy."""
        return self._counts

    def count(self, key: RuntimeKey, claims: Sequence["Claim"]) -> None:
        """Take in how the claims on a key are now."""
        before, now = self._of.get(key), self._group(key, claims) if claims else None
        if before == now:
            return
        if before is not None:
            left = self._counts[before] = self._counts[before] - 1
            if not left:
                del self._counts[before]
            del self._of[key]
        if now is not None:
            self._of[key] = now
            self._counts[now] = self._counts.get(now, 0) + 1

    def _group(self, key: RuntimeKey, claims: Sequence["Claim"]) -> _Group:
        # Where somebody is on the way elsewhere or has just come, those speak who have the runtime by record.
        there = [claim for claim in claims if claim.recorded == key] or claims
        claim = there[0] if len(there) == 1 else min(there, key=_age)
        status, resolution = claim.sandbox.status, claim.resolution
        config, problem = resolution.config, resolution.problem
        backend = status.backend or (config.backend.value if config is not None else _NONE)
        known = problem is None or problem.reason is not Reason.POLICY_NOT_FOUND
        policy = self._policies.label(key.policy, admit=known)
        return str(backend), str(status.phase or Phase.PENDING), policy


def _age(claim: "Claim") -> tuple[float, str]:
    return claim.sandbox.created_at.timestamp(), claim.sandbox.uid
