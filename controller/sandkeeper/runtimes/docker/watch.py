"""What is there on the engine: a cache of our containers, kept by the event stream and checked by listing.

Subscribe, then list: whatever happens after the list began is in the stream, and wins over the list. A stream that
ended is resumed where it stopped and everything is listed again, as it is every now and then in any case, for what the
stream missed.

The cache is only ever a hint. Before anything is done to a container it is inspected, and that a key has none is
believed while the stream is alive and not otherwise.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from docker.errors import APIError

from sandkeeper.api.errors import Transient
from sandkeeper.api.names import Label
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import key_from_labels
from sandkeeper.runtimes.docker.engine import Backoff, Engine
from sandkeeper.runtimes.docker.inventory import Inventory, Seen
from sandkeeper.runtimes.docker.places import NO_WRITES, Writes, writes_in
from sandkeeper.runtimes.docker.stream import EventStream, subscribe

__all__ = ["Watch"]

_LOG = logging.getLogger(__name__)

OnChange = Callable[[RuntimeKey], None]

_EVENTS: Final = ("create", "start", "die", "oom", "stop", "destroy", "rename", "pause", "unpause")
"""Of containers; those of execs would be many, and say nothing that an inspection does not."""
_ENDS: Final = frozenset({"die", "stop"})


class Watch:
    """The cache, and what keeps it. All of it happens on the event loop, the reading of the stream aside."""

    def __init__(self, engine: Engine, *, installation: str, sweep_seconds: float) -> None:
        self._engine = engine
        self._installation = installation
        self._sweep_seconds = sweep_seconds
        self._containers = Inventory()
        self._touched: list[set[str]] = []
        """One set for each listing under way: the ids of which something newer is known than the list can say."""
        self._on_change: OnChange = lambda _key: None
        self._waiting: set[RuntimeKey] = set()
        self._since: str | None = None
        self._listed_of: str | None = None
        """The engine that the cache is of; None: nothing was listed yet."""
        self._stream: EventStream | None = None
        self._complete = False
        """Everything was listed since the stream was opened."""
        engine.on_change = self._engine_changed

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def was_listed(self) -> bool:
        """Whether everything was listed once since the process began."""
        return self._listed_of is not None

    @property
    def is_live(self) -> bool:
        """Whether the cache has everything and is kept: what it does not have is not there."""
        stream = self._stream
        return (
            self._complete
            and stream is not None
            and stream.is_alive
            and self._engine.problem is None
            and self._listed_of == self._engine.identity
        )

    @property
    def containers(self) -> Mapping[str, Seen]:
        """All containers of this installation, by id."""
        return self._containers

    def ids(self, key: RuntimeKey) -> list[str]:
        """Return the ids of the key's containers."""
        return self._containers.ids(key)

    def writes_of_others(self, key: RuntimeKey) -> list[Writes]:
        """Return what containers of other keys write to on the host."""
        return [seen.writes for seen in self._containers.values() if seen.writes and seen.key != key]

    def keys(self) -> frozenset[RuntimeKey]:
        """Return the keys of all containers."""
        return self._containers.of_keys()

    # --- what others tell us ------------------------------------------------------------------------------------------

    def note(
        self, container_id: str, key: RuntimeKey, *, running: bool, writes: Writes | None = None
    ) -> None:
        """Take in what an answer of the engine said. ``writes`` None: as is known."""
        before = self._containers.get(container_id)
        if writes is None:
            writes = before.writes if before is not None else NO_WRITES
        self._containers.put(container_id, Seen(key, running, writes))
        self._touch(container_id)

    def forget(self, container_id: str) -> None:
        """Take in that a container is gone."""
        self._containers.drop(container_id)
        self._touch(container_id)

    def await_engine(self, key: RuntimeKey) -> None:
        """Have the key told when the engine comes back, or the right one does."""
        self._waiting.add(key)

    async def list(self) -> None:
        """List everything, and tell the keys of which something was not as the cache had it."""
        filters = {"label": [f"{Label.INSTALLATION}={self._installation}"]}
        touched: set[str] = set()
        self._touched.append(touched)
        try:
            found = await self._engine.call(lambda client: client.containers(all=True, filters=filters))
        finally:
            self._touched = [one for one in self._touched if one is not touched]
        listed = dict(self._read(found))
        for container_id in touched:
            listed.pop(container_id, None)
            if container_id in self._containers:
                listed[container_id] = self._containers[container_id]
        was, self._containers = self._containers, Inventory(listed)
        self._tell({seen.key for _, seen in was.items() ^ listed.items()})

    def _read(self, found: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, Seen]]:
        for container in found:
            key = key_from_labels(container.get("Labels") or {}, self._installation)
            if key is not None:
                running = container["State"] == "running"
                yield container["Id"], Seen(key, running, writes_in(container["Labels"]))

    # --- the stream ---------------------------------------------------------------------------------------------------

    async def run(self, on_change: OnChange) -> None:
        """Keep the cache until cancelled."""
        self._on_change = on_change
        backoff = Backoff()
        try:
            while True:
                await self._engine.reachable.wait()
                try:
                    await self._follow(backoff)
                except (Transient, APIError) as error:
                    _LOG.warning("The events of the Docker engine cannot be followed: %s", error)
                self._engine.suspect()
                await asyncio.sleep(backoff.next())
        finally:
            self._on_change = lambda _key: None

    async def _follow(self, backoff: Backoff) -> None:
        # The stream that ended may have been another engine's than the one that answers now.
        identity = await self._engine.identify()
        if identity != self._listed_of:
            self._since = None
        client = await self._engine.client()
        stream = await subscribe(
            client,
            installation=self._installation,
            events=_EVENTS,
            since=self._since,
            deliver=self._take,
            quiet=2 * self._sweep_seconds,
        )
        self._stream = stream
        try:
            first = self._listed_of is None
            while stream.is_alive:
                await self.list()
                self._listed_of = identity
                self._complete = True
                backoff.reset()
                self._tell({*self._waiting_now(), *(self.keys() if first else ())})
                first = False
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._sweep_seconds):
                        await stream.ended.wait()
        finally:
            self._drop_stream()

    def _drop_stream(self) -> None:
        self._complete = False
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _take(self, event: Mapping[str, Any]) -> None:
        """Take in one event of the stream."""
        nanoseconds = int(event["timeNano"])
        self._since = f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"
        container_id, action, labels = event["Actor"]["ID"], event["Action"], event["Actor"]["Attributes"]
        key = key_from_labels(labels, self._installation)
        if key is None:
            return
        writes = writes_in(labels)
        self._touch(container_id)
        before = self._containers.get(container_id)
        if action == "destroy":
            self._containers.drop(container_id)
            if before is None:
                return  # we removed it ourselves
        elif action == "create":
            # Nobody but us makes a container that is proven ours, and we know of it.
            if before is None:
                self._containers.put(container_id, Seen(key, running=False, writes=writes))
            return
        else:
            seen = Seen(key, _is_running(action, before), writes)
            self._containers.put(container_id, seen)
            if action == "start" and seen == before:
                return  # we started it ourselves
        self._on_change(key)

    def _touch(self, container_id: str) -> None:
        for touched in self._touched:
            touched.add(container_id)

    # --- the engine ---------------------------------------------------------------------------------------------------

    def _engine_changed(self) -> None:
        """Take in that the engine went, came back, is another one, or only seemed to be gone.

        With an engine its stream is given up. When the next one is open and everything listed, all are told who waited.
        """
        gone = self._engine.problem is not None
        if self._stream is not None and (gone or self._listed_of != self._engine.identity):
            self._stream.close()
        if gone:
            self._tell({*self.keys(), *self._waiting_now()})
        elif self.is_live:
            self._tell(self._waiting_now())

    def _waiting_now(self) -> set[RuntimeKey]:
        waiting, self._waiting = self._waiting, set()
        return waiting

    def _tell(self, keys: Iterable[RuntimeKey]) -> None:
        for key in keys:
            self._on_change(key)


def _is_running(action: str, before: Seen | None) -> bool:
    if action == "start":
        return True
    return action not in _ENDS and before is not None and before.running
