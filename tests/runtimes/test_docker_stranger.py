"""Whoever answers on the engine's socket, and is none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Transient
from sandkeeper.config.operator import Ceilings, DockerSettings
from sandkeeper.lifecycle.model import Unreachable
from sandkeeper.runtimes.docker import DockerRuntimes
from sandkeeper.runtimes.docker.transport import connect_to
from support.engine import a_config, an_order

VERSION = '{"ApiVersion": "1.44"}'
NO_VERSIONS = ("{}", "[]", "null", "hello", '{"ApiVersion": "newest"}', '{"ApiVersion": 1}')
NO_IDENTITIES = ("{}", "[]", "null", "hello", '{"ID": ""}', '{"ID": 7}')

Serve = Callable[[dict[str, str]], AbstractAsyncContextManager[DockerRuntimes]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    path = tmp_path / "socket"

    @asynccontextmanager
    async def serving(answers: dict[str, str]) -> AsyncIterator[DockerRuntimes]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = (await reader.readuntil(b"\r\n\r\n")).decode().split()[1].partition("?")[0]
            body = answers[target.rpartition("/")[2]]
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write((head + body).encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_unix_server(answer, path)
        connect = connect_to(f"unix://{path}")
        backend = DockerRuntimes(DockerSettings(timeout_seconds=5), Ceilings(), "x", connect=connect)
        try:
            yield backend
        finally:
            backend.close()
            server.close()
            await server.wait_closed()

    return serving


@pytest.mark.parametrize(
    ("version", "info"),
    [*((version, "{}") for version in NO_VERSIONS), *((VERSION, info) for info in NO_IDENTITIES)],
)
async def test_a_stranger_is_no_engine(serve: Serve, version: str, info: str) -> None:
    order = an_order(a_config("x"))
    async with serve({"version": version, "info": info}) as backend:
        for act in (backend.create, backend.preflight):
            with pytest.raises(Transient) as caught:
                await act(order)
            assert caught.value.reason is Reason.ENGINE_UNREACHABLE
        seen = await backend.observe(order.key, node=None)
        assert isinstance(seen, Unreachable)
        assert seen.reason is Reason.ENGINE_UNREACHABLE


async def test_an_engine_that_does_not_know_itself_any_more(serve: Serve) -> None:
    order = an_order(a_config("x"))
    answers = {"version": VERSION, "info": '{"ID": "one"}', "json": "[]"}
    async with serve(answers) as backend:
        assert await backend.observe(order.key, node="one") is None
        answers["info"] = "{}"

        seen = await backend.observe(order.key, node="one")

        assert isinstance(seen, Unreachable)
        assert seen.reason is Reason.ENGINE_UNREACHABLE
        assert "which Docker engine it is" in seen.message
