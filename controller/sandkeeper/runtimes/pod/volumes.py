"""The claims that Pods mount: those that are there already, and those that are made for a key.

A claim made here outlives every Pod: it survives replacement, stop and prune. It belongs to the Sandboxes that share
the runtime and goes with the last of them, or to nobody where the policy says that it is to be retained.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.cluster.api import ApiError, Conflict, KubeApi, NotFound, Object
from sandkeeper.cluster.caches import Cache, ObjectId
from sandkeeper.cluster.resources import PODS, VOLUME_CLAIMS
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import key_from_pod
from sandkeeper.config.pod import ClaimTemplate
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.pod import failures
from sandkeeper.runtimes.pod.claims import claim_body, claim_name, foreign_claims, owner_references
from sandkeeper.runtimes.pod.view import sandbox_owners
from sandkeeper.runtimes.protocol import Order, Owner

__all__ = ["Volumes"]

_ONE_POD = "ReadWriteOncePod"
_ENDED = ("Failed", "Succeeded")


@dataclass(frozen=True, kw_only=True)
class _VolumeClaim:
    """A PersistentVolumeClaim of this installation."""

    id: ObjectId
    uid: str
    resource_version: str
    key: RuntimeKey | None
    owners: tuple[Owner, ...]
    deleting: bool


class Volumes:
    """Makes claims, looks at those of others, and keeps the owners of its own."""

    def __init__(self, api: KubeApi, *, installation: str, may_act: Callable[[str], None]) -> None:
        self._api = api
        self._installation = installation
        self._may_act = may_act
        self.cache: Cache[_VolumeClaim] = Cache(
            "PersistentVolumeClaims", parse=self._parse, on_change=lambda _old, _new: None
        )

    async def look(self, order: Order) -> None:
        """Find out whether the claims can be had, as far as that can be seen.

        Transient with VOLUME_MISSING or VOLUME_BUSY where not: somebody may bring it, or let go of it.
        """
        for name in foreign_claims(order.config):
            await self._look_at(name, order.key)

    async def ensure(self, order: Order) -> None:
        """Have the volume there before the Pod. Errors as :meth:`look`; Permanent where a claim cannot be made."""
        await self.look(order)
        body = claim_body(order, self._installation)
        if body is None:
            return
        key, name = order.key, str(body["metadata"]["name"])
        known = self.cache.get((key.namespace, name)) or await self._make(body, key)
        if known.key != key:
            raise failures.foreign("PersistentVolumeClaim", name, "rename or remove it")
        if known.deleting:
            message = f"The PersistentVolumeClaim {name} is being deleted; then another is made."
            raise Transient(Reason.VOLUME_MISSING, message)
        # Before the Pod is made: one that belongs to nobody alive may be collected as garbage at any moment.
        await self.uphold(key, order.owners, order.config)

    async def _make(self, body: Object, key: RuntimeKey) -> _VolumeClaim:
        """Make the key's claim, or return what has its name already, whosever it is."""
        self._may_act(key.namespace)
        try:
            return self.cache.take_in(await self._api.create(VOLUME_CLAIMS, body, namespace=key.namespace))
        except Conflict:
            name = body["metadata"]["name"]
            found = await self._api.get(VOLUME_CLAIMS, name=name, namespace=key.namespace)
            claim = self._parse(found)
            # What has no label of ours is not watched: nobody would ever take it out of the cache again.
            return self.cache.take_in(found) if claim.key == key else claim
        except ApiError as error:
            if failures.is_refusal(error):
                raise failures.of_refusal(error, "PersistentVolumeClaim") from error
            raise

    async def uphold(self, key: RuntimeKey, owners: Sequence[Owner], config: RuntimeConfig | None) -> None:
        """Make those who share the runtime the owners of the claim that was made for it.

        Also where it is not what is wanted at the moment: a claim that lost its last owner could not be had back.
        """
        known = self.cache.get((key.namespace, claim_name(key, self._installation)))
        if known is None or known.key != key:
            return
        wanted = _owners_of(known, owners, config)
        if {owner.uid for owner in wanted} == {owner.uid for owner in known.owners}:
            return
        self._may_act(key.namespace)
        metadata = {
            "uid": known.uid,
            "resourceVersion": known.resource_version,
            "ownerReferences": owner_references(wanted) or None,
        }
        body = {"metadata": metadata}
        name = known.id[1]
        try:
            self.cache.take_in(await self._api.patch(VOLUME_CLAIMS, body, name=name, namespace=key.namespace))
        except NotFound:
            self.cache.vanish(known)
            raise  # a Pod that is about to be made needs another first
        except Conflict:
            self.cache.take_in(await self._api.get(VOLUME_CLAIMS, name=name, namespace=key.namespace))
            raise

    async def _look_at(self, name: str, key: RuntimeKey) -> None:
        try:
            claim = await self._api.get(VOLUME_CLAIMS, name=name, namespace=key.namespace)
        except NotFound:
            message = f"There is no PersistentVolumeClaim {name} in the namespace: make it, or name another."
            raise Transient(Reason.VOLUME_MISSING, message) from None
        if "deletionTimestamp" in claim["metadata"]:
            raise Transient(Reason.VOLUME_MISSING, f"The PersistentVolumeClaim {name} is being deleted.")
        if claim.get("status", {}).get("phase") == "Lost":
            message = f"The PersistentVolumeClaim {name} has lost its volume."
            raise Permanent(Reason.VOLUME_MISSING, message)
        if _ONE_POD in (claim["spec"].get("accessModes") or ()):
            holder = await self._holder(name, key)
            if holder is not None:
                message = (
                    f"The PersistentVolumeClaim {name} is for one Pod at a time, and the Pod {holder} has it."
                )
                raise Transient(Reason.VOLUME_BUSY, message)

    async def _holder(self, claim: str, key: RuntimeKey) -> str | None:
        """Return the Pod that uses the claim; for a claim that takes one Pod only, the list is worth its price."""
        async for page, _ in self._api.pages(PODS, namespace=key.namespace):
            for pod in page:
                if (
                    pod.get("status", {}).get("phase") not in _ENDED
                    and key_from_pod(pod["metadata"], self._installation) != key
                    and claim in _claims_of(pod)
                ):
                    return str(pod["metadata"]["name"])
        return None

    def _parse(self, raw: Mapping[str, Any]) -> _VolumeClaim:
        metadata = raw["metadata"]
        return _VolumeClaim(
            id=(metadata["namespace"], metadata["name"]),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            key=key_from_pod(metadata, self._installation),
            owners=sandbox_owners(metadata),
            deleting="deletionTimestamp" in metadata,
        )


def _owners_of(
    claim: _VolumeClaim, sharers: Sequence[Owner], config: RuntimeConfig | None
) -> Sequence[Owner]:
    """Tell to whom a claim belongs: to nobody where it is retained."""
    if config is not None and isinstance(config.workspace, ClaimTemplate):
        return () if config.workspace.retain else sharers
    # No policy says by now what is to become of it; so it stays as the last one that did had it.
    return sharers if claim.owners else ()


def _claims_of(pod: Object) -> set[str]:
    volumes = pod["spec"].get("volumes") or ()
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if "persistentVolumeClaim" in volume
    }
