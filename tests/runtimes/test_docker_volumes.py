"""The volume of a sandbox that has nothing on the host: its user's whatever the image, and gone with the container."""

# ruff: noqa: S108 - paths inside containers

import io
import secrets
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import requests
from docker import APIClient

from sandkeeper.config.naming import labels, runtime_name
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.pod import HostPathVolume
from sandkeeper.config.sources import HostSource
from sandkeeper.lifecycle.model import RuntimeState
from sandkeeper.runtimes.docker.transport import connect_to
from support.engine import Sandboxing, Sh, a_config, an_order

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def images(docker_client: docker.DockerClient, tiny_image: str) -> Iterator[dict[str, str]]:
    """Images that have different things where a workspace is to be."""

    def image(*members: tuple[tarfile.TarInfo, bytes]) -> str:
        container = docker_client.api.create_container(tiny_image, "true")
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode="w") as archive:
            for member, content in members:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        try:
            docker_client.api.put_archive(container, "/", sink.getvalue())
            repository = f"sandkeeper-volumes-{secrets.token_hex(4)}"
            docker_client.api.commit(container, repository=repository, tag="test")
        finally:
            docker_client.api.remove_container(container)
        return f"{repository}:test"

    def directory(name: str, owner: int, mode: int) -> tuple[tarfile.TarInfo, bytes]:
        member = tarfile.TarInfo(name)
        member.type, member.uid, member.mode = tarfile.DIRTYPE, owner, mode
        return member, b""

    def file(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
        member = tarfile.TarInfo(name)
        member.mode = 0o644
        return member, content

    made = {
        "root's": image(directory("work", 0, 0o755), file("work/README", b"of the image")),
        "somebody's": image(directory("work", 4711, 0o700)),
        "everybody's": image(directory("work", 0, 0o1777)),
        "theirs": image(directory("work", 1000, 0o755), file("work/README", b"of the image")),
        "none": tiny_image,
    }
    yield made
    for name in set(made) - {"none"}:
        docker_client.images.remove(made[name], force=True)


@pytest.mark.parametrize("kind", ["root's", "somebody's", "everybody's", "theirs", "none"])
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("user", ["1000:1000", "1234"])
async def test_its_user_may_write_whatever_the_image_has_there(
    sandboxing: Sandboxing, images: dict[str, str], sh: Sh, kind: str, user: str, *, read_only: bool
) -> None:
    config = a_config(images[kind], workdir="/work", read_only_root=read_only, user=user)
    async with sandboxing.running() as (backend, _):
        for number in range(2):  # the second time it knows the image
            order = an_order(config, f"agent:{number}")
            made = await backend.create(order)

            assert sh(made, "echo mine > file && cat file && echo $PWD") == (0, "mine\n/work")
            if kind in {"root's", "theirs"}:
                assert sh(made, "cat README") == (0, "of the image")
            assert backend.keys() == {an_order(config, f"agent:{one}").key for one in range(number + 1)}


@pytest.mark.parametrize("workdir", ["/a/b/c", "/tmp/work", "/var/tmp/w ö'$(id)"])
async def test_wherever_it_is(sandboxing: Sandboxing, tiny_image: str, sh: Sh, workdir: str) -> None:
    async with sandboxing.running() as (backend, _):
        made = await backend.create(an_order(a_config(tiny_image, workdir=workdir)))

        assert sh(made, "touch file && echo $PWD") == (0, workdir)


async def test_it_lasts_as_long_as_the_container_and_no_longer(
    sandboxing: Sandboxing, images: dict[str, str], sh: Sh, docker_client: docker.DockerClient
) -> None:
    api = docker_client.api
    async with sandboxing.running() as (backend, _):
        for kind in ("theirs", "root's"):
            order = an_order(a_config(images[kind], workdir="/work"), f"agent:{kind}")
            made = await backend.create(order)
            (volume,) = [
                one["Name"] for one in api.inspect_container(made.id)["Mounts"] if one["Type"] == "volume"
            ]
            sh(made, "echo mine > file")

            await backend.stop(made.id, key=order.key)
            await backend.start(made.id, key=order.key)
            assert sh(made, "cat file") == (0, "mine")
            api.inspect_volume(volume)

            await backend.remove(made.id, key=order.key)
            with pytest.raises(docker.errors.NotFound):
                api.inspect_volume(volume)
            made = await backend.create(order)
            assert sh(made, "cat file")[0] == 1


async def test_a_container_that_was_made_and_given_to_nobody_is_given_before_it_starts(
    sandboxing: Sandboxing, images: dict[str, str], sh: Sh, docker_client: docker.DockerClient
) -> None:
    """As after a crash between the two."""
    order = an_order(a_config(images["root's"], workdir="/work"))
    docker_client.api.create_container(
        images["root's"],
        ["sleep", "infinity"],
        user="1000:1000",
        working_dir="/work",
        name=runtime_name(order.config.container_prefix, order.key, sandboxing.installation),
        labels=labels(order.key, installation=sandboxing.installation, config_hash=order.config_hash),
        host_config=docker_client.api.create_host_config(
            mounts=[docker.types.Mount("/work", None, type="volume")], network_mode="none", read_only=True
        ),
    )
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)

        assert made.state is RuntimeState.RUNNING
        assert sh(made, "touch file") == (0, "")


