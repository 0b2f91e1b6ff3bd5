"""Commands with input and output in containers of one engine, for others than the operator.

Without the circuit breaker of :mod:`engine`: whoever asks is told that the engine is not there, and may ask again. Each
command has a thread, because docker-py blocks.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import requests
from docker import APIClient
from docker.errors import APIError, DockerException

from sandkeeper.runtimes.docker.failures import explain, why_unreachable
from sandkeeper.runtimes.docker.pool import DaemonPool
from sandkeeper.runtimes.docker.running import STDERR, RunningCommand
from sandkeeper.runtimes.docker.transport import Connect, from_environment

__all__ = ["CommandLost", "Commands", "Found"]

T = TypeVar("T")

_ENGINE_SECONDS: Final = 30.0
"""How long the engine may take for anything but a command."""


class CommandLost(Exception):  # noqa: N818 - what happened is the name
    """The engine refused, or was lost, or it took too long; a command that began may still run."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A container, as far as whoever runs commands in it has to know it."""

    engine: str
    """The id of the engine that it is on."""
    running: bool
    binds: Mapping[str, str]
    """The host's directories in it, by where they are mounted."""


class Commands:
    """Runs them. Nothing is asked of the engine before the first call. Every method raises :class:`CommandLost`."""

    def __init__(self, connect: Connect = from_environment, *, workers: int = 16) -> None:
        """``workers``: how many run at once; others wait, within their time."""
        self._connect = connect
        self._pool = DaemonPool(size=workers, name="docker-command")
        self._connecting = threading.Lock()
        self._client: APIClient | None = None

    async def find(self, container: str) -> Found:
        """Look at a container."""

        def look(client: APIClient) -> Found:
            found = client.inspect_container(container)
            mounts = found.get("Mounts") or ()
            return Found(
                engine=client.info()["ID"],
                running=found["State"]["Running"],
                binds={one["Destination"]: one["Source"] for one in mounts if one["Type"] == "bind"},
            )

        return await self._call(look, seconds=_ENGINE_SECONDS)

    async def run(
        self,
        container: str,
        command: Sequence[str],
        stdin: bytes,
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None],
        seconds: float,
    ) -> int | None:
        """Run a command to its end, and return its exit code; None: that is not known.

        The handlers are called on a thread, with output as it comes; what they raise gives the command up. The command
        has to take its input before it prints more than 1 MiB (over TLS: more than a little): one thread does both.
        """

        def run(client: APIClient) -> int | None:
            with RunningCommand(client, container, command, stdin=True, seconds=seconds) as running:
                # A command may end without having read everything, and either side may notice first.
                with suppress(ConnectionError):
                    running.feed(stdin)
                    running.end_input()
                for stream, data in running.frames():
                    (on_error if stream == STDERR else on_output)(data)
                return running.exit_code()

        return await self._call(run, seconds=seconds)

    def close(self) -> None:
        """Let go of threads and connections; whatever is called later opens others."""
        self._pool.close()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def _call(self, call: Callable[[APIClient], T], *, seconds: float) -> T:
        job = self._pool.submit(lambda: call(self._connected()))
        try:
            async with asyncio.timeout(seconds):
                return await job
        except TimeoutError as error:
            raise CommandLost(f"it did not end within {seconds:g} seconds") from error
        except APIError as error:
            raise CommandLost(f"the Docker engine says: {explain(error)}") from error
        except (requests.RequestException, DockerException, OSError) as error:
            raise CommandLost(f"the Docker engine was lost: {why_unreachable(error)}") from error

    def _connected(self) -> APIClient:
        with self._connecting:
            client = self._client
            if client is None:
                client = self._client = self._connect(_ENGINE_SECONDS)
            return client
