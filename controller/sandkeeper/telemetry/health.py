"""The probes and the metrics page, on one small HTTP server.

``/healthz`` answers while the event loop turns. ``/readyz`` answers 200 once everything has been listed, and otherwise
names what is missing. ``/metrics`` is for Prometheus.
"""

from collections.abc import Callable, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

__all__ = ["HealthServer"]


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
        await web.TCPSite(self._runner, host, port).start()
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

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        )
