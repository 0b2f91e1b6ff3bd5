"""One aiohttp session for everything: kopf's watches and our own requests share it.

kopf's built-in session has no limit on connections; ours has. And a session's headers are frozen when it is made, so
the projected token of a service account, which the kubelet renews, is read again for each request instead.
"""

import logging
import os
import time
from pathlib import Path
from typing import Any, Final

import aiohttp
import kopf

__all__ = ["Connection"]

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
        self._logged_in = False
        self._token: str | None = None
        self._token_read_at = float("-inf")

    @property
    def server(self) -> str:
        """The API server's address."""
        return self._connect().server.rstrip("/")

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session; a new one where the last was closed (kopf closes it when credentials turn out to be bad)."""
        if self._session is None or self._session.closed:
            info = self._connect()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._limit, ssl=info.as_ssl_context()),
                headers=info.as_http_headers(),
                middlewares=(self._authorise,),
            )
        return self._session

    def login(self, **_: Any) -> kopf.AiohttpSession:
        """Serve as kopf's login handler; called again when the credentials were refused, and reads them anew then."""
        if self._logged_in:
            self._info = self._session = None  # kopf closes the session that it had
            self.forget_token()
        self._logged_in = True
        return kopf.AiohttpSession(server=self.server, aiohttp_session=self.session)

    def forget_token(self) -> None:
        """Read the token anew with the next request: the last one was refused."""
        self._token_read_at = float("-inf")

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None and not self._session.closed:
            await self._session.close()

    def _connect(self) -> kopf.ConnectionInfo:
        if self._info is None:
            info = kopf.login_via_client(logger=logger, settings=kopf.OperatorSettings())
            if info is None:
                raise kopf.LoginError("no kubeconfig, and not inside a Pod")
            self._info = info
        return self._info

    async def _authorise(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        now = time.monotonic()
        if "KUBERNETES_SERVICE_HOST" in os.environ and now - self._token_read_at >= _TOKEN_SECONDS:
            self._token_read_at = now
            # A few hundred bytes from memory (a projected volume is a tmpfs): quicker than a thread.
            self._token = _TOKEN_FILE.read_text().strip() if _TOKEN_FILE.is_file() else None
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return await handler(request)