# --- what it costs ----------------------------------------------------------------------------------------------------


class Counted:
    """Counts the requests that a backend makes about containers, volumes and images, by their kind."""

    def __init__(self, url: str) -> None:
        self._connect = connect_to(url)
        self.kinds: Counter[str] = Counter()

    def __call__(self, timeout: float) -> APIClient:
        client = self._connect(timeout)
        client.hooks["response"].append(self._count)
        return client

    def _count(self, answer: requests.Response, **_: Any) -> None:
        parts = answer.url.partition("/v1.")[2].partition("?")[0].split("/")[1:]
        kind = "/".join(part if len(part) < 40 and ":" not in part else "*" for part in parts)
        # A ping has no version in its path. The backend makes one now and then while the engine is slow.
        if kind not in {"", "info", "version", "events"}:
            self.kinds[f"{answer.request.method} {kind}"] += 1

    def taken(self) -> dict[str, int]:
        """Return what was counted since it was last asked."""
        taken, self.kinds = dict(self.kinds), Counter()
        return taken


CREATE, START, INSPECT = "POST containers/create", "POST containers/*/start", "GET containers/*/json"


async def test_what_a_creation_asks_of_the_engine(
    sandboxing: Sandboxing, images: dict[str, str], tmp_path: Path
) -> None:
    """For nothing on the host nothing is asked; and for something, once for each bind root."""
    for name in ("rain", "sandboxes"):
        (tmp_path / name).mkdir()
    host = {
        "agent": HostSource(f"{tmp_path}/rain"),
        "workspace": HostPathVolume(f"{tmp_path}/sandboxes"),
        "binds": (f"{tmp_path}/rain:/x:ro",),
    }
    counted = Counted(sandboxing.url)
    async with sandboxing.running(ceilings=Ceilings(bind_roots=[str(tmp_path)]), connect=counted) as (
        backend,
        _,
    ):
        await backend._workspaces.run()
        counted.taken()

        async def costs(image: str, scope: str, **changes: Any) -> dict[str, int]:
            await backend.create(an_order(a_config(images[image], workdir="/work", **changes), scope))
            return counted.taken()

        look = {"GET containers/*/archive": 1}
        assert await costs("theirs", "agent:1") == {CREATE: 1, INSPECT: 2, START: 1} | look
        assert await costs("theirs", "agent:2") == {CREATE: 1, INSPECT: 2, START: 1}
        give = {CREATE: 2, "PUT containers/*/archive": 1, "DELETE containers/*": 1}
        assert await costs("none", "agent:3") == {INSPECT: 2, START: 1} | look | give
        assert await costs("none", "agent:4") == {INSPECT: 2, START: 1} | give
        assert await costs("none", "agent:5", **host) == {CREATE: 1, INSPECT: 1, START: 1}

        order = an_order(a_config(images["none"], workdir="/work", **host), "agent:5")
        (container,) = backend._watch.ids(order.key)
        await backend.stop(container, key=order.key)
        counted.taken()
        await backend.start(container, key=order.key)
        assert counted.taken() == {INSPECT: 1, START: 1}
        for use in "abc":
            await backend.uphold(order.key, runtime_id=container, owners=(), config=order.config, use=use)
        assert counted.taken() == {}


async def test_nothing_is_looked_at_on_the_host_for_a_sandbox_that_has_nothing_there(
    sandboxing: Sandboxing, images: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sandboxing.running() as (backend, _):

        def never(call: object) -> None:
            raise AssertionError(call)

        monkeypatch.setattr(backend._workspaces._host._pool, "submit", never)
        order = an_order(a_config(images["theirs"], workdir="/work"))
        await backend.preflight(order)
        made = await backend.create(order)
        await backend.stop(made.id, key=order.key)
        await backend.start(made.id, key=order.key)
        assert (
            await backend.uphold(order.key, runtime_id=made.id, owners=(), config=order.config, use="") == ()
        )
