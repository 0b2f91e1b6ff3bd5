"""A command in a container, with its streams joined to ours."""

import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from io import BufferedReader
from typing import Any, Final, Self

from docker import APIClient
from docker.errors import APIError

from sandkeeper.cli import terminal

__all__ = ["run_attached"]

_STDERR: Final = 2
_CHUNK: Final = 65536
_HEADER: Final = struct.Struct(">BxxxL")
"""Of a frame: which stream, and how many bytes follow."""
_SETTLE_SECONDS: Final = 5.0
"""The stream may end a moment before the engine knows the exit code, and begin before it takes a size."""


def run_attached(client: APIClient, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> int:
    """Run a command in a container and return its exit code. Nothing of our environment goes with it."""
    made = client.exec_create(container, list(command), stdin=stdin, tty=tty)
    job: str = made["Id"]
    with _Attachment(client, job, tty=tty) as attachment:
        if tty:
            attachment.resize(patiently=True)
        with terminal.raw(attachment.resize) if tty else nullcontext():
            if stdin:
                threading.Thread(target=attachment.feed, name="stdin", daemon=True).start()
            attachment.copy()
    return _exit_code(client, job)


class _Attachment:
    """The connection that carries the streams."""

    def __init__(self, client: APIClient, job: str, *, tty: bool) -> None:
        self._client = client
        self._job = job
        self._tty = tty
        # Not docker-py's exec_start: its socket leaves out what was read into the buffer together with the headers of
        # the answer, which on a busy machine is the beginning of the output.
        self._response = client.post(
            f"{client.base_url}/v{client.api_version}/exec/{job}/start",
            json={"Detach": False, "Tty": tty},
            headers={"Connection": "Upgrade", "Upgrade": "tcp"},
            stream=True,
            timeout=None,
        )
        if not self._response.ok:
            raise APIError(self._response.text.strip(), self._response)
        # No public way leads from an answer to its connection; docker-py itself takes this one.
        answer: Any = self._response.raw._fp  # noqa: SLF001
        self._reader: BufferedReader = answer.fp
        self._socket: socket.socket = answer.fp.raw._sock  # noqa: SLF001
        self._socket.settimeout(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    def resize(self, *, patiently: bool = False) -> None:
        """Tell the other terminal how large ours is."""
        rows, columns = terminal.size()
        deadline = time.monotonic() + (_SETTLE_SECONDS if patiently else 0)
        while True:
            try:
                self._client.exec_resize(self._job, height=rows, width=columns)
            except APIError:
                if time.monotonic() > deadline:
                    return  # it is over already, or has to live with the size it has
                time.sleep(0.01)
            else:
                return

    def feed(self) -> None:
        """Pass our input on until it ends, and tell that it ended."""
        with suppress(OSError):  # the command ended without reading everything
            while data := os.read(sys.stdin.fileno(), _CHUNK):
                self._socket.sendall(data)
            self._socket.shutdown(socket.SHUT_WR)

    def copy(self) -> None:
        """Pass the output on until it ends."""
        for stream, data in self._raw() if self._tty else self._frames():
            target = sys.stderr.buffer if stream == _STDERR else sys.stdout.buffer
            target.write(data)
            target.flush()

    def _raw(self) -> Iterator[tuple[int, bytes]]:
        while data := self._read(_CHUNK):
            yield 1, data

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        while len(header := self._reader.read(_HEADER.size)) == _HEADER.size:
            stream, left = _HEADER.unpack(header)
            while left and (data := self._read(min(left, _CHUNK))):
                left -= len(data)
                yield stream, data

    def _read(self, most: int) -> bytes:
        return self._reader.read1(most)


def _exit_code(client: APIClient, job: str) -> int:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while (code := client.exec_inspect(job)["ExitCode"]) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if code is None:
        raise ConnectionError("the connection to the command was lost, and it may still run")
    return int(code)
