"""A way to the API server that a test can cut, heal and listen in on.

It speaks HTTP/1.1, and every connection of a client has one of its own behind the proxy: what happens on one
side happens on the other, and what is upgraded (exec, over SPDY or websockets) passes as it is. Clients come
in the clear, without credentials; the proxy proves itself with those of the kubeconfig that it was made
from. A client that brings a token keeps its own rights.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import tempfile
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Self

    from support.cluster import Cluster

__all__ = ["ApiProxy", "Request", "WatchError"]

_CALL_SECONDS = 20
_LONGEST_HEAD = 1 << 20
_READ = 1 << 16
_PARTINGS = (OSError, EOFError)
"""Whoever leaves in the middle of something leaves."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

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
class WatchError:
    """An event of the type ERROR."""

    resource: str
    code: int
    message: str


@dataclass(frozen=True)
class _Upstream:
    """Where the API server is, and what the proxy proves itself with."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    anonymous: ssl.SSLContext | None
    token: str | None


@dataclass
class _Exchange:
    """A request on its way."""

    method: str
    verb: str
    resource: str
    upgrade: bool
    answered: asyncio.Future[int]


@dataclass(eq=False)
class _Connection:
    """A client's connection, and the one behind it."""

    client: StreamWriter
    server: StreamWriter | None = None
    waiting: deque[_Exchange] = field(default_factory=deque)
    watching: str | None = None
    frozen: bool = False

    def abort(self) -> None:
        for writer in (self.client, self.server):
            if writer is not None:
                writer.transport.abort()


