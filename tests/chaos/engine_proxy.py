"""A way to a Docker engine that lies between it and the operator, and can go wrong in all the ways that an engine can.

Each connection of a client has one of its own behind the proxy, and what is upgraded (a command's input and output)
passes as it is. Requests are told from each other one by one, so that a fault hits as many of them as it says, and
:attr:`EngineProxy.struck` proves how many those were.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from support.wire import LONGEST_HEAD, both_ways, chunk_of, close_server, copy_body, copy_rest, header

__all__ = ["Asked", "EngineProxy", "Fate"]

_PARTINGS: Final = (OSError, EOFError)
"""Whoever leaves in the middle of something leaves."""
_ID: Final = re.compile(r"^[0-9a-f]{64}$")


class Fate(Enum):
    """What becomes of a request."""

    NORMAL = "passed on, and answered"
    HANG = "never answered, and never passed on"
    LOSE = "passed on, its answer lost"
    """The worst of all: it took effect, and whoever asked does not know."""
    FAIL = "answered by an error of the engine"


@dataclass(frozen=True)
class Asked:
    """A request of a client: ``GET /containers/{id}/json``, without the version and without what differs."""

    method: str
    path: str

    @property
    def changes(self) -> bool:
        """Whether it is to change something."""
        return self.method not in {"GET", "HEAD"}


Judge = Callable[[Asked], Fate]


@dataclass(eq=False)
class _Connection:
    client: asyncio.StreamWriter
    engine: asyncio.StreamWriter | None = None
    fates: "asyncio.Queue[tuple[Asked, Fate]]" = field(default_factory=asyncio.Queue)
    follows: bool = False
    """It carries the engine's events."""
    hangs: bool = False
    upgraded: asyncio.Event = field(default_factory=asyncio.Event)

    def abort(self) -> None:
        for writer in (self.client, self.engine):
            if writer is not None:
                writer.transport.abort()


