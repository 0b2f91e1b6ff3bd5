"""A way to the API server that a test can cut, heal, listen in on, and trouble in other ways.

It speaks HTTP/1.1, and every connection of a client has one of its own behind the proxy: what happens on one
side happens on the other, and what is upgraded (exec, over SPDY or websockets) passes as it is. Clients come
in the clear, without credentials, or with the token that the proxy gave out; it proves itself with those of the
kubeconfig that it was made from. A client that brings another token keeps its own rights.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from support.relay import Connection
from support.trouble import PASS, Asked, Fate, Judge
from support.upstream import kubeconfig_of, read_kubeconfig
from support.wire import LONGEST_HEAD, classify, close_server

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Coroutine, Iterator
    from pathlib import Path
    from typing import Self

    from support.cluster import Cluster

__all__ = ["ApiProxy", "Request", "WatchError", "Write", "classify"]

_CALL_SECONDS = 20

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A request that was answered, in the words of Kubernetes' own rules of access."""

    verb: str
    """get, list, watch, create, update, patch, delete, deletecollection."""
    resource: str
    """With its subresource (pods, pods/exec, sandboxes/status); the path for what is no resource."""
    status: int


@dataclass(frozen=True)
class Write:
    """A write that took effect."""

    verb: str
    resource: str
    namespace: str
    name: str
    version: int
    """The resourceVersion that it made, which puts all that happens in one order. 0: the API server did not say."""
    at: float
    """When it was answered, by time.monotonic."""


@dataclass(frozen=True)
class WatchError:
    """An event of the type ERROR."""

    resource: str
    code: int
    message: str


