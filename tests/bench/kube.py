"""The client's side: requests to the API server, and a watch that notes when each event arrived."""

import asyncio
import json
import re
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Self

import aiohttp
import kubernetes.config

from bench.figures import Json
from sandkeeper.api.names import GROUP, VERSION
from support.closing import hang_up

__all__ = ["Kube", "Lines", "Seen", "Watch", "pods", "policies", "sandboxes"]

_REQUEST = aiohttp.ClientTimeout(total=60)
_FOR_EVER = aiohttp.ClientTimeout(total=None, connect=10)
_LONGEST_EVENT = 2**20
_VERSION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
_ERROR: Final = b'{"type":"ERROR"'
_BOOKMARK: Final = b'{"type":"BOOKMARK"'
"""Tells how far a watch has come, without which a quiet one would begin anew where nothing is remembered."""
_WATCH_SECONDS = 3600
_AT_ONCE = 0.5
"""Seconds within which a watch says that its version is too old, if it is."""


class Kube:
    """An administrator's HTTP client: one session, its connections kept open, as a gateway would have it."""

    def __init__(self, kubeconfig: Path) -> None:
        made = kubernetes.config.new_client_from_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig)
        )
        with made as client:
            found = client.configuration
        context = ssl.create_default_context(cafile=found.ssl_ca_cert)
        if found.cert_file:
            context.load_cert_chain(found.cert_file, found.key_file)
        headers = {"Authorization": found.api_key["authorization"]} if found.api_key else {}
        self._server = found.host.rstrip("/")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=128, ssl=context),
            headers=headers,
            read_bufsize=_LONGEST_EVENT,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
        await hang_up()

    async def request(self, method: str, path: str, *, body: Json | None = None, query: str = "") -> Json:
        """Make a request and return the answer; aiohttp.ClientResponseError where it is refused."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(
            method,
            f"{self._server}{path}{query}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind},
            timeout=_REQUEST,
        ) as response:
            raw = await response.read()
            if response.status >= 400:
                raise aiohttp.ClientResponseError(
                    response.request_info,
                    response.history,
                    status=response.status,
                    message=raw[:500].decode(errors="replace"),
                )
        answer: Json = json.loads(raw)
        return answer

    async def post(self, path: str, body: bytes) -> None:
        """Create an object from JSON that is written already; the answer is not read into objects."""
        await self._send("POST", path, body, "application/json")

    async def merge(self, path: str, body: Json) -> None:
        """Change an object by a merge patch; the answer is not read into objects."""
        await self._send("PATCH", path, json.dumps(body).encode(), "application/merge-patch+json")

    async def _send(self, method: str, path: str, body: bytes, kind: str) -> None:
        async with self._session.request(
            method, f"{self._server}{path}", data=body, headers={"Content-Type": kind}, timeout=_REQUEST
        ) as response:
            raw = await response.read()
            if response.status >= 400:
                raise RuntimeError(f"{path}: {response.status}: {raw[:500].decode(errors='replace')}")

    async def text(self, path: str, *, accept: str = "*/*") -> str:
        """Read a page as it is."""
        async with self._session.get(
            f"{self._server}{path}", headers={"Accept": accept}, timeout=_REQUEST
        ) as response:
            response.raise_for_status()
            return await response.text()

    def events(self, path: str, version: str, *, fields: str = "") -> "aiohttp.client._RequestContextManager":
        """Open a watch; ``fields`` selects by fields."""
        query = f"?watch=1&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}&allowWatchBookmarks=true"
        query += f"&fieldSelector={fields}" if fields else ""
        return self._session.get(f"{self._server}{path}{query}", timeout=_FOR_EVER)


def sandboxes(namespace: str | None, name: str = "") -> str:
    """Return the path of the Sandboxes of a namespace, or of all, or of one Sandbox."""
    below = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}{below}/sandboxes" + (f"/{name}" if name else "")


def policies(namespace: str, name: str = "") -> str:
    """Return the path of the policies of a namespace, or of one of them."""
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/agentsandboxpolicies" + (
        f"/{name}" if name else ""
    )


def pods(namespace: str | None, name: str = "") -> str:
    """Return the path of the Pods of a namespace, or of all, or of one Pod."""
    below = f"/namespaces/{namespace}" if namespace else ""
    return f"/api/v1{below}/pods" + (f"/{name}" if name else "")


class Lines:
    """The lines of a watch, for as long as it is wanted."""

    def __init__(self, kube: Kube, path: str, *, fields: str = "") -> None:
        self._kube = kube
        self._path = path
        self._fields = fields
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._follow(await self._present(), opened))
        await opened
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def take(self, line: bytes) -> None:
        """Look at one event."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Tell whoever waits."""

    async def _present(self) -> str:
        listed = await self._kube.request("GET", self._path, query="?limit=1")
        return str(listed["metadata"]["resourceVersion"])

    async def _follow(self, version: str, opened: "asyncio.Future[None]") -> None:
        try:
            while True:
                version = await self._follow_on(version, opened)
        except Exception as error:
            # Whoever waits would wait for nothing.
            if not opened.done():
                opened.set_exception(error)
            self.fail(error)
            raise

    async def _follow_on(self, version: str, opened: "asyncio.Future[None]") -> str:
        """Follow until the API server ends it, which it does where a client reads too slowly; return where it was."""
        async with self._kube.events(self._path, version, fields=self._fields) as response:
            response.raise_for_status()
            asyncio.get_running_loop().call_later(_AT_ONCE, _tell, opened)
            async for line in response.content:
                if line.startswith(_ERROR) and not opened.done():
                    return (
                        await self._present()
                    )  # in a crowd the version may be too old before the watch begins
                if line.startswith(_ERROR):
                    raise RuntimeError(f"the watch ended: {line!r}")
                _tell(opened)
                if not line.startswith(_BOOKMARK):
                    self.take(line)
                if found := _VERSION.search(line):
                    version = found[1].decode()
        return version


