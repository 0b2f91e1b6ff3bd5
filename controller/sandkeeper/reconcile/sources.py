"""Where objects come from: kopf's watches, and whole lists that make up for what a watch cannot tell.

kopf is the event source and nothing more: its handlers put objects into caches. After a watch was lost it lists again,
but does not tell what vanished; so whenever a listing is noticed, and every few minutes besides, the caches are
compared with a list of our own.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import kopf

from sandkeeper.api.names import GROUP, PREFIX
from sandkeeper.cluster.api import ApiError, KubeApi
from sandkeeper.cluster.caches import Cache
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.resources import NAMESPACES, POLICIES, SANDBOXES, Resource
from sandkeeper.reconcile.claims import Claims

__all__ = ["Sources"]

logger = logging.getLogger(__name__)

_SYNC_SECONDS: Final = {SANDBOXES: 300.0, POLICIES: 60.0, NAMESPACES: 60.0}
"""Policies and Namespaces are few, and decisive; Sandboxes are many, and mostly kept from vanishing by a finalizer."""
_RETRY_SECONDS: Final = 10.0
_SETTLE_SECONDS: Final = 5.0
"""After a listing was noticed: kopf lists page by page, and one list of ours is enough."""


class Sources:
    """Keeps the caches of Namespaces, AgentSandboxPolicies and Sandboxes filled."""

    def __init__(
        self, *, api: KubeApi, connection: Connection, claims: Claims, namespaces: Sequence[str] = ()
    ) -> None:
        self._api = api
        self._connection = connection
        self._namespaces = tuple(namespaces)
        # In this order: a Sandbox is resolved by the policies and Namespaces that are known.
        self._caches: tuple[tuple[Resource, Cache[Any]], ...] = (
            (NAMESPACES, claims.namespaces),
            (POLICIES, claims.policies),
            (SANDBOXES, claims.sandboxes),
        )
        self._relisted: dict[str, asyncio.Event] = {r.plural: asyncio.Event() for r, _ in self._caches}
        self._watching = asyncio.Event()
        self._stop = asyncio.Event()

    @property
    def missing(self) -> list[str]:
        """What has not been listed yet since the process began."""
        return [cache.what for _, cache in self._caches if not cache.listed]

    async def list_all(self) -> None:
        """Take in everything, trying until it works."""
        for resource, cache in self._caches:
            delay = 1.0
            while not await self._list(resource, cache):
                await asyncio.sleep(delay * random.uniform(0.9, 1.1))  # noqa: S311 - spreads load
                delay = min(delay * 2, 15)

    async def watch(self) -> None:
        """Run kopf until :meth:`stop`; raise what it cannot go on after."""
        await kopf.operator(
            registry=self._registry(),
            settings=_settings(),
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            standalone=True,
            stop_flag=self._stop,
            ready_flag=self._watching,
        )
        if not self._stop.is_set():
            raise RuntimeError("kopf stopped by itself")

    async def watching(self) -> None:
        """Wait until kopf runs."""
        await self._watching.wait()

    def stop(self) -> None:
        """End :meth:`watch`."""
        self._stop.set()

    async def keep_exact(self) -> None:
        """Compare the caches with whole lists, now and then and after each break, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, cache in self._caches:
                group.create_task(self._keep_exact(resource, cache))

    async def _keep_exact(self, resource: Resource, cache: Cache[Any]) -> None:
        relisted, listed = self._relisted[resource.plural], True
        while True:
            pause = (_SYNC_SECONDS[resource] if listed else _RETRY_SECONDS) * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load
            try:
                async with asyncio.timeout(pause):
                    await relisted.wait()
                await asyncio.sleep(_SETTLE_SECONDS)
            except TimeoutError:
                pass
            relisted.clear()
            listed = await self._list(resource, cache)

    async def _list(self, resource: Resource, cache: Cache[Any]) -> bool:
        objects: list[Any] = []
        versions: list[int] = []
        everywhere = resource is NAMESPACES or not self._namespaces
        try:
            for namespace in (None,) if everywhere else self._namespaces:
                async for page, version in self._api.pages(resource, namespace=namespace):
                    objects.extend(page)
                    versions.append(int(version))
        except ApiError as error:
            hint = f"; are the CRDs of {GROUP} installed?" if error.status == 404 else ""  # noqa: PLR2004 - HTTP
            logger.warning("Cannot list %s: %s%s", cache.what, error, hint)
            return False
        cache.sync(objects, version=min(versions))
        return True

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)(self._connection.login)
        for resource, cache in self._caches:
            handler = self._handler(resource, cache)
            kopf.on.event(
                group=resource.group,
                version=resource.version,
                plural=resource.plural,
                id=f"take-in-{resource.plural}",
                registry=registry,
            )(handler)
        return registry

    def _handler(self, resource: Resource, cache: Cache[Any]) -> Callable[..., Any]:
        relisted = self._relisted[resource.plural]

        async def take_in(event: kopf.RawEvent, **_: Any) -> None:
            raw = event["object"]
            if event["type"] == "DELETED":
                cache.drop(raw)
                return
            cache.put(raw)
            if event["type"] is None:
                relisted.set()

        return take_in


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True  # our resources are known; nothing is to be discovered while we run
    settings.posting.enabled = False  # Events are ours, one for each change
    # Not ours: kopf takes the finalizer that it is told of off every object, where no handler of its own needs one.
    settings.persistence.finalizer = f"{PREFIX}kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP, key="last-handled")
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 300
    settings.watching.inactivity_timeout = 70
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.queueing.worker_limit = None  # a limit divides by the idle time-out: 10 objects a second at 50
    settings.queueing.idle_timeout = 1.0
    return settings
