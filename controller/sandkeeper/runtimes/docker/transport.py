"""Clients of docker-py, with a transport of our own below it where the engine listens on a Unix socket.

docker-py's leaves a socket open for each attempt to connect that fails, and there are many while an engine is down. And
it keeps connections apart by URL, so that calls about different containers never share one.
"""

import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import requests
from docker import APIClient
from docker.errors import DockerException
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool
from docker.utils import kwargs_from_env

from sandkeeper.runtimes.docker.operations import operation_of

__all__ = ["Client", "Connect", "connect_to", "from_environment", "socket_of"]

Connect = Callable[[float], APIClient]
"""Makes a client whose requests end after so many seconds. It may ask the engine for its version."""

_UNIX: Final = "unix://"
_DEFAULT: Final = "unix:///var/run/docker.sock"
_PREFIX: Final = "http+docker://"
_VERSION: Final = re.compile(r"\d+\.\d+")
_IDLE_CONNECTIONS: Final = 64
"""Kept open for the next call; more than there are threads, so that none is opened and closed for one call."""


class Client(APIClient):
    """One that tells of each request what it was for, how many seconds the answer took to begin, and its status."""

    tell: Callable[[str, float, int | None], None] | None = None
    """Called on the thread that asks; the status is None where there was no answer."""

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request, as a session of requests does."""
        began, status = time.monotonic(), None
        try:
            response = super().send(request, **kwargs)
            status = response.status_code
        finally:
            if self.tell is not None:
                operation = operation_of(request.method or "", request.url or "")
                self.tell(operation, time.monotonic() - began, status)
        return response


def from_environment(timeout: float) -> APIClient:
    """Connect to the engine of DOCKER_HOST and its companions, as the docker command does."""
    settings = kwargs_from_env()
    return _connect(settings.pop("base_url", _DEFAULT), timeout, **settings)


def connect_to(url: str) -> Connect:
    """Return what connects to the engine with this URL."""
    return lambda timeout: _connect(url, timeout)


def socket_of(client: APIClient) -> str | None:
    """Return the path of the socket that a client of ours speaks to; None: it is no socket of this host."""
    adapter = client.get_adapter(client.base_url)
    return str(adapter.socket_path) if isinstance(adapter, UnixHTTPAdapter) else None


def _connect(url: str, timeout: float, **settings: Any) -> APIClient:
    if not url.startswith(_UNIX):
        return Client(url, version="auto", timeout=timeout, **settings)  # type: ignore[arg-type] # whole seconds
    with requests.Session() as session:
        session.mount(_PREFIX, _Adapter(url, timeout))
        answer = session.get(f"{_PREFIX}localhost/version", timeout=timeout)
        answer.raise_for_status()
        version = _version(answer)
    client = Client(url, version=version, timeout=timeout)  # type: ignore[arg-type] # as above
    client.mount(_PREFIX, _Adapter(url, timeout))
    return client


def _version(answer: requests.Response) -> str:
    with suppress(KeyError, TypeError, ValueError):
        version = answer.json()["ApiVersion"]
        if isinstance(version, str) and _VERSION.fullmatch(version):
            return version
    raise DockerException("what answers there is no Docker engine")


class _Connection(UnixHTTPConnection):
    def connect(self) -> None:
        """Connect, or close what could not."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self.timeout)
            connection.connect(self.unix_socket)
        except BaseException:
            connection.close()
            raise
        self.sock = connection


class _Pool(UnixHTTPConnectionPool):
    def _new_conn(self) -> Any:  # noqa: ANN401 - the stubs of both libraries disagree on what it is
        return _Connection(self.base_url, self.socket_path, self.timeout)  # type: ignore[arg-type] # as above


class _Adapter(UnixHTTPAdapter):
    def __init__(self, url: str, timeout: float) -> None:
        super().__init__(f"http+{url}", timeout=timeout, max_pool_size=_IDLE_CONNECTIONS)  # type: ignore[arg-type]

    def get_connection(self, url: str | bytes, proxies: object = None) -> _Pool:
        """Return the pool of connections: one for all, where docker-py has one for each URL."""
        del url, proxies
        with self.pools.lock:
            pool: _Pool | None = self.pools.get(_PREFIX)
            if pool is None:
                pool = self.pools[_PREFIX] = _Pool(
                    _PREFIX, self.socket_path, self.timeout, maxsize=self.max_pool_size
                )
        return pool
