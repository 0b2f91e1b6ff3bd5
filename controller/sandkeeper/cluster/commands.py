"""Commands in containers of Pods: what ``kubectl exec`` does, over the session that everything else uses.

The API server speaks WebSocket with one byte in front of each message that says which stream it belongs to.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Final

import aiohttp

from sandkeeper.cluster.api import ApiError, error_of
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.resources import PODS

__all__ = ["CommandFailed", "run_command"]

_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_OUTPUT: Final = (1, 2)
_VERDICT: Final = 3
_CONNECT_SECONDS: Final = 30.0
_FORBIDDEN: Final = 403


class CommandFailed(Exception):  # noqa: N818 - what happened is the name
    """The command ended, and not well. ``code`` None: it could not be started, or how it ended is not known."""

    def __init__(self, message: str, *, code: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


async def run_command(
    connection: Connection,
    *,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    on_output: Callable[[bytes], None],
) -> None:
    """Run a command without input to its end; its output, of both streams, is handed on as it comes.

    Raises :class:`CommandFailed` where it ends with another code than 0, and
    :class:`~sandkeeper.cluster.api.ApiError` where it was not begun or the connection was lost. Being cancelled does
    not end the command: there is no way to.
    """
    path = PODS.path(namespace=namespace, name=pod, subresource="exec")
    params = [("container", container), ("stdout", "true"), ("stderr", "true")]
    params += [("command", word) for word in command]
    verdict: bytes | None = None
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            socket = await connection.session.ws_connect(
                f"{connection.server}{path}",
                params=params,
                protocols=_PROTOCOLS,
                max_msg_size=0,
                heartbeat=30,
            )
        async with socket:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                stream, data = message.data[0], message.data[1:]
                if stream in _OUTPUT:
                    on_output(data)
                elif stream == _VERDICT:
                    verdict = data
    except aiohttp.WSServerHandshakeError as error:
        hint = "; the operator needs the right to create pods/exec" if error.status == _FORBIDDEN else ""
        raise error_of(error.status, f"the API server answered {error.status}{hint}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ApiError(0, f"the connection to the command was lost: {error}") from error
    if verdict is None:
        raise ApiError(0, "the connection to the command was lost")
    _judge(verdict)


def _judge(verdict: bytes) -> None:
    status = json.loads(verdict)
    if status.get("status") == "Success":
        return
    causes = (status.get("details") or {}).get("causes") or []
    codes = [cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"]
    code = int(codes[0]) if codes and codes[0].isdecimal() else None
    raise CommandFailed(str(status.get("message") or "no reason was given"), code=code)
