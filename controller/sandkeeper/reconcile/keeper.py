"""The Sandboxes themselves, as we write them: statuses, the finalizer, deletion.

Every write carries the resourceVersion of what the decision was taken on, so that a touch that came in between is a
conflict and never overwritten; and it is made only while the namespace is led. What the API server answers goes into
the cache at once: the next pass must not decide on less than we know.
"""

import logging

from sandkeeper.api.names import FINALIZER
from sandkeeper.api.sandbox import SandboxStatus
from sandkeeper.cluster.api import ApiError, Conflict, KubeApi, NotFound, Object
from sandkeeper.cluster.events import EventPoster
from sandkeeper.cluster.leadership import Lead
from sandkeeper.cluster.resources import POLICIES, SANDBOXES
from sandkeeper.reconcile.claims import Claims
from sandkeeper.reconcile.objects import SandboxObject
from sandkeeper.reconcile.statuses import merge_patch, note_of, to_json

__all__ = ["Keeper"]

logger = logging.getLogger(__name__)


class Keeper:
    """Writes Sandboxes. Raises :class:`~sandkeeper.cluster.api.Conflict` where one has changed meanwhile."""

    def __init__(self, *, api: KubeApi, claims: Claims, events: EventPoster, lead: Lead) -> None:
        self._api = api
        self._claims = claims
        self._events = events
        self._lead = lead

    async def write_status(self, sandbox: SandboxObject, status: SandboxStatus) -> bool:
        """Write the status where it differs from the one that is there; return whether it did."""
        patch = merge_patch(to_json(sandbox.status), to_json(status))
        if not patch:
            return False
        note = note_of(sandbox, status)
        await self._patch(sandbox, {"status": patch}, subresource="status")
        if note is not None:
            self._events.post(note)
        return True

    async def add_finalizer(self, sandbox: SandboxObject) -> SandboxObject:
        """Put our finalizer on the Sandbox, before a container is made for it."""
        return await self._patch(sandbox, {"metadata": {"finalizers": [*sandbox.finalizers, FINALIZER]}})

    async def drop_finalizer(self, sandbox: SandboxObject) -> None:
        """Let the Sandbox go."""
        others = [name for name in sandbox.finalizers if name != FINALIZER]
        try:
            await self._patch(sandbox, {"metadata": {"finalizers": others or None}})
        except NotFound:
            return
        if sandbox.deleting_since is not None and not others:
            # It is gone; the answer has the version that it had before, by which nothing has changed.
            self._claims.sandboxes.vanish(sandbox)

    async def delete(self, sandbox: SandboxObject) -> None:
        """Delete the Sandbox, if it is still as it was seen."""
        self._lead.check(sandbox.namespace)
        try:
            left = await self._api.delete(
                SANDBOXES,
                name=sandbox.name,
                namespace=sandbox.namespace,
                uid=sandbox.uid,
                resource_version=sandbox.resource_version,
            )
        except Conflict:
            await self.refresh(sandbox)
            raise
        if left is None:
            self._claims.sandboxes.vanish(sandbox)
        else:
            self._claims.sandboxes.put(left)  # its key has to be looked at: it waits for its finalizer

    async def refresh(self, sandbox: SandboxObject) -> None:
        """Read the Sandbox anew into the cache: a write found that it had changed."""
        try:
            raw = await self._api.get(SANDBOXES, name=sandbox.name, namespace=sandbox.namespace)
        except NotFound:
            self._claims.sandboxes.vanish(sandbox)
            return
        except ApiError as error:
            logger.debug("Cannot read %s/%s anew: %s", *sandbox.id, error)
            return
        self._claims.sandboxes.put(raw)

    async def find_policy(self, namespace: str, name: str) -> bool:
        """Ask for a policy that the cache may lack; return whether it has one now that it had not, or an older one."""
        try:
            raw = await self._api.get(POLICIES, name=name, namespace=namespace)
        except NotFound:
            return False
        known = self._claims.policies.get((namespace, name))
        return self._claims.policies.put(raw) is not known

    async def refresh_namespace(self, namespace: str) -> None:
        """Read all Sandboxes of a namespace into the cache: before something is taken for nobody's."""
        async for page, _version in self._api.pages(SANDBOXES, namespace=namespace):
            for raw in page:
                self._claims.sandboxes.put(raw)

    async def _patch(
        self, sandbox: SandboxObject, body: Object, *, subresource: str | None = None
    ) -> SandboxObject:
        self._lead.check(sandbox.namespace)
        metadata = {
            **body.get("metadata", {}),
            "uid": sandbox.uid,
            "resourceVersion": sandbox.resource_version,
        }
        try:
            raw = await self._api.patch(
                SANDBOXES,
                {**body, "metadata": metadata},
                name=sandbox.name,
                namespace=sandbox.namespace,
                subresource=subresource,
            )
        except (Conflict, NotFound):
            await self.refresh(sandbox)
            raise
        return self._claims.sandboxes.take_in(raw)