def _tell(opened: "asyncio.Future[None]") -> None:
    if not opened.done():
        opened.set_result(None)


@dataclass(frozen=True)
class Seen:
    """An event, and when it arrived (the clock is time.monotonic)."""

    at: float
    kind: str
    object: Json


Wanted = Callable[[Seen], bool]


class Watch(Lines):
    """Follows Sandboxes or other objects, of one namespace or of all."""

    def __init__(
        self, kube: Kube, namespace: str | None, path: Callable[[str | None], str] = sandboxes
    ) -> None:
        super().__init__(kube, path(namespace))
        self._latest: dict[tuple[str, str], Seen] = {}
        self._waiting: dict[tuple[str, str], list[tuple[Wanted, asyncio.Future[Seen]]]] = {}
        self._namespace = namespace
        self.arrived: dict[str, int] = {}
        """How many events there were, by namespace."""
        self.uids: set[str] = set()
        """Of every object that was made since the watch began, however shortly it was there."""

    def elsewhere(self, namespace: str) -> int:
        """Return how many events there were in other namespaces."""
        return sum(count for where, count in self.arrived.items() if where != namespace)

    async def until(self, name: str, wanted: Wanted, *, limit: float = 60) -> Seen:
        """Wait for an event of this object, or take the latest one if it is what is wanted."""
        if self._namespace is None:
            raise ValueError("only a watch of one namespace can be waited on")
        key = (self._namespace, name)
        latest = self._latest.get(key)
        if latest is not None and wanted(latest):
            return latest
        future: asyncio.Future[Seen] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append((wanted, future))
        try:
            async with asyncio.timeout(limit):
                return await future
        except TimeoutError:
            state = self._latest[key].object.get("status") if key in self._latest else None
            raise TimeoutError(f"{name}: not within {limit:g} s; the last status was {state}") from None

    def take(self, line: bytes) -> None:
        """Note an event, and tell whoever waits for it."""
        at = time.monotonic()
        event = json.loads(line)
        self._take(Seen(at, event["type"], event["object"]))

    def fail(self, error: Exception) -> None:
        """Tell whoever waits."""
        for _, future in chain.from_iterable(self._waiting.values()):
            if not future.done():
                future.set_exception(error)

    def _take(self, seen: Seen) -> None:
        metadata = seen.object["metadata"]
        key = (metadata["namespace"], metadata["name"])
        self.arrived[key[0]] = self.arrived.get(key[0], 0) + 1
        if seen.kind == "ADDED":
            self.uids.add(metadata["uid"])
        self._latest[key] = seen
        for waiter in self._waiting.get(key, [])[:]:
            wanted, future = waiter
            if future.done():
                self._waiting[key].remove(waiter)
            elif wanted(seen):
                self._waiting[key].remove(waiter)
                future.set_result(seen)
