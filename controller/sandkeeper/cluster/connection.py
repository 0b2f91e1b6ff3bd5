"""One aiohttp session for everything: kopf's watches and our own requests share it.

kopf's built-in session has no limit on connections; ours has. And a session's headers are frozen when it is made, so
the projected token of a service account, which the kubelet renews, is read again for each request instead; and what a
kubeconfig gives is read again when it was refused. To leave that to kopf would be too late: its watches go on for
minutes with a token that has expired, while every other request is refused.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import kopf

from sandkeeper.cluster.tasks import is_cancelled

__all__ = ["Connection", "SessionClosed", "closing_told"]

_TOKEN_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_TOKEN_SECONDS: Final = 60.0
"""How long a token that was read is used; the kubelet renews it at 80 % of a lifetime of at least ten minutes."""

logger = logging.getLogger(__name__)


class Connection:
    """The way to one API server, from a kubeconfig or from inside a Pod."""

    def __init__(self, *, limit: int = 64) -> None:
        self._limit = limit
        self._session: aiohttp.ClientSession | None = None
        self._info: kopf.ConnectionInfo | None = None
        self._given: aiohttp.ClientSession | None = None
        """The one that kopf has; it closes it when credentials turn out to be bad."""
        self._authorization: str | None = None
        """What requests carry instead of what the session was made with."""
        self._token_read_at = float("-inf")
        self._refused = False
        self._reading = asyncio.Lock()
        self._heard: dict[str, float] = {}
        """When each watch, by its path, heard anything last, by the monotonic clock."""

    def watch_ages(self) -> dict[str, float]:
        """Return how many seconds ago a watch of each resource heard anything; of several, the longest."""
        now, ages = time.monotonic(), dict[str, float]()
        for path, at in self._heard.items():
            resource = path.rpartition("/")[2]
            ages[resource] = max(ages.get(resource, 0.0), now - at)
        return ages

    @property
    def server(self) -> str:
        """The API server's address."""
        return self._connect().server.rstrip("/")

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session; a new one where kopf has closed the last."""
        if self._session is None or self._session.closed:
            info = self._connect()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._limit, ssl=info.as_ssl_context()),
                headers=info.as_http_headers(),
                middlewares=(self._authorise,),
            )
        return self._session

    async def login(self, **_: Any) -> kopf.AiohttpSession:
        """Serve as kopf's login handler; called again when the credentials were refused, and reads them anew then."""
        if self._given is not None:
            self.forget_token()
            await self._read_again()
            if self._session is self._given:
                # kopf closes the one that it had; one that was made since is ours to keep.
                self._session = None
        self._given = self.session
        return kopf.AiohttpSession(server=self.server, aiohttp_session=self._given)

    def forget_token(self) -> None:
        """Read the token anew with the next request: the last one was refused."""
        self._token_read_at = float("-inf")
        self._refused = True

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None and not self._session.closed:
            await self._session.close()

    def _connect(self) -> kopf.ConnectionInfo:
        if self._info is None:
            self._info = _read()
        return self._info

    async def _authorise(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            self._read_token()
        elif self._refused:
            await self._read_again()
        if self._authorization:
            request.headers["Authorization"] = self._authorization
        response = await handler(request)
        if _is_read_whole(request):
            # kopf asks again where there is no answer, and does not outlive one that breaks off while it reads it.
            await response.read()
        elif "watch" in request.url.query and response.ok:
            hear = partial(self._hear, request.url.path)
            hear()
            response.content = cast("aiohttp.StreamReader", _Overheard(response.content, hear))
        return response

    def _hear(self, path: str) -> None:
        self._heard[path] = time.monotonic()

    def _read_token(self) -> None:
        now = time.monotonic()
        if now - self._token_read_at < _TOKEN_SECONDS:
            return
        self._token_read_at = now
        # A few hundred bytes from memory (a projected volume is a tmpfs): quicker than a thread.
        found = _TOKEN_FILE.is_file()
        self._authorization = f"Bearer {_TOKEN_FILE.read_text().strip()}" if found else None

    async def _read_again(self) -> None:
        async with self._reading:
            if not self._refused:
                return  # somebody else has, meanwhile
            self._refused = False
            try:
                # In a thread: a kubeconfig may name a program that has to be asked.
                info = await asyncio.to_thread(_read)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a file of somebody else's
                logger.warning("Cannot read the credentials anew: %s", error)
                return
            self._info = info
            self._authorization = info.as_http_headers().get("Authorization")


class _Overheard:
    """What a watch says, as kopf reads it; ``hear`` is called whenever there is anything.

    Its bookmarks are among it, of which kopf tells nobody.
    """

    def __init__(self, content: aiohttp.StreamReader, hear: Callable[[], None]) -> None:
        self._content = content
        self._hear = hear

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is, it is the other's
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield what comes, as it comes."""
        async for chunk in self._content.iter_chunked(size):
            self._hear()
            yield chunk


class SessionClosed(Exception):  # noqa: N818 - what happened is the name
    """The session was closed under a request."""


@contextmanager
def closing_told(session: aiohttp.ClientSession) -> Iterator[None]:
    """Raise SessionClosed for whatever aiohttp makes of a session that is closed under a request.

    To who waits for a connection it looks as if somebody had cancelled his task, and nobody has.
    """
    try:
        yield
    except (AssertionError, RuntimeError, asyncio.CancelledError) as error:
        if not session.closed or is_cancelled():
            raise
        raise SessionClosed("its connections were closed") from error


def _is_read_whole(request: aiohttp.ClientRequest) -> bool:
    """Whether the answer is to be read at once; not so a watch, and what becomes a conversation."""
    return request.method == "GET" and "watch" not in request.url.query and "Upgrade" not in request.headers


def _read() -> kopf.ConnectionInfo:
    """Find the way to the API server, and the credentials."""
    info = kopf.login_via_client(logger=logger, settings=kopf.OperatorSettings())
    if info is None:
        raise kopf.LoginError("no kubeconfig, and not inside a Pod")
    return info
