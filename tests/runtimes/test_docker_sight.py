"""Whether the operator sees the engine's host: from there, and from containers with right and wrong mounts."""

# ruff: noqa: ASYNC240 - nothing else waits for the loop of a test

import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

import sandkeeper
from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.config.operator import Ceilings
from sandkeeper.runtimes.docker.sight import Sight
from support.engine import Sandboxing

pytestmark = pytest.mark.engine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "agents"
    (path / "rain").mkdir(parents=True)
    return path


def sight_of(sandboxing: Sandboxing, **options: Any) -> Sight:
    return sandboxing.backend(**options)._workspaces._sight


async def test_what_was_compared_once_is_believed(sandboxing: Sandboxing, root: Path) -> None:
    sight = sight_of(sandboxing)
    await sight.prove([str(root)])

    root.chmod(0o555)
    before = root.stat().st_mtime_ns
    await sight.prove([f"{root}/"])

    assert root.stat().st_mtime_ns == before, "nothing was made in it again"


async def test_nothing_is_left(sandboxing: Sandboxing, root: Path) -> None:
    await sight_of(sandboxing).prove([str(root)])

    assert [path.name for path in root.iterdir()] == ["rain"]


async def test_another_directory_in_its_place_is_compared_again(sandboxing: Sandboxing, root: Path) -> None:
    sight = sight_of(sandboxing)
    await sight.prove([str(root)])
    root.rename(root.with_name("former"))
    root.mkdir()
    before = root.stat().st_mtime_ns

    await sight.prove([str(root)])

    assert root.stat().st_mtime_ns != before


async def test_a_root_that_is_missing(sandboxing: Sandboxing, root: Path) -> None:
    with pytest.raises(Permanent, match=r"no such file.*-v .*missing:") as caught:
        await sight_of(sandboxing).prove([f"{root}/missing"])

    assert caught.value.reason is Reason.BIND_REFUSED
    assert not (root / "missing").exists()


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A file system that nobody can write to."""
    path = tmp_path / "lore"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "lore", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


async def test_a_root_that_is_read_only_is_seen_by_whoever_sees_the_whole_host(
    sandboxing: Sandboxing, read_only: Path
) -> None:
    await sight_of(sandboxing).prove([str(read_only)])

    assert not list(Path("/").glob(".sandkeeper-*"))


async def test_roots_that_cannot_be_seen_are_told_at_the_start(
    sandboxing: Sandboxing, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ceilings = Ceilings(bind_roots=[str(root), f"{root}/missing"])
    async with sandboxing.running(ceilings=ceilings) as (backend, _):
        await backend._workspaces.run()

    told = [record.getMessage() for record in caplog.records if "bindRoots" in record.getMessage()]
    assert told
    assert all(message.startswith(f"Nothing can be bound below {root}/missing: ") for message in told)


# --- an operator in a container of the same engine --------------------------------------------------------------------

OPERATOR = """
import asyncio, sys
from sandkeeper.api.errors import SandkeeperError
from sandkeeper.config.operator import Ceilings
from support.engine import Sandboxing, a_config, an_order

async def main(url, root, image):
    backend = Sandboxing(url).backend(ceilings=Ceilings(bind_roots=[root]))
    try:
        await backend.preflight(an_order(a_config(image, binds=(f"{root}/rain:/rain:ro",))))
        print("it passes")
    except SandkeeperError as error:
        print(error.reason, error.message)
    finally:
        backend.close()

asyncio.run(main(*sys.argv[1:]))
"""

Operate = Callable[..., str]


@pytest.fixture
def operate(docker_client: docker.DockerClient, sandboxing: Sandboxing, tiny_image: str) -> Operate:
    """Run the operator's check in a container: with our own interpreter and code, on Debian's base."""
    socket = sandboxing.url.removeprefix("unix://")
    code = [str(Path(sandkeeper.__file__).parents[1]), str(Path(__file__).parents[1])]
    code.append(str(Path(__file__).parents[2] / "deploy/testbed"))
    installed = {sys.prefix, sys.base_prefix, sysconfig.get_path("purelib"), "/usr", *code}

    def operate(root: Path, *, sees: str | None) -> str:
        volumes = [f"{path}:{path}:ro" for path in sorted(installed)]
        volumes += [f"{socket}:{socket}", *([sees] if sees else [])]
        container = docker_client.containers.run(
            "debian:bookworm-slim",
            [sys.executable, "-c", OPERATOR, sandboxing.url, str(root), tiny_image],
            environment={"PYTHONPATH": ":".join(code), "PYTHONDONTWRITEBYTECODE": "1"},
            network_mode="none",
            volumes=volumes,
            detach=True,
        )
        try:
            container.wait()
            said = container.logs().decode()
        finally:
            container.remove(force=True)
        return said.strip()

    return operate


def test_an_operator_in_a_container_that_has_the_root_under_the_same_path(
    operate: Operate, root: Path
) -> None:
    assert operate(root, sees=f"{root}:{root}") == "it passes"
    assert operate(root, sees=f"{root.parent}:{root.parent}") == "it passes"


@pytest.mark.parametrize("sees", ["nothing", "it elsewhere", "another", "it read-only"])
def test_an_operator_in_a_container_that_has_it_not(
    operate: Operate, root: Path, tmp_path: Path, sees: str
) -> None:
    """Another directory with the same content would pass every check of names."""
    (tmp_path / "another/rain").mkdir(parents=True)
    volume = {
        "nothing": None,
        "it elsewhere": f"{root}:/agents",
        "another": f"{tmp_path}/another:{root}",
        "it read-only": f"{root}:{root}:ro",
    }[sees]

    said = operate(root, sees=volume)

    assert said.startswith(f"BindRefused {root} of ceilings.bindRoots cannot be used: ")
    assert said.endswith(f"mount it so: -v {root}:{root}")
    assert {
        "nothing": "no such file or directory",
        "it elsewhere": "no such file or directory",
        "another": "what the operator finds there is not what the Docker engine finds",
        "it read-only": "the operator may not write there",
    }[sees] in said
    assert [path.name for path in root.iterdir()] == ["rain"]
