"""Events are told a few at a time, and never at the cost of what the operator is there for."""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sandkeeper.cluster.api import KubeApi
from sandkeeper.cluster.events import EventPoster, Note
from sandkeeper.telemetry.metrics import Metrics
from support.api import api_at
from support.engine import eventually
from support.upstream import kubeconfig_of

T = TypeVar("T")

SECONDS = 0.02
"""What the server takes for an Event."""


class Server:
    """Takes Events, each of them slowly, and refuses those of two namespaces."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.times: list[tuple[float, float]] = []
        self.together = 0
        self.most_together = 0

    async def take(self, request: web.Request) -> web.Response:
        began = time.monotonic()
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        body = await request.json()
        self.told.append(body["message"])
        await asyncio.sleep(SECONDS)
        self.together -= 1
        self.times.append((began, time.monotonic()))
        status = {"leaving": 403, "gone": 404, "refused": 422}.get(request.match_info["namespace"], 201)
        return web.json_response({"code": status, "message": "so it is"}, status=status)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def api(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Requests to that server."""
    app = web.Application()
    app.router.add_post("/api/v1/namespaces/{namespace}/events", server.take)
    kubeconfig = tmp_path / "kubeconfig"
    async with TestServer(app) as served:
        kubeconfig.write_text(kubeconfig_of(str(served.make_url("/"))), encoding="utf-8")
        async with api_at(kubeconfig, monkeypatch) as speaking:
            yield speaking


@asynccontextmanager
async def posting(poster: EventPoster) -> AsyncIterator[None]:
    task = asyncio.create_task(poster.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def fours(told: list[T]) -> list[list[T]]:
    return [told[at : at + 4] for at in range(0, len(told), 4)]


def note(message: str, *, namespace: str = "home", name: str = "rain") -> Note:
    return Note(
        namespace=namespace, name=name, uid=f"uid-{name}", kind="Normal", reason="Told", message=message
    )


async def test_four_are_posted_at_once_and_then_there_is_a_rest(api: KubeApi, server: Server) -> None:
    poster = EventPoster(api, metrics=Metrics())
    messages = [str(number) for number in range(12)]
    for message in messages:
        poster.post(note(message, name=f"rain-{message}"))
    async with posting(poster):
        await eventually(lambda: len(server.times) == len(messages), what="all Events posted")
    assert server.most_together == 4
    assert [sorted(four, key=int) for four in fours(server.told)] == fours(messages), (
        "in the order of telling"
    )
    for before, after in itertools.pairwise(fours(server.times)):
        rest = min(began for began, _ in after) - max(ended for _, ended in before)
        assert rest > 5 * SECONDS


async def test_the_first_waits_for_others(api: KubeApi, server: Server) -> None:
    poster = EventPoster(api, metrics=Metrics())
    async with posting(poster):
        for message in ("first", "second", "third"):
            poster.post(note(message, name=message))
            await asyncio.sleep(0.01)
        await eventually(lambda: len(server.times) == 3, what="all Events posted")
    assert server.most_together == 3


async def test_what_is_told_of_one_object_keeps_its_order(api: KubeApi, server: Server) -> None:
    poster = EventPoster(api, metrics=Metrics())
    for message in ("evicted", "recovering"):
        for name in ("rain", "snow"):
            poster.post(note(f"{name} {message}", name=name))
    async with posting(poster):
        await eventually(lambda: len(server.times) == 4, what="all Events posted")
    assert server.most_together == 2, "nobody waits for another's"
    assert {*server.told[:2]} == {"rain evicted", "snow evicted"}


async def test_what_cannot_be_posted_keeps_nothing_else_from_it(
    api: KubeApi, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    poster = EventPoster(api, metrics=Metrics())
    for namespace in ("leaving", "gone", "refused", "home", "home"):
        poster.post(note(namespace, namespace=namespace))
    with caplog.at_level(logging.WARNING):
        async with posting(poster):
            await eventually(lambda: len(server.times) == 5, what="all Events posted")
    assert sorted(server.told) == ["gone", "home", "home", "leaving", "refused"]
    (said,) = caplog.records
    assert said.getMessage().startswith("Cannot post an Event about refused/rain: "), (
        "others may be on their way out"
    )


async def test_where_too_many_wait_the_oldest_is_dropped_and_counted(api: KubeApi, server: Server) -> None:
    metrics = Metrics()
    poster = EventPoster(api, metrics=metrics)
    for number in range(10_002):
        poster.post(note(str(number)))
    async with posting(poster):
        await eventually(lambda: bool(server.told), what="an Event posted")
    assert server.told[0] == "2"
    assert metrics.registry.get_sample_value("sandkeeper_events_dropped_total") == 2