class EngineProxy:
    """The proxy, on a socket of its own between ``async with`` and its end."""

    def __init__(self, engine: Path, socket: Path) -> None:
        self._engine = engine
        self._socket = socket
        self.url = f"unix://{socket}"
        """What DOCKER_HOST is to be."""
        self.asked: Counter[Asked] = Counter()
        """The requests that came."""
        self.struck: Counter[Fate] = Counter()
        """The requests that fared otherwise than they should have."""
        self.most_connections = 0
        """The most that clients had open at once."""
        self._judge: Judge = _normal
        self._delay = 0.0
        self.delayed = 0
        """Answers that came late."""
        self._silent = False
        self.swallowed = 0
        """Bytes of the engine's events that nobody got to see."""
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._cut()

    @property
    def open_connections(self) -> int:
        """How many connections clients have open."""
        return len(self._connections)

    # --- what can go wrong --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def cut(self) -> AsyncIterator[None]:
        """Close all connections and refuse new ones."""
        await self._cut()
        try:
            yield
        finally:
            await self._listen()

    @asynccontextmanager
    async def judged(self, judge: Judge) -> AsyncIterator[None]:
        """Let a judge decide on each request. What hangs is given up at the end."""
        self._judge = judge
        try:
            yield
        finally:
            self._judge = _normal
            await self._end([one for one in self._connections if one.hangs])

    @asynccontextmanager
    async def slow(self, seconds: float) -> AsyncIterator[None]:
        """Let each answer come so much later."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    @asynccontextmanager
    async def silent(self) -> AsyncIterator[int]:
        """Let the streams of events that are open say nothing; yield how many they are.

        At the end they break, for what was not told cannot be told any more.
        """
        self._silent = True
        silenced = [one for one in self._connections if one.follows]
        try:
            yield len(silenced)
        finally:
            self._silent = False
            await self._end([one for one in silenced if one in self._connections])

    async def break_streams(self) -> int:
        """Break the streams of events in the middle of a line; return how many there were."""
        streams = [one for one in self._connections if one.follows]
        for stream in streams:
            stream.client.write(chunk_of(b'{"status":"die","id":"'))
        await asyncio.gather(*(_flush(stream.client) for stream in streams))
        await self._end(streams)
        return len(streams)

    # --- connections --------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_unix_server(
                self._accept, path=self._socket, limit=LONGEST_HEAD, backlog=128
            )

    async def _cut(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await close_server(server)
            self._socket.unlink(missing_ok=True)
        await self._end(list(self._connections))

    async def _end(self, connections: list[_Connection]) -> None:
        tasks = [self._connections[one] for one in connections if one in self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()  # it was on its way when the connections were cut
            return
        connection = _Connection(writer)
        task = asyncio.get_running_loop().create_task(self._serve(connection, reader))
        self._connections[connection] = task
        self.most_connections = max(self.most_connections, len(self._connections))

        def forget(_: asyncio.Task[None]) -> None:
            connection.abort()
            self._connections.pop(connection, None)

        task.add_done_callback(forget)

    async def _serve(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        with suppress(*_PARTINGS):
            answers, connection.engine = await asyncio.open_unix_connection(self._engine, limit=LONGEST_HEAD)
            directions = self._ask(connection, connection.engine, reader), self._answer(connection, answers)
            async with both_ways(*directions) as (_, answering):
                if connection.upgraded.is_set() and not answering.done():
                    # The client has said all that it had to say, and still listens.
                    await answering

    # --- one direction, and the other ---------------------------------------------------------------------------------

    async def _ask(
        self, connection: _Connection, engine: asyncio.StreamWriter, reader: asyncio.StreamReader
    ) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            asked = _asked(head)
            self.asked[asked] += 1
            fate = self._judge(asked)
            if fate is not Fate.NORMAL:
                self.struck[fate] += 1
            if fate is Fate.HANG:
                connection.hangs = True
                await asyncio.Event().wait()
            if fate is Fate.FAIL:
                await copy_body(head, reader, _nowhere, _at_once)
                connection.client.write(_error())
                await connection.client.drain()
                continue
            connection.fates.put_nowait((asked, fate))
            engine.write(head)
            await copy_body(head, reader, engine.write, engine.drain)
            await engine.drain()
            if header(head, "upgrade") is not None:
                await connection.upgraded.wait()
                await copy_rest(reader, engine)
                return

    async def _answer(self, connection: _Connection, answers: asyncio.StreamReader) -> None:
        client = connection.client
        while True:
            head = await answers.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            asked, fate = await connection.fates.get()
            if fate is Fate.LOSE:
                raise EOFError
            if self._delay:
                self.delayed += 1
                await asyncio.sleep(self._delay)
            client.write(head)
            if status == HTTPStatus.SWITCHING_PROTOCOLS:
                connection.upgraded.set()
                await copy_rest(answers, client)
                return
            if asked.method != "HEAD" and status not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
                connection.follows = asked.path == "/events"
                await copy_body(head, answers, partial(self._say, connection), client.drain, to_end=True)
                connection.follows = False
            await client.drain()

    def _say(self, connection: _Connection, data: bytes) -> None:
        if connection.follows and self._silent:
            self.swallowed += len(data)
        else:
            connection.client.write(data)


def _normal(_: Asked) -> Fate:
    return Fate.NORMAL


def _nowhere(_: bytes) -> None:
    """Take what nobody is to have."""


async def _at_once() -> None:
    """Wait for nothing."""


async def _flush(writer: asyncio.StreamWriter) -> None:
    with suppress(*_PARTINGS):
        await writer.drain()


def _error() -> bytes:
    body = json.dumps({"message": "the engine is in trouble"}).encode()
    head = (
        "HTTP/1.1 500 Internal Server Error",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*head, "", "")).encode() + body


def _asked(head: bytes) -> Asked:
    method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    words = [word for word in urlsplit(target).path.split("/") if word]
    if words and re.fullmatch(r"v\d+\.\d+", words[0]):
        del words[0]
    return Asked(method, "/" + "/".join("{id}" if _ID.fullmatch(word) else word for word in words))
