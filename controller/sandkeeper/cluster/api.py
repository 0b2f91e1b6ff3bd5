"""A thin client for the hot path: plain objects over the session that kopf uses too.

Besides what was asked for it watches two things: how many requests are made (writes are the cost of an operator),
and how far our clock is from the API server's, which every answer tells in its ``Date``.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final

import aiohttp

from sandkeeper.cluster.bodies import GuardedBody
from sandkeeper.cluster.clocks import ServerClock
from sandkeeper.cluster.connection import Connection, SessionClosed, closing_told
from sandkeeper.cluster.metadata import read_list
from sandkeeper.cluster.resources import EVENTS, LEASES, Resource
from sandkeeper.telemetry.metrics import Metrics

__all__ = ["PAGE", "ApiError", "Conflict", "KubeApi", "NotFound", "Object", "error_of"]

logger = logging.getLogger(__name__)

Object = dict[str, Any]
"""A Kubernetes object as JSON."""

PAGE: Final = 100
"""Objects in one answer to a list. Five hundred Pods, parsed, take 20 MiB, which the process never gives back."""
_JSON: Final = "application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TRIES: Final = 5
_ALWAYS_WRITTEN: Final = frozenset({LEASES, EVENTS})
"""What decides who leads, and what only tells."""
_OVERLOADED: Final = frozenset({429, 502, 503, 504})


class ApiError(Exception):
    """The API server refused. ``reason`` is its word for why.

    ``status`` is the HTTP code; 0: it was not reached, or what it answered cannot be read.
    """

    def __init__(self, status: int, message: str, *, reason: str = "") -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.reason = reason


class NotFound(ApiError):  # noqa: N818 - an answer, often the one that was hoped for
    """There is no such object (404)."""


class Conflict(ApiError):  # noqa: N818 - as above
    """The object is not, or no longer, as we thought (409)."""

    @property
    def is_name_taken(self) -> bool:
        """Whether there is an object of that name already; a quota that changed meanwhile is a conflict as well."""
        return self.reason == "AlreadyExists"


def _seconds(retry_after: str | None) -> float:
    """Read Retry-After in seconds; a date, which the API server never sends, is a second."""
    try:
        return float(retry_after or 1)
    except ValueError:
        return 1.0


def error_of(status: int, message: str, *, reason: str = "") -> ApiError:
    """Return the error that stands for an HTTP status."""
    return {404: NotFound, 409: Conflict}.get(status, ApiError)(status, message, reason=reason)


def _always(_namespace: str) -> None:
    """Let everything be written."""


def _unguarded() -> None:
    """Let it go out."""


class KubeApi:
    """Requests to one API server. Every method raises :class:`ApiError`, and what :attr:`may_write` raises."""

    def __init__(self, connection: Connection, *, metrics: Metrics, timeout: float = 30) -> None:
        self._connection = connection
        self._metrics = metrics
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=5)
        self.may_write: Callable[[str], None] = _always
        """Called with the namespace right before each write goes out, but for Leases and Events; what it raises cancels
        the write."""
        self._writing: Counter[str] = Counter()
        self.clock = ServerClock()
        """How far our clock is from the API server's."""

    @property
    def writing(self) -> Iterable[str]:
        """The namespaces in which something is being written, but for Leases and Events."""
        return self._writing.keys()

    async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object:
        """Return one object."""
        return await self._request("GET", resource, namespace=namespace, name=name)

    async def pages(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> AsyncIterator[tuple[list[Object], str]]:
        """Yield the objects page by page, each with the resourceVersion of the list.

        ``metadata_only``: of each nothing but its namespace, name and version.
        """
        accept, read = (_METADATA, read_list) if metadata_only else (_JSON, json.loads)
        token = ""
        while True:
            query = {"limit": str(PAGE), **(params or {}), **({"continue": token} if token else {})}
            answer = await self._request(
                "GET", resource, namespace=namespace, params=query, accept=accept, read=read
            )
            yield answer.get("items") or [], answer["metadata"]["resourceVersion"]
            token = answer["metadata"].get("continue", "")
            if not token:
                return

    async def create(
        self, resource: Resource, body: Object, *, namespace: str | None = None, dry_run: bool = False
    ) -> Object:
        """Create an object and return it as it was stored; with ``dry_run``, as it would have been."""
        params = {"dryRun": "All"} if dry_run else None
        return await self._request("POST", resource, namespace=namespace, params=params, body=body)

    async def replace(self, resource: Resource, body: Object, *, name: str, namespace: str) -> Object:
        """Replace an object; its resourceVersion has to be the newest."""
        return await self._request("PUT", resource, namespace=namespace, name=name, body=body)

    async def patch(
        self, resource: Resource, body: Object, *, name: str, namespace: str, subresource: str | None = None
    ) -> Object:
        """Merge-patch an object; a ``metadata.resourceVersion`` in it makes the patch conditional."""
        return await self._request(
            "PATCH", resource, namespace=namespace, name=name, subresource=subresource, body=body
        )

    async def delete(
        self, resource: Resource, *, name: str, namespace: str, uid: str, resource_version: str | None = None
    ) -> Object | None:
        """Delete the object with this UID, and where it is given, of this version. Gone already is a success.

        Return the object where it takes its time to go; None: it is gone.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        try:
            answer = await self._request("DELETE", resource, namespace=namespace, name=name, body=options)
        except NotFound:
            return None
        # Of what is gone at once the answer has the last state, or nothing but a Status.
        return answer if "deletionTimestamp" in answer.get("metadata", {}) else None

    async def _request(
        self,
        method: str,
        resource: Resource,
        *,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
        body: Object | None = None,
        accept: str = _JSON,
        read: Callable[[bytes], Any] = json.loads,
    ) -> Object:
        url = self._connection.server + resource.path(namespace=namespace, name=name, subresource=subresource)
        what = resource.plural + (f"/{subresource}" if subresource else "")
        if params is not None and "dryRun" in params:
            what += "?dryRun"
        guarded = method != "GET" and resource not in _ALWAYS_WRITTEN
        guard = partial(self.may_write, namespace or "") if guarded else _unguarded
        with self._noted(namespace or "") if guarded else nullcontext():
            return await self._answered(
                method, url, what=what, params=params, body=body, guard=guard, accept=accept, read=read
            )

    @contextmanager
    def _noted(self, namespace: str) -> Iterator[None]:
        """Let everybody know of a write for as long as it may still take place."""
        self._writing[namespace] += 1
        try:
            yield
        finally:
            self._writing[namespace] -= 1
            if not self._writing[namespace]:
                del self._writing[namespace]

    async def _answered(
        self,
        method: str,
        url: str,
        *,
        what: str,
        params: Mapping[str, str] | None,
        body: Object | None,
        guard: Callable[[], None],
        accept: str,
        read: Callable[[bytes], Any],
    ) -> Object:
        """Make a request as often as it takes."""
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(1, _TRIES + 1):
            # Guarded anew in each try: what went before it may have taken minutes.
            content = None if data is None else GuardedBody(data, guard=guard)
            began, status = time.monotonic(), 0
            try:
                status, answer, retry_after = await self._once(
                    method, url, params=params, content=content, accept=accept, read=read
                )
            finally:
                self._metrics.api_requests[method, what, str(status)].inc()
                self._metrics.api_seconds[method,].observe(time.monotonic() - began)
            if status < 400:  # noqa: PLR2004 - HTTP
                return answer
            if status in _OVERLOADED and attempt < _TRIES:
                await asyncio.sleep(min(retry_after, 10))
                continue
            if status == 401 and attempt == 1:  # noqa: PLR2004 - a token that has just been renewed
                self._connection.forget_token()
                continue
            raise error_of(
                status, str(answer.get("message") or answer), reason=str(answer.get("reason") or "")
            )
        raise AssertionError("unreachable")

    async def _once(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None,
        content: GuardedBody | None,
        accept: str,
        read: Callable[[bytes], Any],
    ) -> tuple[int, Object, float]:
        headers = {"Accept": accept}
        if content is not None:
            headers["Content-Type"] = (
                "application/merge-patch+json" if method == "PATCH" else "application/json"
            )
        session = self._connection.session
        try:
            with closing_told(session):
                async with session.request(
                    method, url, params=params, data=content, headers=headers, timeout=self._timeout
                ) as response:
                    self.clock.note(response.headers.get("Date"))
                    retry_after = _seconds(response.headers.get("Retry-After"))
                    raw = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, SessionClosed) as error:
            if content is not None and content.barred is not None:
                raise content.barred from None
            raise ApiError(
                0, f"the API server was not reached: {str(error) or type(error).__name__}"
            ) from error
        try:
            answer = read(raw) if response.ok else json.loads(raw)
        except ValueError as error:
            if response.ok:
                raise ApiError(0, "the answer of the API server is none to what was asked") from error
            answer = {"message": raw[:200].decode(errors="replace")}
        return response.status, answer, retry_after
