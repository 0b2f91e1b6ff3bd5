"""HTTP/1.1 as it is on the wire, as far as a proxy has to understand it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import Any

__all__ = [
    "LONGEST_HEAD",
    "both_ways",
    "chunk_of",
    "classify",
    "close_server",
    "copy_all",
    "copy_body",
    "copy_rest",
    "header",
    "without",
]

LONGEST_HEAD = 1 << 20
_READ = 1 << 16
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


async def close_server(server: asyncio.Server) -> None:
    """Take no connections any more; those that were just taken are still told to whoever made the server.

    asyncio forgets them, open as they are, if the server is closed before they know that it is theirs: that takes
    them one turn of the loop.
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening)
    await asyncio.sleep(0)
    server.close()


async def copy_body(
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
    length = header(head, "content-length")
    if "chunked" in (header(head, "transfer-encoding") or "").lower():
        await _copy_chunks(reader, write, drain, overhear=overhear)
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
        if overhear is not None:
            overhear(data)
        left = None if left is None else left - len(data)


async def _copy_chunks(
    reader: StreamReader,
    write: Callable[[bytes], object],
    drain: Callable[[], Coroutine[Any, Any, None]],
    *,
    overhear: Callable[[bytes], None] | None,
) -> None:
    while True:
        size_line = await reader.readuntil(b"\r\n")
        size = int(size_line.split(b";")[0], 16)
        if size == 0:
            write(size_line)
            break
        chunk = await reader.readexactly(size + 2)
        # At once, so that whoever writes in between does so between two chunks.
        write(size_line + chunk)
        await drain()
        if overhear is not None:
            overhear(chunk[:-2])
    # What may follow the last chunk, and the empty line that ends it all.
    while True:
        trailer = await reader.readuntil(b"\r\n")
        write(trailer)
        if trailer == b"\r\n":
            return


async def copy_all(reader: StreamReader, writer: StreamWriter) -> None:
    """Pass on whatever comes, to the end."""
    while data := await reader.read(_READ):
        writer.write(data)
        await writer.drain()


async def copy_rest(reader: StreamReader, writer: StreamWriter) -> None:
    """Pass on whatever comes, and that it ended: the other direction may go on."""
    await copy_all(reader, writer)
    writer.write_eof()


@asynccontextmanager
async def both_ways(
    asking: Coroutine[Any, Any, None], answering: Coroutine[Any, Any, None]
) -> AsyncIterator[tuple[asyncio.Future[None], asyncio.Future[None]]]:
    """Pass on in both directions until one of them ends; then the other ends too, unless it is awaited.

    Raises what ended the first of them that failed.
    """
    directions = asyncio.ensure_future(asking), asyncio.ensure_future(answering)
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        yield directions
    finally:
        for each in directions:
            each.cancel()
        ends = await asyncio.gather(*directions, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def header(head: bytes, name: str) -> str | None:
    """Return the value of a header, whose name is given in small letters."""
    wanted = name.encode() + b":"
    for line in head.split(b"\r\n")[1:]:
        if line.lower().startswith(wanted):
            return line[len(wanted) :].strip().decode("latin-1")
    return None


def without(head: bytes, name: str) -> bytes:
    """Take a header out of the head of a request."""
    unwanted = name.encode() + b":"
    return b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(unwanted))


def chunk_of(data: bytes) -> bytes:
    """Write data as a chunk of a body whose length nobody knows beforehand."""
    return b"%x\r\n%b\r\n" % (len(data), data)


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
