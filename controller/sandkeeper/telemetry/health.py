"""The probes and the metrics page, on one small HTTP server.

``/healthz`` answers while the event loop turns. ``/readyz`` answers 200 once everything has been listed, and otherwise
names what is missing. ``/metrics`` is for Prometheus.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

__all__ = ["HealthServer"]

_WAITING: Final = 64
"""Connections that may wait to be accepted."""
_ACCEPTED_IN_A_ROW: Final = 1
"""By the event loop, which takes this for the same number. For want of a file descriptor each that fails leaves a trace
in the log and another try a second later, so that with more than one the tries would multiply."""


class HealthServer:
    """Serves the probes. ``missing`` tells what keeps the operator from being ready, in words."""

    def __init__(self, *, registry: CollectorRegistry, missing: Callable[[], Sequence[str]]) -> None:
        self._registry = registry
        self._missing = missing
        self._runner: web.AppRunner | None = None

    async def start(self, *, host: str, port: int) -> int:
        """Listen, and return the port (a free one where ``port`` is 0)."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
        await web.SockSite(self._runner, listening, backlog=_ACCEPTED_IN_A_ROW).start()
        listening.listen(_WAITING)
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        missing = self._missing()
        if missing:
            return web.Response(status=503, text="".join(f"not yet: {what}\n" for what in missing))
        return web.Response(text="ok\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        # Exemplars are only in OpenMetrics, which Prometheus asks for.
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await asyncio.to_thread(encode, await _read(self._registry))
        return web.Response(body=body, headers={"Content-Type": content_type})


class _Page(Collector):
    """Families that were read before."""

    def __init__(self) -> None:
        self.families: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self.families


async def _read(registry: CollectorRegistry) -> _Page:
    """Read everything on the event loop, to which the values belong; between two families others have their turn.

    What takes longest, to write it down, a thread does: there may be thousands of lines.
    """
    page = _Page()
    for family in registry.collect():
        page.families.append(family)
        await asyncio.sleep(0)
    return page
