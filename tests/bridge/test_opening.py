"""From what the status of a Sandbox says to its files."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from bridge import yards
from sandkeeper.bridge import Bridges, FileBridge, MountTable
from sandkeeper.bridge.errors import NotFound, ReadOnly, Unavailable
from sandkeeper.cluster.api import KubeApi
from sandkeeper.config.mounts import ConfigMapSource, MountPoint, Role
from sandkeeper.runtimes.docker.commands import Commands
from sandkeeper.runtimes.docker.transport import connect_to
from support.cluster import Cluster
from support.engine import a_config, run_in

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


def sandbox(namespace: str = "team", **runtime: str) -> dict[str, Any]:
    """A Sandbox as its status tells of it."""
    record = {"createdAt": "2026-01-01T00:00:00Z", **runtime}
    return {
        "metadata": {"name": "rain", "namespace": namespace},
        "status": {"runtime": record} if runtime else {},
    }


@pytest.fixture
async def bridges(cluster: Cluster, api: KubeApi) -> AsyncIterator[Bridges]:
    commands = Commands(connect_to(cluster.docker_host))
    yield Bridges(api=api, connection=api._connection, commands=commands)
    commands.close()


CONFIG = a_config("tools:1", binds=("/configured/elsewhere:/workspace/deep/team:rw",))


@pytest.fixture
def container(docker_client: docker.DockerClient, cluster: Cluster) -> Iterator[tuple[Any, yards.Yard]]:
    with yards.container(docker_client, cluster.docker_host) as yard:
        found = docker_client.containers.list(filters={"volume": yard.hosts["workspace"]})  # type: ignore[index]
        yield found[0], yard


async def test_a_container(
    bridges: Bridges, container: tuple[Any, yards.Yard], docker_client: docker.DockerClient
) -> None:
    made, yard = container
    assert yard.hosts is not None
    runtime = {"backend": "docker", "name": made.name, "id": made.id, "node": docker_client.info()["ID"]}
    bridge = await bridges.open(sandbox(**runtime), CONFIG)

    await bridge.write("/workspace/deep/team/note", b"for all")
    # What is mounted is what the engine says, whatever is configured by now.
    host = bridge.table.host_path("/workspace/deep/team/note")
    assert host == f"{yard.hosts['team']}/note"
    assert await bridge.read(bridge.table.sandbox_path(host)) == b"for all"
    assert run_in(docker_client, made.id, ["cat", "/workspace/deep/team/note"]) == (0, b"for all")
    assert bridge.table.sandbox_path(host) == "/workspace/deep/team/note"

    with pytest.raises(Unavailable, match="is on the Docker engine ELSE:WHERE, but this is"):
        await bridges.open(sandbox(**{**runtime, "node": "ELSE:WHERE"}), CONFIG)

    made.pause()
    try:
        with pytest.raises(Unavailable, match="paused"):
            await bridge.read("/workspace/deep/team/note")
    finally:
        made.unpause()
    made.stop(timeout=0)
    with pytest.raises(Unavailable, match="is not running"):
        await bridge.read("/workspace/deep/team/note")
    with pytest.raises(Unavailable, match="does not run"):
        await bridges.open(sandbox(**runtime), CONFIG)


async def test_a_container_that_is_gone(bridges: Bridges) -> None:
    with pytest.raises(Unavailable, match="No such container"):
        await bridges.open(sandbox(backend="docker", name="rain", id="0" * 64), CONFIG)


async def test_an_engine_that_is_gone(api: KubeApi, tmp_path: Path) -> None:
    commands = Commands(connect_to(f"unix://{tmp_path}/nobody.sock"))
    bridges = Bridges(api=api, connection=api._connection, commands=commands)
    try:
        with pytest.raises(Unavailable, match="the Docker engine was lost: no such file or directory"):
            await bridges.open(sandbox(backend="docker", name="rain", id="0" * 64), CONFIG)
    finally:
        commands.close()


async def test_a_pod(bridges: Bridges, made_pod: yards.Pod, cluster: Cluster) -> None:
    runtime = {"backend": "pod", "name": yards.POD, "id": made_pod.uid, "node": "whichever"}
    bridge = await bridges.open(sandbox(made_pod.namespace, **runtime), CONFIG)

    await bridge.write("/workspace/deep/team/note", b"for all")
    assert await bridge.read("/workspace/deep/team/note") == b"for all"
    assert bridge.table.host_path("/workspace/deep/team/note") == "/configured/elsewhere/note"

    with pytest.raises(Unavailable, match="is another one than was recorded"):
        await bridges.open(sandbox(made_pod.namespace, **{**runtime, "id": "0-0"}), CONFIG)
    with pytest.raises(Unavailable, match="it is gone"):
        await bridges.open(sandbox(made_pod.namespace, **{**runtime, "name": "nobody"}), CONFIG)


async def test_the_how_to(
    bridges: Bridges, container: tuple[Any, yards.Yard], docker_client: docker.DockerClient
) -> None:
    made, _ = container
    runtime = {"backend": "docker", "name": made.name, "id": made.id, "node": docker_client.info()["ID"]}
    text = (Path(__file__).parents[2] / "docs/how-to/files.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^       .*\n)+", text, re.MULTILINE)
    program = (
        "async def story():\n"
        + "".join(blocks).replace("bridges = Bridges", "_ = Bridges")
        + "       return locals()"
    )
    space: dict[str, Any] = {
        "Bridges": Bridges,
        **dict.fromkeys(("api", "connection", "commands")),
        "bridges": bridges,
        "sandbox": sandbox(**runtime),
        "config": CONFIG,
    }
    exec(program, space)  # noqa: S102 - our own document
    found = await space["story"]()
    assert (found["text"], found["names"], found["size"]) == (b"All is well.", ["today.md"], 12)
    assert found["path"] == "/workspace/deep/team/note"


async def test_a_sandbox_that_runs_nowhere(bridges: Bridges) -> None:
    with pytest.raises(Unavailable, match="runs nowhere"):
        await bridges.open(sandbox(), CONFIG)


async def test_a_status_that_makes_no_sense(bridges: Bridges) -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        await bridges.open({**sandbox(), "status": {"runtime": {"backend": 5}}}, CONFIG)


# --- what only one backend has ----------------------------------------------------------------------------------------


async def test_an_image_without_python(
    docker_client: docker.DockerClient, cluster: Cluster, tiny_image: str
) -> None:
    with (
        yards.container(docker_client, cluster.docker_host, image=tiny_image) as yard,
        pytest.raises(Unavailable, match="no Python at /usr/bin/python3"),
    ):
        await yard.bridge.write("/workspace/file", bytes(300_000))


async def test_a_pods_image_without_python(cluster: Cluster, api: KubeApi, tiny_pod_image: str) -> None:
    with (
        yards.pod(cluster, image=tiny_pod_image) as made,
        pytest.raises(Unavailable, match="no Python at /usr/bin/python3"),
    ):
        await made.yard(api).bridge.write("/workspace/file", b"x")


async def test_the_files_of_a_config_map(made_pod: yards.Pod, api: KubeApi) -> None:
    """The kubelet makes them links, and these are followed."""
    source = ConfigMapSource("notes")
    point = MountPoint(role=Role.AGENT, target="/config", source=source, read_only=True)
    bridge = FileBridge(MountTable.of([point]), made_pod.yard(api).run)
    assert await bridge.read("/config/SOUL.md") == b"who I am"
    assert (await bridge.stat("/config/SOUL.md")).size == 8
    with pytest.raises(ReadOnly):
        await bridge.write("/config/SOUL.md", b"")
    with pytest.raises(NotFound):
        await bridge.read("/config/nobody")
