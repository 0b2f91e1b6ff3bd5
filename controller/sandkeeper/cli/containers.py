"""Commands in Docker containers, by the engine of $DOCKER_HOST."""

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from typing import Any, Final, Self

import requests
from docker import APIClient
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env

from sandkeeper.cli import terminal
from sandkeeper.cli.attachment import CHUNK, STDOUT, Begin
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.failures import Failure
from sandkeeper.cli.sandboxes import Object

__all__ = ["way_in"]

_ENGINE_SECONDS: Final = 60
_HEADER: Final = struct.Struct(">BxxxL")
"""Of a frame: which stream, and how many bytes follow."""
_SETTLE_SECONDS: Final = 5.0
"""The stream may end a moment before the engine knows the exit code, and begin before it takes a size."""


@contextmanager
def way_in(_cluster: Cluster, sandbox: Object) -> Iterator[Begin]:
    """Connect to the engine, which has to be the one that the runtime is on."""
    runtime = sandbox["status"]["runtime"]
    container, identity = runtime["id"], runtime.get("node", "")
    client = None
    try:
        client = engine = APIClient(version="auto", timeout=_ENGINE_SECONDS, **kwargs_from_env())
        found = client.info()["ID"]
        if identity and found != identity:
            raise Failure(
                f"The runtime is on the Docker engine {identity}, but $DOCKER_HOST leads to {found}: "
                "name the right one."
            )

        def begin(command: Sequence[str], *, stdin: bool, tty: bool) -> _Attachment:
            made = engine.exec_create(container, list(command), stdin=stdin, tty=tty)
            return _Attachment(engine, made["Id"], tty=tty)

        yield begin
    except APIError as error:
        raise Failure(f"The Docker engine refused: {error.explanation or error}") from error
    except BrokenPipeError:
        raise  # whoever reads our output has gone, which is no fault of the engine
    except (DockerException, requests.RequestException, OSError) as error:
        raise Failure(f"The Docker engine was not reached: {error}") from error
    finally:
        if client is not None:
            client.close()


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
        if self._tty:
            self._resize(patience=_SETTLE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end_input(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def output(self) -> Iterator[tuple[int, bytes]]:
        return self._raw() if self._tty else self._frames()

    def resize(self) -> None:
        self._resize(patience=0)

    def exit_code(self) -> int:
        deadline = time.monotonic() + _SETTLE_SECONDS
        while (code := self._client.exec_inspect(self._job)["ExitCode"]) is None:
            if time.monotonic() > deadline:
                raise ConnectionError("the connection to the command was lost, and it may still run")
            time.sleep(0.02)
        return int(code)

    def _resize(self, *, patience: float) -> None:
        rows, columns = terminal.size()
        deadline = time.monotonic() + patience
        while True:
            try:
                self._client.exec_resize(self._job, height=rows, width=columns)
            except APIError:
                if time.monotonic() > deadline:
                    return  # it is over already, or has to live with the size it has
                time.sleep(0.01)
            else:
                return

    def _raw(self) -> Iterator[tuple[int, bytes]]:
        while data := self._read(CHUNK):
            yield STDOUT, data

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        while len(header := self._reader.read(_HEADER.size)) == _HEADER.size:
            stream, left = _HEADER.unpack(header)
            while left and (data := self._read(min(left, CHUNK))):
                left -= len(data)
                yield stream, data

    def _read(self, most: int) -> bytes:
        return self._reader.read1(most)
