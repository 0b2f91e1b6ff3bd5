"""What is asked for is in force: looked at from inside real containers."""

# ruff: noqa: S108 - paths inside containers

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from sandkeeper.config.operator import Ceilings
from sandkeeper.config.resolution import UlimitValue
from sandkeeper.lifecycle.model import RuntimeState
from sandkeeper.runtimes.docker import DockerRuntimes
from support.engine import Sandboxing, a_config, an_order, run_in

pytestmark = pytest.mark.engine

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def inside(docker_client: docker.DockerClient) -> Run:
    def run(container_id: str, command: str) -> tuple[int, str]:
        code, said = run_in(docker_client, container_id, ["/bin/sh", "-c", command])
        return code, said.decode()

    return run


async def made(backend: DockerRuntimes, image: str, **changes: Any) -> str:
    seen = await backend.create(an_order(a_config(image, **changes)))
    assert seen.state is RuntimeState.RUNNING
    return seen.id


async def test_the_built_in_level_is_in_force(sandboxing: Sandboxing, tiny_image: str, inside: Run) -> None:
    async with sandboxing.running() as (backend, _):
        container = await made(backend, tiny_image)
        status = dict(
            line.split(":\t", 1)
            for line in inside(container, "cat /proc/self/status")[1].splitlines()
            if ":\t" in line
        )

        assert inside(container, "id -u; id -g")[1].split() == ["1000", "1000"]
        assert {status[name] for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {"0" * 16}
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        assert inside(container, "ls /sys/class/net")[1].split() == ["lo"]
        assert inside(container, "cat /proc/1/comm")[1] != "sleep\n"
        assert "sleep\0infinity" in inside(container, "cat /proc/1/cmdline")[1]
        assert inside(container, "touch /anywhere /bin/anywhere")[0] != 0
        for path in ("/tmp", "/var/tmp", "/run"):
            assert inside(container, f"touch {path}/file && cat {path}/file") == (0, "")
        mounts = {
            line.split()[1]: line.split() for line in inside(container, "cat /proc/mounts")[1].splitlines()
        }
        assert {"nosuid", "nodev", "noexec", "rw"} <= set(mounts["/tmp"][3].split(","))
        assert "ro" in mounts["/"][3].split(",")
        assert inside(container, "echo $LANG; echo $PWD")[1].split() == ["C.UTF-8", "/workspace"]


async def test_limits_are_in_force(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient, inside: Run
) -> None:
    async with sandboxing.running() as (backend, _):
        container = await made(
            backend,
            tiny_image,
            pids_limit=20,
            memory=64 << 20,
            memory_swap=64 << 20,
            milli_cpus=500,
            ulimits={"nofile": UlimitValue(100, 200)},
        )
        host = docker_client.api.inspect_container(container)["HostConfig"]

        assert (host["PidsLimit"], host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (
            20,
            64 << 20,
            64 << 20,
            500_000_000,
        )
        assert host["RestartPolicy"]["Name"] == "no"
        assert inside(container, "ulimit -n; ulimit -Hn")[1].split() == ["100", "200"]
        assert (
            "Resource temporarily unavailable"
            in inside(
                container,
                "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do sleep 30 >/dev/null 2>&1 & done",
            )[1]
        )


async def test_a_seccomp_profile_is_in_force(
    sandboxing: Sandboxing, tiny_image: str, inside: Run, tmp_path: Path
) -> None:
    (tmp_path / "no-links.json").write_text(
        '{"defaultAction": "SCMP_ACT_ALLOW",'
        ' "syscalls": [{"names": ["symlink", "symlinkat"], "action": "SCMP_ACT_ERRNO"}]}'
    )
    async with sandboxing.running(seccomp_profiles=str(tmp_path)) as (backend, _):
        container = await made(backend, tiny_image, seccomp_profile="no-links")

        assert inside(container, "busybox ln -s a /tmp/b")[0] != 0
        assert inside(container, "touch /tmp/a")[0] == 0


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[Path]:
    """Three directories of the sandbox's user: work, lore, and a disk that is mounted in lore."""
    for name in ("work", "lore", "disk", "lore/disk"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, 1000, 1000)
    subprocess.run(["mount", "--bind", tmp_path / "disk", tmp_path / "lore/disk"], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", tmp_path / "lore/disk"], check=True)


async def test_binds_are_mounted_as_they_say(
    sandboxing: Sandboxing, tiny_image: str, inside: Run, directories: Path
) -> None:
    async with sandboxing.running(ceilings=Ceilings(bind_roots=[str(directories)])) as (backend, _):
        container = await made(
            backend,
            tiny_image,
            binds=(f"{directories}/work:/workspace/shared:rw", f"{directories}/lore:/lore:ro"),
        )

        assert inside(container, "echo hello > /workspace/shared/file") == (0, "")
        assert (directories / "work/file").read_text() == "hello\n"
        assert inside(container, "touch /lore/file")[0] != 0
        # What is mounted in it on the host would not be read-only, so it is not there.
        assert inside(container, "touch /lore/disk/file")[0] != 0
        assert not (directories / "disk/file").exists()


async def test_what_the_image_says_does_not_count(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient, inside: Run
) -> None:
    built = docker_client.containers.create(tiny_image, command="true", labels={"sandkeeper-test": "1"})
    image = built.commit(
        repository=tiny_image.partition(":")[0],
        tag="opinionated",
        conf={
            "Entrypoint": ["/bin/false"],
            "StopSignal": "SIGKILL",
            "User": "0",
            "Healthcheck": {"Test": ["CMD", "touch", "/tmp/healthy"], "Interval": 10**9},
        },
    )
    try:
        async with sandboxing.running() as (backend, _):
            order = an_order(a_config(image.tags[0]))
            seen = await backend.create(order)

            assert seen.state is RuntimeState.RUNNING
            assert inside(seen.id, "id -u")[1] == "1000\n"
            found = docker_client.api.inspect_container(seen.id)
            assert "Health" not in found["State"]
            await backend.stop(seen.id, key=order.key)
            stopped = await backend.observe(order.key, node=seen.node)
            assert getattr(stopped, "state", None) is RuntimeState.STOPPED
            await backend.remove(seen.id, key=order.key)
    finally:
        built.remove(force=True)
        docker_client.images.remove(image.tags[0], force=True)
