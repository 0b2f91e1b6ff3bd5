"""Where objects come from: kopf's watches, and lists that make up for what a watch cannot tell.

kopf is the event source and nothing more: its handlers put objects into caches. After a watch was lost it lists again,
but does not tell what vanished; so whenever a listing is noticed, and every few minutes besides, the caches are
compared with a list of our own. It carries metadata only: of what is as it was, nothing else is worth reading.
"""

import asyncio
import itertools
import logging
import math
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import kopf

from sandkeeper.api.names import GROUP, PREFIX
from sandkeeper.cluster.api import PAGE, ApiError, KubeApi, NotFound, Object
from sandkeeper.cluster.caches import Cache, ObjectId, versions_in
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.resources import (
    NAMESPACES,
    NETWORK_POLICIES,
    POLICIES,
    SANDBOXES,
    VOLUME_CLAIMS,
    Resource,
)
from sandkeeper.cluster.tasks import lasting
from sandkeeper.reconcile.claims import Claims

__all__ = ["Sources"]

logger = logging.getLogger(__name__)

_FEW: Final = frozenset({POLICIES, NAMESPACES, NETWORK_POLICIES, VOLUME_CLAIMS})
_FEW_SECONDS: Final = 60.0
_MANY_SECONDS: Final = 300.0
"""How often the caches are compared with lists. What there is little of is mostly decisive."""
_RETRY_SECONDS: Final = 10.0
_SOON_SECONDS: Final = 0.5
_SETTLE_SECONDS: Final = 5.0
"""After a listing was noticed: kopf lists page by page, and one list of ours is enough."""
_DEAF_SECONDS: Final = 300.0
"""After which a watch that heard nothing is taken for dead: bookmarks come every minute, and kopf renews one that is
silent for 70 s."""
_ENDING_SECONDS: Final = 5.0
"""What kopf is given to end in."""


