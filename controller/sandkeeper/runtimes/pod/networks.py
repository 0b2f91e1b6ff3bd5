"""Network policies: there before the first Pod that is under one, and gone some time after the last.

There is one for each namespace, policy and setting. What somebody changed or deleted behind our back is put right,
for as long as a Pod is under it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sandkeeper.api.names import MANAGED_BY, Label
from sandkeeper.cluster.api import ApiError, Conflict, KubeApi, NotFound, Object
from sandkeeper.cluster.caches import Cache, ObjectId
from sandkeeper.cluster.leadership import NotLeader
from sandkeeper.cluster.resources import NETWORK_POLICIES
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.pod import failures
from sandkeeper.runtimes.pod.network import closed_policy_body, network_policy_body, network_policy_name
from sandkeeper.runtimes.pod.pods import Pods

__all__ = ["Networks"]

logger = logging.getLogger(__name__)

_SPARE_SECONDS: Final = 300.0
"""How long one that no Pod is under stays: the next Pod may be on its way, however slow the API server is."""


@dataclass(frozen=True, kw_only=True)
class _NetworkPolicy:
    """A NetworkPolicy of this installation."""

    id: ObjectId
    uid: str
    resource_version: str
    ours: bool
    network: str
    """The value of the label by which it chooses Pods, which it carries itself as well."""
    spec: Mapping[str, Any]


class Networks:
    """Keeps them. ``on_change`` is told namespace and network of one that was touched by somebody else."""

    def __init__(
        self,
        api: KubeApi,
        *,
        pods: Pods,
        installation: str,
        may_act: Callable[[str], None],
        on_change: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._pods = pods
        self._installation = installation
        self._may_act = may_act
        self._on_change = on_change
        self._clock = clock
        self._needed_at: dict[ObjectId, float] = {}
        """When a policy was last needed, or first seen not to be."""
        self._bodies: dict[ObjectId, Object] = {}
        """What each was to be when it was last looked at."""
        self._one_at_a_time = asyncio.Lock()
        """Held while one is made or removed."""
        self.cache: Cache[_NetworkPolicy] = Cache(
            "NetworkPolicies", parse=self._parse, on_change=self._changed
        )

    async def ensure(self, key: RuntimeKey, config: RuntimeConfig) -> None:
        """Make the network policy of such a Pod, or put it right; nothing is asked where it is as it should be.

        Permanent where something else has its name, or the API server refuses it.
        """
        await self._have(network_policy_body(key, config, self._installation))

    async def restore(self, key: RuntimeKey, network: str) -> None:
        """Put the policy of a Pod right that was made from something else than is wanted by now.

        What it said is remembered by the process that looked at it last. Where nobody does, and it is gone, one that
        allows nothing takes its place: what runs under no policy at all may reach everything.
        """
        object_id = (key.namespace, network_policy_name(network))
        body = self._bodies.get(object_id)
        if body is None and self.cache.get(object_id) is None:
            body = closed_policy_body(key, network, self._installation)
        if body is not None:
            await self._have(body)

    async def _have(self, body: Object) -> None:
        namespace, name = object_id = (body["metadata"]["namespace"], body["metadata"]["name"])
        self._needed_at[object_id] = self._clock()
        self._bodies[object_id] = body
        async with self._one_at_a_time:  # the first Sandboxes of a policy often come together
            known = self.cache.get(object_id) or await self._make(body, object_id)
        if known.ours and known.spec == body["spec"]:
            return
        if not known.ours:
            raise failures.foreign("NetworkPolicy", name, "rename or remove it")
        logger.warning("The NetworkPolicy %s/%s was changed, and is put right", *object_id)
        self._may_act(namespace)
        metadata = {**body["metadata"], "uid": known.uid, "resourceVersion": known.resource_version}
        wanted = {**body, "metadata": metadata}
        try:
            with _as_refusal():
                self.cache.take_in(
                    await self._api.replace(NETWORK_POLICIES, wanted, name=name, namespace=namespace)
                )
        except (Conflict, NotFound):
            await self._read_again(known)
            raise

    async def _make(self, body: Object, object_id: ObjectId) -> _NetworkPolicy:
        """Make it, or return what has its name already, whosever it is."""
        namespace, name = object_id
        self._may_act(namespace)
        try:
            with _as_refusal():
                return self.cache.take_in(await self._api.create(NETWORK_POLICIES, body, namespace=namespace))
        except Conflict as error:
            if not error.is_name_taken:
                raise
            found = await self._api.get(NETWORK_POLICIES, name=name, namespace=namespace)
            policy = self._parse(found)
            # What has no label of ours is not watched: nobody would ever take it out of the cache again.
            return self.cache.take_in(found) if policy.ours else policy

    async def _read_again(self, known: _NetworkPolicy) -> None:
        """Take in what became of one: what the cache has is out of date, and would be tried in vain again."""
        namespace, name = known.id
        try:
            found = await self._api.get(NETWORK_POLICIES, name=name, namespace=namespace)
        except NotFound:
            self.cache.vanish(known)
            return
        if self._parse(found).ours:
            self.cache.take_in(found)
        else:
            self.cache.vanish(known)

    async def remove_spare(self) -> None:
        """Remove what no Pod has been under for a while."""
        for policy in self.cache:
            if self._is_spare(policy):
                await self._remove(policy)

    def _is_spare(self, policy: _NetworkPolicy) -> bool:
        if not policy.ours:
            return False
        now = self._clock()
        if self._pods.under(policy.id[0], policy.network):
            self._needed_at[policy.id] = now
        return now - self._needed_at.setdefault(policy.id, now) > _SPARE_SECONDS

    async def _remove(self, policy: _NetworkPolicy) -> None:
        namespace, name = policy.id
        try:
            # Whoever needs it meanwhile waits, and makes it anew.
            async with self._one_at_a_time:
                self._may_act(namespace)
                await self._api.delete(
                    NETWORK_POLICIES,
                    name=name,
                    namespace=namespace,
                    uid=policy.uid,
                    resource_version=policy.resource_version,
                )
                self.cache.vanish(policy)
        except (ApiError, NotLeader) as error:
            if not isinstance(error, (Conflict, NotFound, NotLeader)):
                logger.warning("Cannot remove the NetworkPolicy %s/%s: %s", namespace, name, error)

    def _parse(self, raw: Mapping[str, Any]) -> _NetworkPolicy:
        metadata, spec = raw["metadata"], raw.get("spec") or {}
        labels = metadata.get("labels") or {}
        network = labels.get(Label.NETWORK, "")
        return _NetworkPolicy(
            id=(metadata["namespace"], metadata["name"]),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            ours=labels.get(Label.MANAGED_BY) == MANAGED_BY
            and labels.get(Label.INSTALLATION) == self._installation
            and metadata["name"] == network_policy_name(network),
            network=network,
            spec=spec,
        )

    def _changed(self, old: _NetworkPolicy | None, new: _NetworkPolicy | None) -> None:
        if new is None and old is not None:
            self._needed_at.pop(old.id, None)
            if not self._pods.under(old.id[0], old.network):
                self._bodies.pop(old.id, None)
        if self.cache.by_us:
            return
        for policy in (old, new):
            if policy is not None:
                self._on_change(policy.id[0], policy.network)


@contextmanager
def _as_refusal() -> Iterator[None]:
    """Say what the API server refuses in the words of conditions; what has changed meanwhile is looked at again."""
    try:
        yield
    except (Conflict, NotFound):
        raise
    except ApiError as error:
        if failures.is_refusal(error):
            raise failures.of_refusal(error, "NetworkPolicy") from error
        raise
