"""How many connections to its engine a process has, as the kernel knows it."""

import asyncio
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from docker import APIClient

from sandkeeper.runtimes.docker.transport import socket_of

__all__ = ["Sockets"]

_PAUSE = 0.25


class Sockets:
    """Looks again and again between ``async with`` and its end, and keeps the most that it saw."""

    def __init__(self, pid: int, engine: APIClient) -> None:
        path = socket_of(engine)
        if path is None:
            raise ValueError("the connections to an engine on another host cannot be counted")
        self._pid = pid
        self._path = path
        self._task: asyncio.Task[None] | None = None
        self.most = 0
        self.most_threads = 0

    async def __aenter__(self) -> Self:
        """Begin."""
        self._task = asyncio.create_task(self._keep_looking())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        assert self.most, "no connection was seen, so it was looked for in the wrong place"

    async def _keep_looking(self) -> None:
        while True:
            self.most = max(self.most, await asyncio.to_thread(self._look))
            self.most_threads = max(self.most_threads, self._threads())
            await asyncio.sleep(_PAUSE)

    def _threads(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self._pid}/task").iterdir())

    def _look(self) -> int:
        # A client's socket has no name of its own; the engine's end of the connection has, and knows the other end.
        listed = subprocess.run(["ss", "-xnH", "src", self._path], check=True, capture_output=True, text=True)
        clients = {line.split()[7] for line in listed.stdout.splitlines()}
        return len(clients & self._own())

    def _own(self) -> set[str]:
        found = set()
        for descriptor in Path(f"/proc/{self._pid}/fd").iterdir():
            with suppress(OSError):  # it was closed meanwhile
                found.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
        return found