class ApiProxy:
    """The proxy, in a thread of its own between ``with`` and its end."""

    def __init__(self, kubeconfig: Path, folder: Path, *, token: bool = False) -> None:
        self.upstream = read_kubeconfig(kubeconfig)
        self.issued: str | None = None
        self.revoked: set[str] = set()
        # Bound for as long as the proxy lives, and never listening: so nobody else gets the port while
        # connections are refused.
        self._reserved = _bind(0)
        self._port = int(self._reserved.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}"
        self.kubeconfig = folder / f"proxy-{self._port}.kubeconfig"
        """For whoever is to come through the proxy."""
        if token:
            self.renew_token()
        else:
            self.kubeconfig.write_text(kubeconfig_of(self.url), encoding="utf-8")
        self._requests: list[Request] = []
        self._counts: Counter[Request] = Counter()
        self._writes: list[Write] = []
        self._watch_errors: list[WatchError] = []
        self._judge: Judge | None = None
        self._struck: Counter[str] = Counter()
        self._torn = 0
        # In the order in which they began.
        self._connections: dict[Connection, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        self._loop.close()
        self._reserved.close()

    # What a test does to it.

    def cut(self) -> None:
        """Close all connections and refuse new ones, as an API server does that is gone."""
        self._call(self._cut())

    def heal(self) -> None:
        """Take connections again."""
        self._call(self._listen())

    def freeze_watches(self) -> int:
        """Let the watches that are open say nothing more, for good; how many that are.

        They stay open, even when the API server ends them: that is what a lost connection looks like. Who
        closes one and asks anew is answered.
        """
        return self._call(self._freeze())

    def end_frozen(self) -> int:
        """End the connections whose watches are frozen; how many that are."""
        return self._call(self._end_frozen())

    def tear_watches(self, *, anyway: bool = True) -> int:
        """End each watch in the middle of its next event, or no more (``anyway`` False); how many are open."""
        return self._call(self._tear(anyway=anyway))

    def repeat_events(self, chance: random.Random) -> int:
        """Let the open watches say some of their events once more, stale as they are; how many."""
        return self._call(self._repeat(chance))

    def renew_token(self) -> None:
        """Give out a new token, by the kubeconfig; whoever comes with an older one is told that it expired."""
        if self.issued is not None:
            self.revoked.add(self.issued)
        self.issued = secrets.token_hex(8)
        new = self.kubeconfig.with_suffix(".new")
        new.write_text(kubeconfig_of(self.url, self.issued), encoding="utf-8")
        new.replace(self.kubeconfig)

    @contextmanager
    def judged_by(self, judge: Judge) -> Iterator[Counter[str]]:
        """Ask somebody about every request; count those that were not simply passed on, by their verb."""
        self._struck = struck = Counter[str]()
        self._judge = judge
        try:
            yield struck
        finally:
            self._judge = None

    # What it has seen.

    @property
    def requests(self) -> list[Request]:
        """List all requests that were answered; a watch when it began."""
        return list(self._requests)

    @property
    def writes(self) -> list[Write]:
        """List all writes that took effect."""
        return list(self._writes)

    def count(
        self, *, verb: str | None = None, resource: str | None = None, status: int | None = None
    ) -> int:
        """Count the requests that were answered, all or those of a kind."""
        return sum(
            count
            for one, count in self._counts.copy().items()
            if verb in {None, one.verb} and resource in {None, one.resource} and status in {None, one.status}
        )

    @property
    def watch_errors(self) -> list[WatchError]:
        """List the ERROR events of watches."""
        return list(self._watch_errors)

    @property
    def gone(self) -> int:
        """Count how often somebody was told, by a status or in a watch, that a revision is gone (410)."""
        return self.count(status=HTTPStatus.GONE) + sum(
            error.code == HTTPStatus.GONE for error in self.watch_errors
        )

    def open_watches(self, resource: str | None = None) -> int:
        """Count the watches that are open and not frozen."""
        return self._call(self._count_open(resource))

    @property
    def torn(self) -> int:
        """Count the watches that were ended in the middle of an event."""
        return self._torn

    # What its connections ask and tell.

    def judge(self, asked: Asked) -> Fate:
        """Decide what becomes of a request."""
        judge = self._judge
        fate = PASS if judge is None else judge(asked)
        if fate != PASS:
            self._struck[asked.verb] += 1
        return fate

    def note_request(self, asked: Asked, status: int) -> None:
        """Take that a request was answered."""
        request = Request(asked.verb, asked.resource, status)
        self._requests.append(request)
        self._counts[request] += 1

    def note_error(self, resource: str, line: bytes) -> None:
        """Take an event of the type ERROR."""
        told = json.loads(line)["object"]
        self._watch_errors.append(WatchError(resource, int(told.get("code", 0)), told.get("message", "")))

    def note_write(self, asked: Asked, body: bytes) -> None:
        """Take what the API server answered to a write that took effect."""
        if not body.startswith(b"{"):
            return  # somebody asked for another language than JSON
        metadata = json.loads(body).get("metadata", {})
        self._writes.append(
            Write(
                asked.verb,
                asked.resource,
                namespace=metadata.get("namespace", ""),
                name=metadata.get("name", ""),
                version=int(metadata.get("resourceVersion") or 0),
                at=time.monotonic(),
            )
        )

    # Its own thread.

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_SECONDS)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept, sock=_bind(self._port), limit=LONGEST_HEAD
            )

    async def _cut(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await close_server(server)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # One more turn, in which the connections that were aborted are closed.
        await asyncio.sleep(0)

    async def _freeze(self) -> int:
        found = [one for one in self._connections if one.watching and not one.frozen]
        for connection in found:
            connection.frozen = True
        return len(found)

    async def _end_frozen(self) -> int:
        found = [one for one in self._connections if one.frozen]
        for connection in found:
            connection.abort()
        return len(found)

    async def _tear(self, *, anyway: bool) -> int:
        found = [one for one in self._connections if one.watching and not one.frozen]
        for connection in found:
            connection.tear(anyway=anyway)
        return len(found)

    async def _repeat(self, chance: random.Random) -> int:
        return sum(connection.repeat(chance) for connection in tuple(self._connections))

    async def _count_open(self, resource: str | None) -> int:
        return sum(
            not one.frozen and one.watching is not None and resource in {None, one.watching}
            for one in self._connections
        )

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._server is None:
            # It was on its way when the connections were cut.
            writer.transport.abort()
            return
        connection = Connection(self, reader, writer)
        self._connections[connection] = None
        task = self._loop.create_task(connection.serve())
        self._tasks.add(task)

        def forget(ended: asyncio.Task[None]) -> None:
            # Here and not in the task, which never begins if it is cancelled at once.
            self._torn += connection.torn
            connection.abort()
            del self._connections[connection]
            self._tasks.discard(ended)

        task.add_done_callback(forget)


def _bind(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


@pytest.fixture
def api_proxy(cluster: Cluster, tmp_path: Path) -> Iterator[ApiProxy]:
    """Give a proxy before the shared API server; ``ApiProxy`` itself makes one before any other."""
    with ApiProxy(cluster.kubeconfig, tmp_path) as proxy:
        yield proxy
