"""Pods whose Sandboxes are all gone, and which the garbage collector leaves.

It takes them at once as a rule, and may miss one for good: after the API server was killed again and again it was seen
to, and whoever comes next for that key would wait for ever. So one that is still there after a minute is removed by
us, if the API server itself says that nobody owns it any more.
"""

import logging
from collections.abc import Callable
from typing import Final

from sandkeeper.cluster.api import ApiError, Conflict, KubeApi, NotFound, Object
from sandkeeper.cluster.leadership import NotLeader
from sandkeeper.cluster.resources import PODS, SANDBOXES
from sandkeeper.runtimes.pod.pods import Pods
from sandkeeper.runtimes.pod.view import PodView, sandbox_owners

__all__ = ["Orphans"]

logger = logging.getLogger(__name__)

_LEFT_AFTER: Final = 60.0
"""Seconds that the garbage collector is given from when we first saw that it is its turn."""


class Orphans:
    """Remembers those that were met, and removes what is left of them. ``clock`` is monotonic, in seconds."""

    def __init__(
        self, api: KubeApi, *, pods: Pods, may_act: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._api = api
        self._pods = pods
        self._may_act = may_act
        self._clock = clock
        self._met: dict[str, float] = {}
        """Since when, by the Pod's UID."""

    def meet(self, pod: PodView) -> None:
        """Note that none of its Sandboxes is known to live."""
        self._met.setdefault(pod.uid, self._clock())

    async def remove_left(self) -> list[PodView]:
        """Remove those that were met more than a minute ago; return them, and those that had gone unnoticed."""
        removed = []
        for uid, since in list(self._met.items()):
            pod = self._pods.by_uid(uid)
            if pod is None or pod.deleting_at is not None:
                del self._met[uid]
            elif self._clock() - since > _LEFT_AFTER:
                del self._met[uid]  # whoever meets it again begins anew
                if await self._remove(pod):
                    removed.append(pod)
        return removed

    async def _remove(self, pod: PodView) -> bool:
        try:
            self._may_act(pod.namespace)
            try:
                found = await self._api.get(PODS, name=pod.name, namespace=pod.namespace)
            except NotFound:
                self._pods.cache.vanish(pod)
                return True
            if found["metadata"]["uid"] != pod.uid or not await self._is_orphan(found):
                return False
            logger.warning(
                "Removing the Pod %s/%s: its Sandboxes are gone, and the garbage collector left it", *pod.id
            )
            self._may_act(pod.namespace)
            left = await self._api.delete(
                PODS,
                name=pod.name,
                namespace=pod.namespace,
                uid=pod.uid,
                resource_version=found["metadata"]["resourceVersion"],
            )
        except (ApiError, NotLeader) as error:
            if not isinstance(error, (Conflict, NotFound, NotLeader)):
                logger.warning("Cannot remove the Pod %s/%s, which nobody owns: %s", *pod.id, error)
            return False
        if left is None:
            self._pods.cache.vanish(pod)
        else:
            self._pods.cache.take_in(left)
        return True

    async def _is_orphan(self, pod: Object) -> bool:
        """Whether the API server knows none of its owners, all of which are Sandboxes."""
        metadata = pod["metadata"]
        owners = sandbox_owners(metadata)
        if not owners or len(owners) != len(metadata["ownerReferences"]):
            return False  # it is nobody's, or somebody else's too: not ours to judge
        for owner in owners:
            try:
                found = await self._api.get(SANDBOXES, name=owner.name, namespace=metadata["namespace"])
            except NotFound:
                continue
            if found["metadata"]["uid"] == owner.uid:
                return False
        return True
