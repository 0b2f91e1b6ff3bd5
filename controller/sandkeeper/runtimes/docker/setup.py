"""The setupCommand: one command in a new container, with a limit of time, and the end of its output if it fails.

The engine has no call that ends a command. One that takes too long is left running: its runtime counts as failed, is
removed, and takes the command along.
"""

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, cast

import requests
import urllib3
from docker import APIClient
from docker.errors import APIError
from docker.types import CancellableStream

from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.docker.failures import explain, is_conflict
from sandkeeper.runtimes.output import Tail, setup_failed

__all__ = ["SetupRun"]

_HEADER: Final = struct.Struct(">BxxxL")
"""Before each piece of output: the stream it belongs to, and its length."""
_CHUNK: Final = 65536
_EXIT_SECONDS: Final = 2.0
"""How long the engine may take to note that a command ended after its output did."""


class SetupRun:
    """One run of the setupCommand, on a thread that may take its time."""

    def __init__(
        self,
        container_id: str,
        config: RuntimeConfig,
        *,
        began: Callable[[str], object],
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self._container_id = container_id
        self._config = config
        self._began = began
        """Told the id of the command in the engine, on the thread."""
        self._guard = guard
        """Called right before what changes something, on the thread; what it raises ends the run."""
        self._lock = threading.Lock()
        self._cancel: CancellableStream[bytes] | None = None
        self._over = False

    def stop_reading(self) -> None:
        """Let the thread end soon: the time is up, or nobody waits any more."""
        with self._lock:
            self._over = True
            cancel, self._cancel = self._cancel, None
        if cancel is not None:
            # It looks for the socket below the response, which may be gone by now.
            with suppress(OSError, AttributeError):
                cancel.close()

    def __call__(self, client: APIClient) -> None:
        """Run it; Permanent with SETUP_FAILED where it fails."""
        tail = Tail(self._config.env)
        command = ["/bin/sh", "-lc", self._config.setup_command or ":"]
        try:
            self._guard()
            exec_id = client.exec_create(self._container_id, command)["Id"]
            self._began(exec_id)
            self._guard()
            with self._start(client, exec_id) as response:
                self._read(response, tail)
        except APIError as error:
            if not is_conflict(error):
                raise
            raise setup_failed(f"could not begin: {explain(error)}", tail, self._config) from error
        if self._over:
            raise setup_failed(
                f"took longer than {self._config.setup_timeout_seconds} seconds", tail, self._config
            )
        code = _exit_code(client, exec_id)
        if code != 0:
            raise setup_failed(
                "ended without an exit code" if code is None else f"ended with exit code {code}",
                tail,
                self._config,
            )

    def _start(self, client: APIClient, exec_id: str) -> requests.Response:
        # docker-py's own way takes the connection from below HTTP, and loses what was read along with the headers.
        response = client.post(
            f"{client.base_url}/v{client.api_version}/exec/{exec_id}/start",
            json={"Detach": False, "Tty": False},
            stream=True,
            timeout=(client.timeout, self._config.setup_timeout_seconds + client.timeout),
        )
        if not response.ok:
            with response:
                raise APIError(response.reason, response=response, explanation=response.text)
        with self._lock:
            self._cancel = CancellableStream(iter(()), response)  # the reading is ours
            over = self._over
        if over:
            self.stop_reading()
        return response

    def _read(self, response: requests.Response, tail: Tail) -> None:
        demultiplex = _Demultiplexer()
        try:
            while chunk := response.raw.read1(_CHUNK):
                for output in demultiplex(chunk):
                    tail.add(output)
        except (OSError, ValueError, urllib3.exceptions.HTTPError):
            # Whoever says that it is over takes the connection away, in the middle of whatever happens here.
            if not self._over:
                raise


class _Demultiplexer:
    """Takes the framing off. Standard output and standard error stay in the order in which they came."""

    def __init__(self) -> None:
        self._rest = b""
        self._missing = 0

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        self._rest += chunk
        while self._rest:
            if not self._missing:
                if len(self._rest) < _HEADER.size:
                    return
                _, self._missing = _HEADER.unpack_from(self._rest)
                self._rest = self._rest[_HEADER.size :]
            output, self._rest = self._rest[: self._missing], self._rest[self._missing :]
            self._missing -= len(output)
            yield output


def _exit_code(client: APIClient, exec_id: str) -> int | None:
    """Return the exit code; None where the engine never comes to know it, because the container died."""
    until = time.monotonic() + _EXIT_SECONDS
    while True:
        found = client.exec_inspect(exec_id)
        if not found["Running"] or time.monotonic() > until:
            return cast("int | None", found["ExitCode"])
        time.sleep(0.05)