@dataclass
class _Source:
    """One kind of object, where it is kept, and by which labels it is chosen."""

    resource: Resource
    cache: Cache[Any]
    selector: str = ""
    relisted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when kopf lists: something may have vanished that it does not tell of."""
    told_at: float = field(default_factory=time.monotonic)
    """When kopf told of an object last, or began: of thousands it tells one by one before it begins to watch."""

    @property
    def params(self) -> dict[str, str]:
        """What a list is asked for."""
        return {"labelSelector": self.selector} if self.selector else {}


class Sources:
    """Keeps the caches of Namespaces, AgentSandboxPolicies and Sandboxes filled, and what backends add to these."""

    def __init__(
        self,
        *,
        api: KubeApi,
        connection: Connection,
        claims: Claims,
        namespaces: Sequence[str] = (),
        own_namespace: str,
    ) -> None:
        self._api = api
        self._connection = connection
        self._namespaces = tuple(namespaces)
        self._own_namespace = own_namespace
        # In this order: a Sandbox is resolved by the policies and Namespaces that are known.
        self._caches: list[_Source] = [
            _Source(NAMESPACES, claims.namespaces),
            _Source(POLICIES, claims.policies),
            _Source(SANDBOXES, claims.sandboxes),
        ]
        self._watching = asyncio.Event()
        self._stop = asyncio.Event()
        self._ending = asyncio.Event()
        """Set when kopf has stopped what it lives by."""

    @property
    def missing(self) -> list[str]:
        """What has not been listed yet since the process began."""
        return [source.cache.what for source in self._caches if not source.cache.listed]

    def also(self, resource: Resource, cache: Cache[Any], *, selector: str) -> None:
        """Keep one more cache filled, with the objects that carry these labels. Only before anything is listed."""
        self._caches.append(_Source(resource, cache, selector))

    async def list_all(self) -> None:
        """Take in everything, trying until it works."""
        for source in self._caches:
            delay = 1.0
            while not await self._list(source):
                await asyncio.sleep(delay * random.uniform(0.9, 1.1))  # noqa: S311 - spreads load
                delay = min(delay * 2, 15)

    async def compare_all(self) -> None:
        """Have everything at least as it is at this moment, trying until that works."""
        for source in self._caches:
            while not await self._compare(source):  # noqa: ASYNC110 - nobody else knows
                await asyncio.sleep(_SOON_SECONDS)

    async def watch(self) -> None:
        """Run kopf until :meth:`stop`; raise what it cannot go on after.

        Where it ends by itself it may wait for ever for watches of its own, which took no notice of being cancelled.
        """
        running = asyncio.ensure_future(
            kopf.operator(
                registry=self._registry(),
                settings=_settings(self._caches),
                clusterwide=not self._namespaces,
                namespaces=self._namespaces,
                standalone=True,
                stop_flag=self._stop,
                ready_flag=self._watching,
            )
        )
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
            done, _ = await asyncio.wait({running}, timeout=_ENDING_SECONDS)
        finally:
            running.cancel()
            ending.cancel()
        for ended in done:
            ended.result()
        if not self._stop.is_set():
            raise RuntimeError("kopf stopped by itself")

    async def watching(self) -> None:
        """Wait until kopf runs."""
        await self._watching.wait()

    def stop(self) -> None:
        """End :meth:`watch`."""
        self._stop.set()

    async def keep_exact(self) -> None:
        """Compare the caches with lists, now and then and after each break, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for source in self._caches:
                source.told_at = time.monotonic()
                group.create_task(lasting(self._keep_exact(source)))

    async def _keep_exact(self, source: "_Source") -> None:
        relisted, listed, was_deaf = source.relisted, True, False
        while True:
            usual = _FEW_SECONDS if source.resource in _FEW else _MANY_SECONDS
            pause = (usual if listed else _RETRY_SECONDS) * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load
            try:
                async with asyncio.timeout(pause):
                    await relisted.wait()
                await asyncio.sleep(_SETTLE_SECONDS)
            except TimeoutError:
                pass
            relisted.clear()
            listed = await self._compare(source)
            is_deaf = listed and self._is_deaf(source)
            if is_deaf and was_deaf:
                # Twice, for the API server may have come back just now. A process that begins anew watches again.
                raise RuntimeError(f"nothing is heard of {source.cache.what}, though they can be listed")
            was_deaf = is_deaf

    def _is_deaf(self, source: "_Source") -> bool:
        """Whether neither kopf told of anything for long, nor its watch heard a bookmark or anything else."""
        silent = time.monotonic() - source.told_at
        heard = self._connection.watch_ages().get(source.resource.plural, math.inf)
        return min(silent, heard) > _DEAF_SECONDS

    async def _list(self, source: "_Source") -> bool:
        """Take in a whole list, page by page, so that it is never all in memory; return whether that worked."""
        cache = source.cache
        listed: set[ObjectId] = set()
        versions: list[int] = []
        try:
            async for page, version in self._pages(source):
                listed.update(map(cache.put_listed, page))
                versions.append(version)
        except ApiError as error:
            _warn(source, error)
            return False
        cache.complete(listed, version=min(versions))
        return True

    async def _compare(self, source: "_Source") -> bool:
        """Find out by a list of metadata what was missed, and read that; return whether nothing was left out."""
        cache, complete, asked_at = source.cache, True, source.cache.newest
        listed: dict[ObjectId, int] = {}
        versions: list[int] = []
        try:
            async for page, version in self._pages(source, metadata_only=True):
                listed |= versions_in(page)
                versions.append(version)
            for namespace, name in cache.compare(listed, version=min(versions), asked_at=asked_at):
                try:
                    cache.put_listed(
                        await self._api.get(source.resource, name=name, namespace=namespace or None)
                    )
                except NotFound:
                    complete = False  # it has gone since the list was made, and the next one lacks it
        except ApiError as error:
            _warn(source, error)
            return False
        return complete

    async def _pages(
        self, source: "_Source", *, metadata_only: bool = False
    ) -> AsyncIterator[tuple[list[Object], int]]:
        """Yield pages of a list of what is kept, each with the version that it is of."""
        for namespace in self._places(source.resource):
            async for page, version in self._api.pages(
                source.resource, namespace=namespace, params=source.params, metadata_only=metadata_only
            ):
                yield page, int(version)

    def _places(self, resource: Resource) -> Sequence[str | None]:
        """Return the namespaces in which there is something to list; None: all of them."""
        if resource is NAMESPACES or not self._namespaces:
            return (None,)
        if resource is POLICIES and self._own_namespace not in self._namespaces:
            # A policy there serves the others. It is not watched, for nothing else there is any business of ours: an
            # edit is found by the next comparison.
            return (*self._namespaces, self._own_namespace)
        return self._namespaces

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)(self._connection.login)

        @kopf.on.cleanup(registry=registry)
        async def note_the_end(**_: Any) -> None:
            self._ending.set()

        for source in self._caches:
            resource, handler = source.resource, self._handler(source)
            kopf.on.event(
                group=resource.group,
                version=resource.version,
                plural=resource.plural,
                id=f"take-in-{resource.plural}",
                registry=registry,
            )(handler)
        return registry

    @staticmethod
    def _handler(source: "_Source") -> Callable[..., Any]:
        cache = source.cache

        async def take_in(event: kopf.RawEvent, **_: Any) -> None:
            raw = event["object"]
            source.told_at = time.monotonic()
            if event["type"] == "DELETED":
                cache.drop(raw)
                return
            cache.put(raw)
            if event["type"] is None:
                source.relisted.set()

        return take_in


def _warn(source: _Source, error: ApiError) -> None:
    missing = error.status == 404 and source.resource.group == GROUP  # noqa: PLR2004 - HTTP
    hint = f"; are the CRDs of {GROUP} installed?" if missing else ""
    logger.warning("Cannot list %s: %s%s", source.cache.what, error, hint)


class _NoDiffs(kopf.DiffBaseStorage):
    """Keeps no states to compare with: ours are bare events, for which kopf would copy every object nevertheless."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return nothing, which is the same for every object."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        """Return that nothing was stored."""

    def store(self, **_: Any) -> None:
        """Store nothing."""


class _Pauses:
    """Seconds before each new try of a request, without end: at the end of its own kopf gives up, and all with it."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1.0, 1.0, 2.0, 3.0, 5.0, 8.0), itertools.repeat(10.0))


def _settings(sources: Sequence[_Source]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    for source in sources:
        if source.selector:
            resource = source.resource
            settings.watching.label_selectors[resource.group, resource.version, resource.plural] = (
                source.selector
            )
    settings.peering.standalone = True
    settings.scanning.disabled = True  # our resources are known; nothing is to be discovered while we run
    settings.posting.enabled = False  # Events are ours, one for each change
    # Not ours: kopf takes the finalizer that it is told of off every object, where no handler of its own needs one.
    settings.persistence.finalizer = f"{PREFIX}kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.watching.chunk_size = PAGE
    settings.watching.server_timeout = 300
    settings.watching.inactivity_timeout = 70
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = _Pauses()
    settings.queueing.worker_limit = None  # a limit divides by the idle time-out: 10 objects a second at 50
    settings.queueing.idle_timeout = (
        0.1  # of a task for each object: after a list there are as many as objects
    )
    return settings
