"""A way to the Docker engine that a test can listen in on: a socket of its own, behind which the real one is.

What is asked is read on the way; answers pass as they are. A connection of a client has one of its own behind it.
"""

import asyncio
import re
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from typing import Final, Self

from support.wire import LONGEST_HEAD, close_server, copy_body, copy_rest, header

__all__ = ["EngineCalls"]

_UNIX: Final = "unix://"
_SECONDS: Final = 20
_VERSION: Final = re.compile(r"^/v\d+\.\d+")
_OF_ONE: Final = re.compile(r"^/(containers|exec|networks|volumes)/(?!json|create|prune)[^/?]+")
_OF_IMAGE: Final = re.compile(r"^/images/.+/json")


class EngineCalls:
    """The socket, served by a thread between ``with`` and its end."""

    def __init__(self, url: str) -> None:
        self._engine = url.removeprefix(_UNIX)
        # The path of a socket has to be short; that of a test's own folder need not be.
        self._folder = tempfile.TemporaryDirectory(prefix="sk-engine-")
        self._path = f"{self._folder.name}/engine.sock"
        self.url = f"{_UNIX}{self._path}"
        """For whoever is to come this way."""
        self._counts: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine-calls", daemon=True)

    @property
    def counts(self) -> Counter[str]:
        """How often each call was made so far, without its version, what it is about, and what it is asked for."""
        return Counter(self._counts)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()
        self._folder.cleanup()

    async def _listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LONGEST_HEAD)

    async def _end(self) -> None:
        await close_server(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        answers, engine = await asyncio.open_unix_connection(self._engine)
        answering = asyncio.create_task(_answer(answers, writer))
        try:
            # Whoever leaves in the middle of something leaves.
            with suppress(OSError, EOFError):
                await self._ask(reader, engine)
        finally:
            answering.cancel()
            for each in (writer, engine):
                each.close()

    async def _ask(self, reader: asyncio.StreamReader, engine: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            self._counts[_name(head)] += 1
            engine.write(head)
            await copy_body(head, reader, engine.write, engine.drain)
            await engine.drain()
            if header(head, "upgrade") is not None:
                await copy_rest(reader, engine)
                return


async def _answer(answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await copy_rest(answers, writer)


def _name(head: bytes) -> str:
    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
    path = _OF_ONE.sub(r"/\1/*", _VERSION.sub("", target.partition("?")[0]))
    return f"{method} {_OF_IMAGE.sub('/images/*/json', path)}"
