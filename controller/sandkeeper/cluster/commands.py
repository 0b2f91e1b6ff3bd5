"""Commands in containers of Pods: what ``kubectl exec`` does, over the session that everything else uses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import aiohttp

from sandkeeper.cluster.api import ApiError, error_of
from sandkeeper.cluster.connection import Connection, SessionClosed, closing_told
from sandkeeper.cluster.resources import PODS
from sandkeeper.cluster.streams import PROTOCOL, Stream, Verdict

__all__ = ["CommandFailed", "run_command"]

_PROTOCOLS: Final = (PROTOCOL, "v4.channel.k8s.io")
_CONNECT_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 2.0
_CHUNK: Final = 65536
_FORBIDDEN: Final = 403


class CommandFailed(Exception):  # noqa: N818 - what happened is the name
    """The command ended, and not well. ``code`` None: it could not be started, or how it ended is not known."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.message = verdict.message
        self.code = verdict.code
        self.verdict = verdict


async def run_command(
    connection: Connection,
    *,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    on_output: Callable[[bytes], None],
    on_error: Callable[[bytes], None] | None = None,
    stdin: bytes | None = None,
) -> None:
    """Run a command to its end; its output is handed on as it comes, both streams to one unless ``on_error`` is given.

    Without ``stdin`` it has no input. With it, the command should read all of it: one that does not may be over without
    Kubernetes ever telling so, where there is much of it.

    Raises :class:`CommandFailed` where it ends with another code than 0,
    :class:`~sandkeeper.cluster.api.ApiError` where it was not begun or the connection was lost, and what a handler
    raises. Being cancelled does not end the command: there is no way to.
    """
    path = PODS.path(namespace=namespace, name=pod, subresource="exec")
    params = [("container", container), ("stdout", "true"), ("stderr", "true")]
    params += [("stdin", "true")] if stdin is not None else []
    params += [("command", word) for word in command]
    handlers = {Stream.STDOUT: on_output, Stream.STDERR: on_error or on_output}
    verdict: bytes | None = None
    session = connection.session
    with _losses(session):
        async with asyncio.timeout(_CONNECT_SECONDS):
            socket = await session.ws_connect(
                f"{connection.server}{path}",
                params=params,
                protocols=_PROTOCOLS,
                max_msg_size=0,
                heartbeat=30,
            )
        async with _attached(socket, stdin):
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                stream, data = message.data[0], message.data[1:]
                if stream == Stream.VERDICT:
                    # Who waits for the farewell waits for input to be taken, too.
                    verdict = data
                    break
                if (handler := handlers.get(stream)) is not None:
                    handler(data)
    if verdict is None:
        raise ApiError(0, "the connection to the command was lost")
    found = Verdict.parse(verdict)
    if found.code != 0:
        raise CommandFailed(found)


@contextmanager
def _losses(session: aiohttp.ClientSession) -> Iterator[None]:
    """Tell in our own words that there is no connection, or none any more."""
    try:
        with closing_told(session):
            yield
    except aiohttp.WSServerHandshakeError as error:
        hint = "; the operator needs the right to create pods/exec" if error.status == _FORBIDDEN else ""
        raise error_of(error.status, f"the API server answered {error.status}{hint}") from error
    except (aiohttp.ClientError, TimeoutError, OSError, SessionClosed) as error:
        raise ApiError(0, f"the connection to the command was lost: {error}") from error


@asynccontextmanager
async def _attached(socket: aiohttp.ClientWebSocketResponse, stdin: bytes | None) -> AsyncIterator[None]:
    """Send input while output is read: a command may wait with the one until somebody takes the other."""
    feeding = None if stdin is None else asyncio.create_task(_feed(socket, stdin))
    try:
        yield
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.wait([feeding])
        with suppress(TimeoutError):
            # The farewell comes after all output, of which there may be no end.
            async with asyncio.timeout(_CLOSE_SECONDS):
                await socket.close()


async def _feed(socket: aiohttp.ClientWebSocketResponse, data: bytes) -> None:
    # What happens to the connection, whoever reads from it is told.
    with suppress(aiohttp.ClientError, OSError):
        for start in range(0, len(data), _CHUNK):
            await socket.send_bytes(bytes([Stream.STDIN]) + data[start : start + _CHUNK])
        if socket.protocol == PROTOCOL:
            await socket.send_bytes(bytes([Stream.CLOSE, Stream.STDIN]))
