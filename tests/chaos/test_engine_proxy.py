"""The way to the engine on which everything can go wrong: what passes, what does not, and that it is proven."""

import asyncio
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker
import pytest
import requests

from chaos.engine_proxy import Asked, EngineProxy, Fate
from sandkeeper.runtimes.docker.transport import connect_to
from support.cluster import Cluster
from support.engine import eventually

pytestmark = [pytest.mark.engine]


@pytest.fixture
async def proxy(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EngineProxy]:
    folder = tmp_path_factory.mktemp("e")  # the path of a socket has to be short
    engine = Path(cluster.docker_host.removeprefix("unix://"))
    async with EngineProxy(engine, folder / "s") as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: EngineProxy) -> AsyncIterator[docker.APIClient]:
    with closing(await away(connect_to(proxy.url), 30)) as client:
        yield client


@pytest.fixture
def label() -> str:
    return f"sandkeeper-test-proxy-{secrets.token_hex(4)}"


async def away(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return await asyncio.to_thread(call, *arguments, **named)


async def test_what_passes_is_as_it_was_and_counted(
    proxy: EngineProxy, client: docker.APIClient, docker_client: docker.DockerClient, tiny_image: str
) -> None:
    made = await away(client.create_container, tiny_image, ["sleep", "100"], network_disabled=True)
    try:
        await away(client.start, made["Id"])
        ran = await away(client.exec_create, made["Id"], ["cat"], stdin=True)
        said = await away(feed, client, ran["Id"], b"through and back")
        assert said.endswith(b"through and back")
        archive = await away(lambda: b"".join(client.get_archive(made["Id"], "/etc")[0]))
        assert b"etc/" in archive
        assert await away(client.put_archive, made["Id"], "/tmp", archive)  # noqa: S108 - in the container
    finally:
        await away(client.remove_container, made["Id"], force=True)
    assert proxy.asked[Asked("POST", "/containers/{id}/start")] == 1
    assert proxy.asked[Asked("DELETE", "/containers/{id}")] == 1
    assert not proxy.struck


def feed(client: docker.APIClient, run: str, data: bytes) -> bytes:
    """Say something to a command, and hear what it says once it was told that this was all."""
    opened: Any = client.exec_start(run, socket=True)
    with opened as stream, stream._sock as talk:
        talk.sendall(data)
        talk.shutdown(socket.SHUT_WR)
        heard = b""
        while piece := talk.recv(1000):
            heard += piece
        return heard


async def test_connections_are_kept(proxy: EngineProxy, client: docker.APIClient) -> None:
    for _ in range(5):
        await away(client.ping)
    assert proxy.open_connections == 1


async def test_cut_and_healed(proxy: EngineProxy, client: docker.APIClient) -> None:
    await away(client.ping)
    async with proxy.cut():
        assert proxy.open_connections == 0
        with pytest.raises(requests.ConnectionError):
            await away(client.ping)
    assert await away(client.ping)


async def test_a_call_that_hangs_never_got_to_the_engine(
    proxy: EngineProxy,
    client: docker.APIClient,
    docker_client: docker.DockerClient,
    tiny_image: str,
    label: str,
) -> None:
    client.timeout = 3
    async with proxy.judged(lambda asked: Fate.HANG if asked.changes else Fate.NORMAL):
        with pytest.raises(requests.ReadTimeout):
            await away(client.create_container, tiny_image, ["sleep", "100"], labels=[label])
        client.timeout = 30
        assert await away(client.ping)
    assert proxy.struck == {Fate.HANG: 1}
    assert docker_client.containers.list(all=True, filters={"label": label}) == []


async def test_a_call_whose_answer_is_lost_has_taken_effect(
    proxy: EngineProxy,
    client: docker.APIClient,
    docker_client: docker.DockerClient,
    tiny_image: str,
    label: str,
) -> None:
    async with proxy.judged(lambda asked: Fate.LOSE if asked.changes else Fate.NORMAL):
        with pytest.raises(requests.ConnectionError):
            await away(client.create_container, tiny_image, ["sleep", "100"], labels=[label])
    (made,) = docker_client.containers.list(all=True, filters={"label": label})
    await away(made.remove, force=True)
    assert proxy.struck == {Fate.LOSE: 1}


async def test_an_error_is_the_engines_own(proxy: EngineProxy, client: docker.APIClient) -> None:
    async with proxy.judged(lambda _: Fate.FAIL):
        with pytest.raises(docker.errors.APIError, match="the engine is in trouble") as error:
            await away(client.create_container, "whatever", ["sleep", "100"])
        assert error.value.status_code == 500
    assert await away(client.ping)
    assert proxy.open_connections == 1, "the connection outlives it"


async def test_slow(proxy: EngineProxy, client: docker.APIClient) -> None:
    began = asyncio.get_running_loop().time()
    async with proxy.slow(0.5):
        await away(client.ping)
    assert asyncio.get_running_loop().time() - began >= 0.5
    assert proxy.delayed == 1


class Listener:
    """A stream of events, read in a thread of its own."""

    def __init__(self, client: docker.APIClient) -> None:
        self.events: list[dict[str, Any]] = []
        self.broken = threading.Event()
        self._events = client.events(decode=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(requests.RequestException, ValueError):
            self.events.extend(self._events)
        self.broken.set()

    def heard(self, action: str, image: str) -> bool:
        """Whether that was told of an image; others have images and containers on the same engine."""
        return any((each["Action"], each["Actor"]["ID"]) == (action, image) for each in self.events)


async def listen(proxy: EngineProxy, client: docker.APIClient) -> Listener:
    listener: Listener = await away(Listener, client)
    await eventually(lambda: proxy.asked[Asked("GET", "/events")] == 1, what="the events are followed")
    return listener


async def test_silent_events(
    proxy: EngineProxy, client: docker.APIClient, docker_client: docker.DockerClient, tiny_image: str
) -> None:
    listener = await listen(proxy, client)
    image = await away(docker_client.images.get, tiny_image)
    await away(image.tag, "sandkeeper-test-heard")
    await eventually(lambda: listener.heard("tag", image.id), what="an event is heard")
    async with proxy.silent() as streams:
        assert streams == 1
        await away(docker_client.images.remove, "sandkeeper-test-heard")
        await eventually(lambda: proxy.swallowed > 0, what="an event is swallowed")
        assert not listener.broken.is_set()
    await eventually(listener.broken.is_set, what="it is told that something is missing")
    assert not listener.heard("untag", image.id)


async def test_events_break_within_a_line(proxy: EngineProxy, client: docker.APIClient) -> None:
    listener = await listen(proxy, client)
    assert await proxy.break_streams() == 1
    await eventually(listener.broken.is_set, what="the stream is broken")
    assert proxy.open_connections == 0
    assert await away(client.ping)
