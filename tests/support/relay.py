"""One client's connection to a proxy, and the one behind it: what happens on one side happens on the other."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from support.trouble import Asked, Fate, Refusal
from support.wire import LONGEST_HEAD, both_ways, chunk_of, classify, copy_all, copy_body, header, without

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from support.upstream import Upstream

__all__ = ["Connection", "Hub"]

_PARTINGS = (OSError, EOFError)
"""Whoever leaves in the middle of something leaves."""
_REMEMBERED = 50
"""Events of a watch that may be said once more."""
_HANDSHAKE_SECONDS = 10
_EXPIRED = Refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized")


class Hub(Protocol):
    """What all connections of a proxy have in common."""

    upstream: Upstream
    issued: str | None
    """The token that the proxy itself gave out, if it did."""
    revoked: set[str]

    def judge(self, asked: Asked) -> Fate:
        """Decide what becomes of a request."""

    def note_request(self, asked: Asked, status: int) -> None:
        """Take that a request was answered."""

    def note_error(self, resource: str, line: bytes) -> None:
        """Take an event of the type ERROR."""

    def note_write(self, asked: Asked, body: bytes) -> None:
        """Take what the API server answered to a write that took effect."""


@dataclass
class _Exchange:
    """A request on its way."""

    method: str
    asked: Asked
    lost: bool
    answered: asyncio.Future[int]
    dry: bool
    """Nothing is kept of it."""


class Connection:
    """A connection. All methods are for the proxy's own thread."""

    def __init__(self, hub: Hub, reader: StreamReader, client: StreamWriter) -> None:
        self.watching: str | None = None
        """The resource of the watch that it has at the moment."""
        self.frozen = False
        self.torn = False
        """It was ended in the middle of an event."""
        self._hub = hub
        self._reader = reader
        self._client = client
        self._server: StreamWriter | None = None
        self._waiting: deque[_Exchange] = deque()
        self._events: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._line = b""
        """The beginning of an event whose end has not come yet."""
        self._tearing = False

    # What may be done to it.

    def abort(self) -> None:
        """End it on both sides."""
        for writer in (self._client, self._server):
            if writer is not None:
                writer.transport.abort()

    def tear(self, *, anyway: bool = True) -> None:
        """Let the next event of its watch be its last, and half of it never come; not any more: ``anyway`` False."""
        self._tearing = anyway

    def repeat(self, chance: random.Random) -> int:
        """Say some events of its watch once more, as they were, in any order; how many."""
        if self.frozen or self.watching is None or self._line or not self._events:
            return 0
        chosen = chance.choices(tuple(self._events), k=min(len(self._events), 10))
        self._client.write(b"".join(chunk_of(event + b"\n") for event in chosen))
        return len(chosen)

    # What it does.

    async def serve(self) -> None:
        """Pass on until either side ends it."""
        with suppress(*_PARTINGS):
            await self._join()

    async def _join(self) -> None:
        head = await self._reader.readuntil(b"\r\n\r\n")
        upstream = self._hub.upstream
        answers, self._server = await _open(
            upstream, upstream.anonymous if self._brings_token(head) else upstream.tls
        )
        async with both_ways(self._ask(self._server, head), self._answer(answers)) as (asking, _):
            if self.frozen and not asking.done():
                # The server has ended the watch, and the client does not get to know.
                await asking

    async def _ask(self, server: StreamWriter, head: bytes) -> None:
        """Pass on what the client says."""
        while True:
            method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
            asked = Asked(*classify(method, target))
            fate = self._fate_of(head, asked)
            if fate.delay:
                await asyncio.sleep(fate.delay)
            if fate.refusal is not None:
                await self._refuse(head, asked, fate.refusal)
            else:
                answered = asyncio.get_running_loop().create_future()
                dry = "dryRun=" in target
                self._waiting.append(_Exchange(method, asked, fate.lost, answered, dry))
                server.write(self._with_credentials(head))
                await copy_body(head, self._reader, server.write, server.drain)
                await server.drain()
                upgrade = header(head, "upgrade") is not None
                if upgrade and await answered == HTTPStatus.SWITCHING_PROTOCOLS:
                    await copy_all(self._reader, server)
                    return
            head = await self._reader.readuntil(b"\r\n\r\n")

    def _fate_of(self, head: bytes, asked: Asked) -> Fate:
        if _token(head) in self._hub.revoked:
            return Fate(refusal=_EXPIRED)
        return self._hub.judge(asked)

    async def _refuse(self, head: bytes, asked: Asked, refusal: Refusal) -> None:
        # Whoever asks waits for each answer before the next request: none is on its way.
        async def no_matter() -> None:
            """Nothing is written that could pile up."""

        await copy_body(head, self._reader, len, no_matter)
        self._hub.note_request(asked, refusal.status)
        self._client.write(refusal.to_bytes())
        await self._client.drain()

    def _brings_token(self, head: bytes) -> bool:
        token = _token(head)
        return token is not None and token != self._hub.issued and token not in self._hub.revoked

    def _with_credentials(self, head: bytes) -> bytes:
        if self._brings_token(head):
            return head
        head, token = without(head, "authorization"), self._hub.upstream.token
        return head if token is None else head[:-2] + f"Authorization: Bearer {token}\r\n\r\n".encode()

    async def _answer(self, answers: StreamReader) -> None:
        """Pass on what the API server says."""
        while True:
            head = await answers.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            if status >= HTTPStatus.OK and self._waiting[0].lost:
                raise EOFError
            self._client.write(head)
            if status < HTTPStatus.OK and status != HTTPStatus.SWITCHING_PROTOCOLS:
                continue  # "100 Continue" comes before the answer.
            exchange = self._waiting.popleft()
            self._hub.note_request(exchange.asked, status)
            exchange.answered.set_result(status)
            if status == HTTPStatus.SWITCHING_PROTOCOLS:
                await copy_all(answers, self._client)
                return
            bodiless = exchange.method == "HEAD" or status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}
            if not bodiless:
                await self._answer_body(exchange, head, answers, changed=status < HTTPStatus.BAD_REQUEST)
            await self._client.drain()

    async def _answer_body(
        self, exchange: _Exchange, head: bytes, answers: StreamReader, *, changed: bool
    ) -> None:
        watched = exchange.asked.verb == "watch"
        if not watched:
            said = bytearray()
            keep = said.extend if exchange.asked.writes and changed and not exchange.dry else None
            await copy_body(head, answers, self._client.write, self._client.drain, overhear=keep, to_end=True)
            if keep is not None:
                self._hub.note_write(exchange.asked, bytes(said))
            return
        self.watching, self._line = exchange.asked.resource, b""
        await copy_body(head, answers, self._say, self._client.drain, overhear=self._overhear, to_end=True)
        self.watching = None
        if self.frozen:
            raise EOFError

    def _say(self, data: bytes) -> None:
        if self.frozen:
            return
        self.torn = self._tearing
        self._client.write(data[: len(data) // 2] if self.torn else data)

    def _overhear(self, data: bytes) -> None:
        if self.torn:
            raise EOFError
        *whole, self._line = (self._line + data).split(b"\n")
        for event in whole:
            if event.startswith(b'{"type":"ERROR"'):
                self._hub.note_error(self.watching or "", event)
            elif event:
                self._events.append(event)


def _token(head: bytes) -> str | None:
    found = header(head, "authorization")
    return None if found is None else found.removeprefix("Bearer ")


async def _open(upstream: Upstream, tls: ssl.SSLContext | None) -> tuple[StreamReader, StreamWriter]:
    """Connect to the server behind the proxy; cancelled, it leaves nothing open.

    By itself asyncio would: it does not close a TLS connection whose handshake has yet to begin, nor at once one
    whose handshake has just ended.
    """
    opening = asyncio.ensure_future(
        asyncio.open_connection(
            upstream.host,
            upstream.port,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else _HANDSHAKE_SECONDS,
            limit=LONGEST_HEAD,
        )
    )
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        with suppress(OSError):
            _, writer = await opening
            writer.transport.abort()
        raise
