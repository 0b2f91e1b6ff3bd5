"""Several streams over one connection to the API server, as ``kubectl exec`` has them.

The official client has a socket for this, too; but whoever reads and writes at once has to use it on two threads, which
a TLS connection is not made for. So the connection is aiohttp's, on an event loop in a thread of its own, and everybody
else asks that thread.
"""

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

import aiohttp
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.rest import should_bypass_proxies

from sandkeeper.cluster.streams import PROTOCOL, Stream

__all__ = ["Channels", "RefusedError"]

_CONNECT_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 2.0
_PING_SECONDS: Final = 30.0
"""What stands between us and the API server may cut off connections that are silent for long."""

_Answer = TypeVar("_Answer")


class RefusedError(Exception):
    """The API server was reached, and did not open the connection. Why, it only says to a plain request."""


class Channels:
    """One connection. Whatever happens to it is an OSError."""

    def __init__(self, client: ApiClient, path: str, params: Sequence[tuple[str, str]]) -> None:
        self._loop = asyncio.new_event_loop()
        # It ends with the process: whoever asks when the connection is closed still gets an answer.
        threading.Thread(target=self._loop.run_forever, name="channels", daemon=True).start()
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse
        try:
            self._ask(self._open(client.configuration, path, params))
        except BaseException:
            self._ask(self._close())
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ask(self._close())

    def send(self, channel: int, data: bytes) -> None:
        """Send; and wait while the other side does not take it."""
        self._ask(self._socket.send_bytes(bytes([channel]) + data))

    def end(self, channel: int) -> None:
        """Tell that nothing more is sent on a channel."""
        self.send(Stream.CLOSE, bytes([channel]))

    def post(self, channel: int, data: bytes) -> None:
        """Send as soon as may be, without waiting."""
        asyncio.run_coroutine_threadsafe(self._socket.send_bytes(bytes([channel]) + data), self._loop)

    def receive(self) -> tuple[int, bytes] | None:
        """Return the next message that is not empty, and its channel; None: there will be none."""
        while True:
            message = self._ask(self._socket.receive())
            if message.type is aiohttp.WSMsgType.BINARY:
                if message.data[1:] and message.data[0] != Stream.CLOSE:
                    return message.data[0], message.data[1:]
            elif message.type in {
                aiohttp.WSMsgType.CLOSED,
                aiohttp.WSMsgType.CLOSE,
                aiohttp.WSMsgType.CLOSING,
            }:
                return None
            elif message.type is aiohttp.WSMsgType.ERROR:
                raise ConnectionError(str(message.data))

    def _ask(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except aiohttp.WSServerHandshakeError as error:
            raise RefusedError(f"{error.message} ({error.status})") from error
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error)) from error

    # What follows runs on the loop.

    async def _open(self, configuration: Configuration, path: str, params: Sequence[tuple[str, str]]) -> None:
        token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        via = configuration.proxy
        if via and should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
            via = None
        self._session = aiohttp.ClientSession(headers={"Authorization": token} if token else None)
        async with asyncio.timeout(_CONNECT_SECONDS):
            self._socket = await self._session.ws_connect(
                f"{configuration.host}{path}",
                params=params,
                protocols=(PROTOCOL,),
                ssl=_trust(configuration),
                server_hostname=configuration.tls_server_name,
                proxy=via,
                proxy_headers=configuration.proxy_headers,
                max_msg_size=0,
            )
        if self._socket.protocol != PROTOCOL:
            raise aiohttp.ClientError(f"the API server does not speak {PROTOCOL}: it is older than 1.30")
        self._pings = asyncio.create_task(self._ping())

    async def _ping(self) -> None:
        # Nobody waits for the answers: they are not read while whoever reads our output takes a break.
        while not self._socket.closed:
            await asyncio.sleep(_PING_SECONDS)
            await self._socket.ping()

    async def _close(self) -> None:
        # Without a farewell, for which the other side would have to take what it has left to say out of the way first.
        if self._session is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._session.close()  # which waits for input that nobody takes


def _trust(configuration: Configuration) -> ssl.SSLContext:
    """Trust whom the official client trusts, and be who it is."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif configuration.assert_hostname is False:
        context.check_hostname = False
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
