"""A command in a container, with its streams: what ``docker exec`` does.

Not by docker-py's exec_start: its socket leaves out what was read into the buffer together with the headers of the
answer, which on a busy machine is the beginning of the output.
"""

import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from typing import Any, Final, Self

from docker import APIClient
from docker.errors import APIError

__all__ = ["STDERR", "STDOUT", "RunningCommand"]

STDOUT: Final = 1
STDERR: Final = 2

_CHUNK: Final = 65536
_EARLY: Final = 1 << 20
"""What is kept at most of the output that comes before the input was taken. Its bytes are the sandbox's to choose."""
_HEADER: Final = struct.Struct(">BxxxL")
"""Of a frame: which stream, and how many bytes follow."""
_SETTLE_SECONDS: Final = 5.0
"""The stream may end a moment before the engine knows the exit code."""


class RunningCommand:
    """A command that runs, and the connection that carries its streams. Errors are docker-py's, and OSError."""

    def __init__(
        self,
        client: APIClient,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool,
        tty: bool = False,
        seconds: float | None = None,
    ) -> None:
        """``seconds``: how long all of it may take; then whatever goes on is a TimeoutError."""
        self._until = None if seconds is None else time.monotonic() + seconds
        self._early = bytearray()
        self._client = client
        self._id = client.exec_create(container, list(command), stdin=stdin, tty=tty)["Id"]
        self._response = client.post(
            f"{client.base_url}/v{client.api_version}/exec/{self._id}/start",
            json={"Detach": False, "Tty": tty},
            headers={"Connection": "Upgrade", "Upgrade": "tcp"},
            stream=True,
            timeout=self._left(),
        )
        if not self._response.ok:
            with self._response:
                raise APIError(self._response.text.strip(), self._response)
        # No public way leads from an answer to its connection; docker-py itself takes this one.
        answer: Any = self._response.raw._fp  # noqa: SLF001
        self._reader: BufferedReader = answer.fp
        self._socket: socket.socket = answer.fp.raw._sock  # noqa: SLF001
        self._socket.settimeout(self._left())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Give up the connection. The command goes on if it has not ended: there is no call that ends one."""
        self._response.close()

    def send(self, data: bytes) -> None:
        """Pass input on; and wait while the command does not take it."""
        self._socket.settimeout(self._left())
        self._socket.sendall(data)

    def feed(self, data: bytes) -> None:
        """Pass all input on, and keep what is printed meanwhile; for callers with one thread.

        BrokenPipeError: the output ended first. An engine that could not start the command closes its own side only,
        and reads no more: whoever goes on sending would wait forever. Over TLS it is only written, not read.
        """
        if isinstance(self._socket, ssl.SSLSocket):
            self.send(data)
            return
        rest, either = memoryview(data), select.poll()
        while rest:
            room = len(self._early) < _EARLY
            either.register(self._socket, select.POLLOUT | (select.POLLIN if room else 0))
            left = self._left()
            for _, what in either.poll(None if left is None else left * 1000):
                if what & ~select.POLLOUT:
                    self._keep()
                else:
                    rest = rest[self._socket.send(rest[:_CHUNK], socket.MSG_DONTWAIT) :]

    def end_input(self) -> None:
        """Tell that the input ended. Over TLS nothing is told: Python's closes both directions, or none."""
        if not isinstance(self._socket, ssl.SSLSocket):
            self._socket.shutdown(socket.SHUT_WR)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield the stream, and what came on it, until the command ends. Without a terminal, it has two of them."""
        while len(header := self._read_header()) == _HEADER.size:
            stream, left = _HEADER.unpack(header)
            while left and (data := self._read(min(left, _CHUNK))):
                left -= len(data)
                yield stream, data

    def raw(self) -> Iterator[bytes]:
        """Yield what comes on a terminal until the command ends."""
        while data := self._read(_CHUNK):
            yield data

    def resize(self, *, rows: int, columns: int) -> None:
        """Tell the terminal how large it is; APIError where the command has not begun, or ended."""
        self._client.exec_resize(self._id, height=rows, width=columns)

    def exit_code(self) -> int | None:
        """Return the exit code after the output ended; None: the engine does not know it, because it did not end."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while (code := self._client.exec_inspect(self._id)["ExitCode"]) is None:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        return int(code)

    def _keep(self) -> None:
        said = self._reader.read1(_CHUNK)
        if not said:
            raise BrokenPipeError("the command ended before it had all of its input")
        self._early += said

    def _read_header(self) -> bytes:
        header = self._take_early(_HEADER.size)
        return header + self._receive(self._reader.read, _HEADER.size - len(header))

    def _read(self, most: int) -> bytes:
        return self._take_early(most) or self._receive(self._reader.read1, most)

    def _receive(self, read: Callable[[int], bytes], most: int) -> bytes:
        """Read; an engine that hung up on input that nobody took resets, after all that it had said was read."""
        self._socket.settimeout(self._left())
        try:
            return read(most)
        except ConnectionResetError:
            return b""  # whether the command ended, the exit code tells

    def _take_early(self, most: int) -> bytes:
        taken = bytes(self._early[:most])
        del self._early[:most]
        return taken

    def _left(self) -> float | None:
        if self._until is None:
            return None
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("it takes too long")
        return left