class ApiProxy:
    """The proxy, in a thread of its own between ``with`` and its end."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._upstream = _read_kubeconfig(kubeconfig)
        # Bound for as long as the proxy lives, and never listening: so nobody else gets the port while
        # connections are refused.
        self._reserved = _bind(0)
        self._port = int(self._reserved.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}"
        self.kubeconfig = folder / f"proxy-{self._port}.kubeconfig"
        """For whoever is to come through the proxy."""
        self.kubeconfig.write_text(_kubeconfig(self.url), encoding="utf-8")
        self._requests: list[Request] = []
        self._watch_errors: list[WatchError] = []
        self._connections: set[_Connection] = set()
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

    # What it has seen.

    @property
    def requests(self) -> list[Request]:
        """List all requests that were answered; a watch when it began."""
        return list(self._requests)

    def count(
        self, *, verb: str | None = None, resource: str | None = None, status: int | None = None
    ) -> int:
        """Count the requests that were answered, all or those of a kind."""
        return sum(
            verb in {None, one.verb} and resource in {None, one.resource} and status in {None, one.status}
            for one in self.requests
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

    # Its own thread.

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_SECONDS)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept, sock=_bind(self._port), limit=_LONGEST_HEAD
            )

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
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
        connection = _Connection(writer)
        self._connections.add(connection)
        task = self._loop.create_task(self._serve(connection, reader))
        self._tasks.add(task)

        def forget(ended: asyncio.Task[None]) -> None:
            # Here and not in the task, which never begins if it is cancelled at once.
            connection.abort()
            self._connections.discard(connection)
            self._tasks.discard(ended)

        task.add_done_callback(forget)

    async def _serve(self, connection: _Connection, reader: StreamReader) -> None:
        with suppress(*_PARTINGS):
            await self._join(connection, reader)

    async def _join(self, connection: _Connection, reader: StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        upstream = self._upstream
        has_token = _header(head, "authorization") is not None
        answers, connection.server = await asyncio.open_connection(
            upstream.host,
            upstream.port,
            ssl=upstream.anonymous if has_token else upstream.tls,
            limit=_LONGEST_HEAD,
        )
        asking = asyncio.ensure_future(self._ask(connection, connection.server, reader, head))
        answering = asyncio.ensure_future(self._answer(connection, answers))
        try:
            await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
            if connection.frozen and not asking.done():
                # The server has ended the watch, and the client does not get to know.
                await asking
        finally:
            for task in (asking, answering):
                task.cancel()
            ends = await asyncio.gather(asking, answering, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _ask(
        self, connection: _Connection, server: StreamWriter, reader: StreamReader, head: bytes
    ) -> None:
        """Pass on what the client says."""
        while True:
            exchange = _exchange(head, self._loop.create_future())
            connection.waiting.append(exchange)
            server.write(self._with_token(head))
            await _copy_body(head, reader, server.write, server.drain)
            await server.drain()
            if exchange.upgrade and await exchange.answered == HTTPStatus.SWITCHING_PROTOCOLS:
                await _copy_all(reader, server)
                return
            head = await reader.readuntil(b"\r\n\r\n")

    def _with_token(self, head: bytes) -> bytes:
        if self._upstream.token is None or _header(head, "authorization") is not None:
            return head
        return head[:-2] + f"Authorization: Bearer {self._upstream.token}\r\n\r\n".encode()

    async def _answer(self, connection: _Connection, answers: StreamReader) -> None:
        """Pass on what the API server says."""
        client = connection.client
        while True:
            head = await answers.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            client.write(head)
            if status < HTTPStatus.OK and status != HTTPStatus.SWITCHING_PROTOCOLS:
                continue  # "100 Continue" comes before the answer.
            exchange = connection.waiting.popleft()
            self._requests.append(Request(exchange.verb, exchange.resource, status))
            exchange.answered.set_result(status)
            if status == HTTPStatus.SWITCHING_PROTOCOLS:
                await _copy_all(answers, client)
                return
            bodiless = exchange.method == "HEAD" or status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}
            if not bodiless:
                await self._answer_body(connection, exchange, head, answers)
            await client.drain()

    async def _answer_body(
        self, connection: _Connection, exchange: _Exchange, head: bytes, answers: StreamReader
    ) -> None:
        client = connection.client
        line = b""

        def say(data: bytes) -> None:
            if not connection.frozen:
                client.write(data)

        def overhear(data: bytes) -> None:
            nonlocal line
            *whole, line = (line + data).split(b"\n")
            for each in whole:
                if each.startswith(b'{"type":"ERROR"'):
                    self._note_error(exchange.resource, each)

        watched = exchange.verb == "watch"
        connection.watching = exchange.resource if watched else None
        await _copy_body(
            head, answers, say, client.drain, overhear=overhear if watched else None, to_end=True
        )
        connection.watching = None
        if connection.frozen:
            raise EOFError

    def _note_error(self, resource: str, line: bytes) -> None:
        told = json.loads(line)["object"]
        self._watch_errors.append(WatchError(resource, int(told.get("code", 0)), told.get("message", "")))


async def _copy_body(
    head: bytes,
    reader: StreamReader,
    write: Callable[[bytes], object],
    drain: Callable[[], Coroutine[Any, Any, None]],
    *,
    overhear: Callable[[bytes], None] | None = None,
    to_end: bool = False,
) -> None:
    """Pass a body on, as it is on the wire; ``overhear`` gets what is in it.

    An answer that says nothing about its length goes on to the end of the connection.
    """
    length = _header(head, "content-length")
    if "chunked" in (_header(head, "transfer-encoding") or "").lower():
        while True:
            size_line = await reader.readuntil(b"\r\n")
            size = int(size_line.split(b";")[0], 16)
            write(size_line)
            if size == 0:
                break
            chunk = await reader.readexactly(size + 2)
            write(chunk)
            await drain()
            if overhear is not None:
                overhear(chunk[:-2])
        # What may follow the last chunk, and the empty line that ends it all.
        while True:
            trailer = await reader.readuntil(b"\r\n")
            write(trailer)
            if trailer == b"\r\n":
                return
    left = None if length is None else int(length)
    if left is None and not to_end:
        return
    while left is None or left > 0:
        data = await reader.read(_READ if left is None else min(left, _READ))
        if not data:
            raise EOFError
        write(data)
        await drain()
        left = None if left is None else left - len(data)


async def _copy_all(reader: StreamReader, writer: StreamWriter) -> None:
    while data := await reader.read(_READ):
        writer.write(data)
        await writer.drain()


def _header(head: bytes, name: str) -> str | None:
    wanted = name.encode() + b":"
    for line in head.split(b"\r\n")[1:]:
        if line.lower().startswith(wanted):
            return line[len(wanted) :].strip().decode("latin-1")
    return None


def _exchange(head: bytes, answered: asyncio.Future[int]) -> _Exchange:
    method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    verb, resource = classify(method, target)
    return _Exchange(method, verb, resource, _header(head, "upgrade") is not None, answered)


def classify(method: str, target: str) -> tuple[str, str]:
    """Name the verb and the resource of a request, as the API server does for its own rules."""
    parts = urlsplit(target)
    words = [word for word in parts.path.split("/") if word]
    words = words[2:] if words[:1] == ["api"] else words[3:] if words[:1] == ["apis"] else []
    if not words:
        return method.lower(), parts.path
    # A namespace is a resource too, with a few words of its own below it.
    if words[0] == "namespaces" and len(words) > 2 and words[2] not in {"status", "finalize"}:
        words = words[2:]
    resource = "/".join([words[0], *words[2:3]])
    named = len(words) > 1
    if method == "GET":
        watched = parse_qs(parts.query).get("watch", ["0"])[0] in {"1", "true"}
        return "watch" if watched else "get" if named else "list", resource
    if method == "DELETE" and not named:
        return "deletecollection", resource
    return _VERBS.get(method, method.lower()), resource


def _bind(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


def _read_kubeconfig(path: Path) -> _Upstream:
    read = yaml.safe_load(path.read_text(encoding="utf-8"))

    def named(kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one[kind] for one in read[f"{kind}s"] if one["name"] == name)
        return found

    context = named("context", read["current-context"])
    cluster, user = named("cluster", context["cluster"]), named("user", context["user"])
    address = urlsplit(cluster["server"])
    tls = address.scheme == "https"
    return _Upstream(
        host=address.hostname or "127.0.0.1",
        port=address.port or (443 if tls else 80),
        tls=_tls(path, cluster, user) if tls else None,
        anonymous=_tls(path, cluster, {}) if tls else None,
        token=user.get("token"),
    )


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _content(path, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _content(path, user, "client-certificate"), _content(path, user, "client-key")
    if certificate and key:
        # The library reads them from a file only.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _content(path: Path, entry: dict[str, Any], name: str) -> bytes | None:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return (path.parent / entry[name]).read_bytes() if name in entry else None


def _kubeconfig(url: str) -> str:
    name = "sandkeeper-test-proxy"
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }
    )


@pytest.fixture
def api_proxy(cluster: Cluster, tmp_path: Path) -> Iterator[ApiProxy]:
    """Give a proxy before the shared API server; ``ApiProxy`` itself makes one before any other."""
    with ApiProxy(cluster.kubeconfig, tmp_path) as proxy:
        yield proxy
