"""Commands in Docker containers, by the engine of $DOCKER_HOST."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Self

import requests
from docker import APIClient
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env

from sandkeeper.cli import terminal
from sandkeeper.cli.attachment import STDOUT, Begin
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.failures import Failure
from sandkeeper.cli.sandboxes import Object
from sandkeeper.runtimes.docker.running import RunningCommand

__all__ = ["way_in"]

_ENGINE_SECONDS: Final = 60
_SETTLE_SECONDS: Final = 5.0
"""The stream may begin a moment before the engine takes a size."""


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
            return _Attachment(RunningCommand(engine, container, command, stdin=stdin, tty=tty), tty=tty)

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
    """The streams of one command, and its terminal's size."""

    def __init__(self, running: RunningCommand, *, tty: bool) -> None:
        self._running = running
        self._tty = tty

    def __enter__(self) -> Self:
        self._running.__enter__()
        if self._tty:
            self._resize(patience=_SETTLE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__()

    def send(self, data: bytes) -> None:
        self._running.send(data)

    def end_input(self) -> None:
        self._running.end_input()

    def output(self) -> Iterator[tuple[int, bytes]]:
        return ((STDOUT, data) for data in self._running.raw()) if self._tty else self._running.frames()

    def resize(self) -> None:
        self._resize(patience=0)

    def exit_code(self) -> int:
        code = self._running.exit_code()
        if code is None:
            raise ConnectionError("the connection to the command was lost, and it may still run")
        return code

    def _resize(self, *, patience: float) -> None:
        rows, columns = terminal.size()
        deadline = time.monotonic() + patience
        while True:
            try:
                self._running.resize(rows=rows, columns=columns)
            except APIError:
                if time.monotonic() > deadline:
                    return  # it is over already, or has to live with the size it has
                time.sleep(0.01)
            else:
                return
