"""A watch that is not lost, on what an API server sends: everything is told once, and what is no object is not."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from bench.kube import Lines
from chaos.client import Client
from chaos.following import follow
from support.upstream import kubeconfig_of

PATH = "/api/v1/namespaces/home/pods"


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"uid": name, "name": name, "resourceVersion": str(version)}}


LISTS = [
    {"metadata": {"resourceVersion": "1"}, "items": [pod("rain", 1)]},
    {"metadata": {"resourceVersion": "9"}, "items": [pod("tio", 8)]},
]
WATCHES = {
    "1": [("MODIFIED", pod("rain", 2)), ("BOOKMARK", {"metadata": {"resourceVersion": "5"}})],
    "5": [("ERROR", {"kind": "Status", "code": 410})],
}
"""By the version from which the watch goes on."""


class Server:
    """An API server that has one list after the other, and watches that end."""

    def __init__(self, lists: Sequence[dict[str, Any]]) -> None:
        self.lists = list(lists)
        self.over = asyncio.Event()
        self.closing = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response(self.lists.pop(0))
        response = web.StreamResponse()
        await response.prepare(request)
        version = request.query["resourceVersion"]
        for kind, found in WATCHES.get(version, []):
            await response.write(
                json.dumps({"type": kind, "object": found}, separators=(",", ":")).encode() + b"\n"
            )
        if version not in WATCHES:
            self.over.set()
            await self.closing.wait()
        return response


@asynccontextmanager
async def serving(folder: Path, server: Server) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_get(PATH, server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    (folder / "config").write_text(kubeconfig_of(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    try:
        async with Client(folder / "config") as client:
            yield client
    finally:
        server.closing.set()
        await runner.cleanup()


async def test_bookmarks_and_a_list_anew(tmp_path: Path) -> None:
    told: list[tuple[str, str, str]] = []

    def take(kind: str, raw: dict[str, Any]) -> None:
        told.append((kind, raw["metadata"]["name"], raw["metadata"]["resourceVersion"]))

    server = Server(LISTS)
    async with serving(tmp_path, server) as client:
        following = asyncio.create_task(follow(client, PATH, take))
        await asyncio.wait(
            [following, asyncio.create_task(server.over.wait())],
            timeout=30,
            return_when=asyncio.FIRST_COMPLETED,
        )
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following

    assert told == [
        ("ADDED", "rain", "1"),
        ("MODIFIED", "rain", "2"),
        ("DELETED", "rain", "2"),
        ("ADDED", "tio", "8"),
    ]


async def test_a_version_that_is_too_old_before_the_watch_begins(tmp_path: Path) -> None:
    server = Server([{"metadata": {"resourceVersion": version}} for version in ("5", "9")])
    async with serving(tmp_path, server) as client, asyncio.timeout(30), Lines(client, PATH):
        await server.over.wait()
    assert not server.lists
