"""What is looked up on the host: real directories, real links, real owners."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.config.binds import Mount
from sandkeeper.config.operator import Ceilings, DockerSettings
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.docker.arguments import HostFacts
from sandkeeper.runtimes.docker.host import Host
from support.engine import a_config


def host(tmp_path: Path, *, settings: dict[str, Any] | None = None, **ceilings: Any) -> Host:
    return Host(DockerSettings(**settings or {}), Ceilings(bind_roots=[str(tmp_path / "agents")], **ceilings))


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    path = tmp_path / "agents"
    (path / "main").mkdir(parents=True)
    return path


async def refusal(host: Host, **changes: Any) -> Permanent:
    with pytest.raises(Permanent) as caught:
        await host.look(a_config("x", **changes))
    return caught.value


async def test_nothing_to_look_up(tmp_path: Path) -> None:
    found = await host(tmp_path).look(a_config("x", user="5:6", seccomp_profile="unconfined"))

    assert found == HostFacts(user="5:6", seccomp="unconfined")


async def test_a_bind_is_mounted_from_where_its_links_lead(tmp_path: Path, agents: Path) -> None:
    (agents / "current").symlink_to(agents / "main")

    found = await host(tmp_path).look(a_config("x", binds=(f"{agents}/current:/workspace:ro",)))

    assert found.mounts == (Mount(f"{agents}/main", "/workspace", "ro"),)


@pytest.mark.parametrize("target", ["/etc", "/var/run", "..", "/"])
async def test_a_link_that_leads_outside_is_refused(tmp_path: Path, agents: Path, target: str) -> None:
    (agents / "innocent").symlink_to(target)

    error = await refusal(host(tmp_path), binds=(f"{agents}/innocent:/x:rw",))

    assert error.reason is Reason.BIND_REFUSED


async def test_a_link_above_what_is_missing_is_followed_too(tmp_path: Path, agents: Path) -> None:
    (agents / "innocent").symlink_to("/etc")

    error = await refusal(host(tmp_path), binds=(f"{agents}/innocent/not/there:/x:rw",))

    assert error.reason is Reason.BIND_REFUSED
    assert "/etc" in error.message


async def test_a_missing_source_is_not_made(tmp_path: Path, agents: Path) -> None:
    error = await refusal(host(tmp_path), binds=(f"{agents}/missing:/x:rw",))

    assert error.reason is Reason.BIND_REFUSED
    assert "no such file" in error.message
    assert not (agents / "missing").exists()


async def test_a_socket_or_device_is_refused(tmp_path: Path, agents: Path) -> None:
    os.mkfifo(agents / "pipe")

    error = await refusal(host(tmp_path), binds=(f"{agents}/pipe:/x:rw",))

    assert error.reason is Reason.BIND_REFUSED
    assert "neither a directory nor a file" in error.message


async def test_user_auto_is_the_owner_of_the_workdir(tmp_path: Path, agents: Path) -> None:
    os.chown(agents / "main", 1234, 5678)

    found = await host(tmp_path).look(
        a_config("x", user="auto", workdir="/workspace", binds=(f"{agents}/main:/workspace:rw",))
    )

    assert found.user == "1234:5678"


async def test_user_auto_is_not_root_unless_the_ceilings_say_so(tmp_path: Path, agents: Path) -> None:
    os.chown(agents / "main", 0, 0)
    wanted = a_config("x", user="auto", workdir="/workspace", binds=(f"{agents}/main:/workspace:rw",))

    with pytest.raises(Permanent) as caught:
        await host(tmp_path).look(wanted)

    assert caught.value.reason is Reason.CEILING_EXCEEDED
    assert (await host(tmp_path, users=["0"]).look(wanted)).user == "0:0"


async def test_user_auto_needs_a_bind_at_the_workdir(tmp_path: Path, agents: Path) -> None:
    error = await refusal(host(tmp_path), user="auto", binds=(f"{agents}/main:/elsewhere:rw",))

    assert error.reason is Reason.INVALID_CONFIG


@pytest.mark.parametrize("file", ["strict", "strict.json"])
async def test_a_seccomp_profile_is_found_by_name(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text('{\n  "defaultAction": "SCMP_ACT_ERRNO"\n}')

    found = await host(tmp_path, settings={"seccomp_profiles": str(tmp_path)}).look(
        a_config("x", seccomp_profile="strict")
    )

    assert json.loads(found.seccomp or "") == {"defaultAction": "SCMP_ACT_ERRNO"}


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{not json", "\udcff".encode("utf-8", "surrogateescape")]
)
async def test_a_seccomp_profile_that_is_none(tmp_path: Path, content: str | bytes | None) -> None:
    if content is not None:
        (tmp_path / "strict").write_bytes(content if isinstance(content, bytes) else content.encode())

    error = await refusal(
        host(tmp_path, settings={"seccomp_profiles": str(tmp_path)}), seccomp_profile="strict"
    )

    assert error.reason is Reason.INVALID_CONFIG
    assert "strict" in error.message


async def test_a_seccomp_profile_without_a_directory(tmp_path: Path) -> None:
    assert (await refusal(host(tmp_path), seccomp_profile="strict")).reason is Reason.INVALID_CONFIG


async def test_a_file_system_that_hangs_ends_in_a_time_out() -> None:
    gate = threading.Event()

    class Hanging(Host):
        def _look(self, config: RuntimeConfig) -> HostFacts:
            assert gate.wait(60)
            return super()._look(config)

    slow = Hanging(DockerSettings(timeout_seconds=0.2), Ceilings())
    with pytest.raises(Transient, match="may hang"):
        await slow.look(a_config("x", seccomp_profile="strict"))

    gate.set()
    slow.close()
