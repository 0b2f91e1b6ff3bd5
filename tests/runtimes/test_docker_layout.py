"""What a sandbox has of the host for each access: the table that the requirements have, on real directories."""

import os
from pathlib import Path
from typing import Any

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.api.workspace import Access
from sandkeeper.config.binds import Mount
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.pod import HostPathVolume
from sandkeeper.config.sources import HostSource
from sandkeeper.runtimes.docker.layout import Layout, host_paths, lay_out, user_ids
from sandkeeper.runtimes.docker.sources import Sources
from support.engine import a_config


@pytest.fixture
def srv(tmp_path: Path) -> Path:
    for name in ("agents/rain", "sandboxes", "shared", "lore"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def laid_out(srv: Path, *, ceilings: dict[str, Any] | None = None, **changes: Any) -> Layout:
    allowed = Ceilings(bind_roots=[str(srv)], **ceilings or {})
    sources = Sources(allowed, never=())
    return lay_out(a_config("x", **changes), name="agent-rain-abc", sources=sources, ceilings=allowed)


def with_agent(srv: Path, access: Access, **changes: Any) -> dict[str, Any]:
    return {
        "access": access,
        "agent": HostSource(f"{srv}/agents/rain"),
        "workspace": HostPathVolume(f"{srv}/sandboxes"),
        **changes,
    }


@pytest.mark.parametrize(
    ("access", "mounts"),
    [
        (
            Access.NONE,
            [
                ("sandboxes/agent-rain-abc/workspace", "/workspace", "rw"),
                ("sandboxes/agent-rain-abc/skills", "/workspace/skills", "ro"),
            ],
        ),
        (
            Access.RO,
            [
                ("agents/rain", "/agent", "ro"),
                ("sandboxes/agent-rain-abc/workspace", "/workspace", "ro"),
                ("sandboxes/agent-rain-abc/skills", "/workspace/skills", "ro"),
            ],
        ),
        (
            Access.RW,
            [("agents/rain", "/workspace", "rw"), ("agents/rain/skills", "/workspace/skills", "ro")],
        ),
    ],
)
def test_each_access(srv: Path, access: Access, mounts: list[tuple[str, str, str]]) -> None:
    found = laid_out(srv, **with_agent(srv, access))

    assert found.mounts == tuple(Mount(f"{srv}/{source}", target, mode) for source, target, mode in mounts)
    assert found.agent == f"{srv}/agents/rain"
    assert found.root == (None if access is Access.RW else f"{srv}/sandboxes")
    assert (found.is_seeded, found.has_mirror) == (access is not Access.RW, access is not Access.RW)
    assert found.sources == {mount.source for mount in found.mounts} | {f"{srv}/agents/rain"}
    assert found.places == {"skills": True}


def test_without_an_agent_the_workspace_begins_empty(srv: Path) -> None:
    found = laid_out(srv, workspace=HostPathVolume(f"{srv}/sandboxes"))

    assert found.mounts == (Mount(f"{srv}/sandboxes/agent-rain-abc/workspace", "/workspace", "rw"),)
    assert (found.agent, found.is_seeded, found.has_mirror, found.places) == (None, False, False, {})


def test_without_anything_on_the_host_there_is_nothing(srv: Path) -> None:
    assert laid_out(srv) == Layout(user="1000:1000", name="agent-rain-abc")
    assert host_paths(a_config("x")) == frozenset()


def test_every_path_that_is_named_is_looked_at(srv: Path) -> None:
    config = a_config("x", binds=(f"{srv}/shared:/workspace/shared:rw",), **with_agent(srv, Access.NONE))

    assert {f"{srv}/shared", f"{srv}/agents/rain", f"{srv}/sandboxes"} <= host_paths(config)
    assert f"{srv}/sandboxes" not in host_paths(a_config("x", **with_agent(srv, Access.RW)))


def test_places_in_the_workspace_are_made_once_each_and_not_in_what_is_mounted_there(srv: Path) -> None:
    (srv / "notes").write_text("")
    found = laid_out(
        srv,
        **with_agent(srv, Access.NONE),
        binds=(
            f"{srv}/shared:/workspace/shared:rw",
            f"{srv}/lore:/workspace/shared/lore:ro",
            f"{srv}/lore:/workspace/a/b:ro",
            f"{srv}/notes:/workspace/notes:ro",
            f"{srv}/lore:/lore:ro",
        ),
        tmpfs=("/workspace/cache:size=1m", "/tmp"),  # noqa: S108 - paths inside the container
    )

    assert found.places == {"skills": True, "shared": True, "a/b": True, "notes": False, "cache": True}


def test_links_are_followed_everywhere(srv: Path) -> None:
    (srv / "agents/current").symlink_to("rain")
    (srv / "boxes").symlink_to("sandboxes")
    found = laid_out(
        srv,
        access=Access.RO,
        agent=HostSource(f"{srv}/agents/current"),
        workspace=HostPathVolume(f"{srv}/boxes"),
    )

    assert {mount.source for mount in found.mounts} == {
        f"{srv}/agents/rain",
        f"{srv}/sandboxes/agent-rain-abc/workspace",
        f"{srv}/sandboxes/agent-rain-abc/skills",
    }


# --- the user ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", list(Access))
def test_auto_is_the_owner_of_the_agents_workspace(srv: Path, access: Access) -> None:
    os.chown(srv / "agents/rain", 1234, 5678)

    assert laid_out(srv, user="auto", **with_agent(srv, access)).user == "1234:5678"


def test_auto_is_the_owner_of_the_sandbox_root_where_there_is_no_agent(srv: Path) -> None:
    os.chown(srv / "sandboxes", 1234, 5678)

    assert laid_out(srv, user="auto", workspace=HostPathVolume(f"{srv}/sandboxes")).user == "1234:5678"


def test_auto_is_not_root_unless_the_ceilings_say_so(srv: Path) -> None:
    with pytest.raises(Permanent, match=r"ceilings\.users") as caught:
        laid_out(srv, user="auto", **with_agent(srv, Access.NONE))

    assert caught.value.reason is Reason.CEILING_EXCEEDED
    found = laid_out(srv, user="auto", ceilings={"users": ["0"]}, **with_agent(srv, Access.NONE))
    assert found.user == "0:0"


def test_auto_needs_something_on_the_host(srv: Path) -> None:
    with pytest.raises(Permanent) as caught:
        laid_out(srv, user="auto")

    assert caught.value.reason is Reason.INVALID_CONFIG


@pytest.mark.parametrize(("user", "ids"), [("1000", (1000, 1000)), ("0", (0, 0)), ("5:6", (5, 6))])
def test_a_user_in_numbers(user: str, ids: tuple[int, int]) -> None:
    assert user_ids(user) == ids


# --- what is missing or refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "field"),
    [("agents/rain", "workspace.agent.hostPath"), ("sandboxes", "workspace.volume.hostPath")],
)
def test_a_directory_that_is_missing_is_waited_for(srv: Path, missing: str, field: str) -> None:
    (srv / missing).rmdir()

    with pytest.raises(Transient) as caught:
        laid_out(srv, **with_agent(srv, Access.NONE))

    assert caught.value.reason is Reason.VOLUME_MISSING
    assert caught.value.message.startswith(f"{field}: '{srv}/{missing}' cannot be used: ")


@pytest.mark.parametrize(
    ("link", "field"),
    [("agents/rain", "workspace.agent.hostPath"), ("sandboxes", "workspace.volume.hostPath")],
)
def test_a_directory_that_leads_outside_is_refused(srv: Path, link: str, field: str) -> None:
    (srv / link).rmdir()
    (srv / link).symlink_to("/etc")

    with pytest.raises(Permanent) as caught:
        laid_out(srv, **with_agent(srv, Access.NONE))

    assert caught.value.reason is Reason.BIND_REFUSED
    assert caught.value.message.startswith(f"{field}: '{srv}/{link}' is refused: ")
