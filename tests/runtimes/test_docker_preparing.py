"""Directories of a sandbox on the host, made and filled: real ones, and what somebody else may have put there."""

import os
import stat
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient
from sandkeeper.config.binds import Mount
from sandkeeper.runtimes.docker.layout import Layout
from sandkeeper.runtimes.docker.preparing import Complaints, discard, fill, refresh

USER = (1000, 1000)


@pytest.fixture
def srv(tmp_path: Path) -> Path:
    (tmp_path / "sandboxes").mkdir()
    agent = tmp_path / "agents/rain"
    (agent / "skills").mkdir(parents=True)
    (agent / "SOUL.md").write_text("the original")
    (agent / "MEMORY.md").write_text("private")
    (agent / "skills/mail").write_text("write mails")
    return tmp_path


def layout(srv: Path, **changes: Any) -> Layout:
    own = f"{srv}/sandboxes/agent-rain-abc"
    found = Layout(
        user="1000:1000",
        mounts=(
            Mount(f"{own}/workspace", "/workspace", "rw"),
            Mount(f"{own}/skills", "/workspace/skills", "ro"),
        ),
        agent=f"{srv}/agents/rain",
        root=f"{srv}/sandboxes",
        name="agent-rain-abc",
        is_seeded=True,
        has_mirror=True,
        places={"skills": True},
    )
    return replace(found, **changes)


def modes(directory: Path) -> dict[str, tuple[int, int]]:
    """Owner and mode of everything below."""
    return {
        str(path.relative_to(directory)): (path.lstat().st_uid, stat.S_IMODE(path.lstat().st_mode))
        for path in directory.rglob("*")
    }


def test_nobody_but_root_gets_near_and_the_sandboxs_user_may_write(srv: Path) -> None:
    before = os.umask(0o077)
    try:
        assert fill(layout(srv, places={}), wipe=False) == Complaints()
    finally:
        os.umask(before)
    fill(layout(srv), wipe=False)

    assert modes(srv / "sandboxes") == {
        "agent-rain-abc": (0, 0o700),
        "agent-rain-abc/workspace": (1000, 0o755),
        "agent-rain-abc/workspace/SOUL.md": (1000, 0o644),
        "agent-rain-abc/workspace/skills": (1000, 0o755),
        "agent-rain-abc/skills": (0, 0o755),
        "agent-rain-abc/skills/mail": (0, 0o644),
    }


def test_what_is_there_is_kept_and_follows_the_user(srv: Path) -> None:
    fill(layout(srv), wipe=False)
    own = srv / "sandboxes/agent-rain-abc"
    (own / "workspace/SOUL.md").write_text("grown since")
    (own / "workspace/work").write_text("of the sandbox")
    (srv / "agents/rain/SOUL.md").write_text("edited")

    assert fill(layout(srv, user="2000:2000"), wipe=False) == Complaints()

    assert (own / "workspace/SOUL.md").read_text() == "grown since"
    assert (own / "workspace/work").read_text() == "of the sandbox"
    assert (own / "workspace").stat().st_uid == 2000


def test_wiped_it_begins_afresh_and_the_agents_own_is_untouched(srv: Path) -> None:
    fill(layout(srv), wipe=False)
    own, before = srv / "sandboxes/agent-rain-abc", modes(srv / "agents")
    (own / "workspace/SOUL.md").write_text("grown since")
    (own / "workspace/work/deep").mkdir(parents=True)
    (own / "workspace/work/link").symlink_to(srv / "agents")
    (srv / "agents/rain/SOUL.md").write_text("edited")

    fill(layout(srv), wipe=True)
    discard(layout(srv))

    assert {path.name for path in own.iterdir()} == {"workspace", "skills"}
    assert {path.name for path in (own / "workspace").iterdir()} == {"SOUL.md", "skills"}
    assert (own / "workspace/SOUL.md").read_text() == "edited"
    assert modes(srv / "agents") == before


def test_what_is_wiped_is_out_of_the_way_at_once_and_removed_later(srv: Path) -> None:
    fill(layout(srv), wipe=False)
    own = srv / "sandboxes/agent-rain-abc"
    (own / "workspace/work").write_text("of the sandbox")

    for _ in range(2):
        fill(layout(srv), wipe=True)

    assert not (own / "workspace/work").exists()
    assert len(list(own.iterdir())) == 4
    discard(layout(srv))
    assert len(list(own.iterdir())) == 2
    fill(layout(srv), wipe=True)  # a crash in between leaves nothing that the next does not find
    discard(layout(srv))
    assert len(list(own.iterdir())) == 2


def test_the_agents_own_workspace_gets_nothing_but_places_of_mounts(srv: Path) -> None:
    agent = srv / "agents/rain"
    os.chown(agent, 1234, 1234)
    (agent / "skills/mail").unlink()
    (agent / "skills").rmdir()
    rw = layout(srv, root=None, is_seeded=False, has_mirror=False, places={"skills": True, "a/b": True})

    for wipe in (False, True):
        assert fill(rw, wipe=wipe) == Complaints()

    assert modes(agent) == {
        "SOUL.md": (0, 0o644),
        "MEMORY.md": (0, 0o644),
        "skills": (1234, 0o755),
        "a": (1234, 0o755),
        "a/b": (1234, 0o755),
    }
    assert list((srv / "sandboxes").iterdir()) == []


def test_an_agents_workspace_that_is_gone_is_not_made(srv: Path) -> None:
    (srv / "agents/rain").rename(srv / "elsewhere")

    with pytest.raises(Transient) as caught:
        fill(layout(srv), wipe=False)

    assert caught.value.reason is Reason.SEEDING_FAILED
    assert not (srv / "agents/rain").exists()


def test_what_cannot_be_copied_is_told_and_nothing_fails(srv: Path) -> None:
    agent = srv / "agents/rain"
    (agent / "TOOLS.md").symlink_to("/etc/passwd")
    (agent / "USER.md").write_bytes(b"x" * (2 * 1024 * 1024 + 1))
    (agent / "AGENTS.md").write_bytes(b"x" * (2 * 1024 * 1024))
    (agent / "skills/out").symlink_to("/etc")

    assert fill(layout(srv), wipe=False) == Complaints(
        seeds=(
            "TOOLS.md is not copied: it is a link",
            "USER.md is not copied: it has more than 2097152 bytes",
        ),
        skills=("'out' is not copied: it is a link",),
    )
    assert (srv / "sandboxes/agent-rain-abc/workspace/AGENTS.md").stat().st_size == 2 * 1024 * 1024


def test_skills_are_brought_up_to_date_and_files_are_not(srv: Path) -> None:
    fill(layout(srv), wipe=False)
    own, agent = srv / "sandboxes/agent-rain-abc", srv / "agents/rain"
    (agent / "skills/mail").write_text("write letters")
    (agent / "TOOLS.md").write_text("new")
    (agent / "USER.md").symlink_to("/etc/passwd")
    (own / "workspace/SOUL.md").unlink()

    assert refresh(layout(srv)) == Complaints(seeds=("USER.md is not copied: it is a link",))

    assert (own / "skills/mail").read_text() == "write letters"
    assert {path.name for path in (own / "workspace").iterdir()} == {"skills"}


@pytest.mark.parametrize("kind", ["missing", "link", "file"])
def test_skills_that_are_no_directory(srv: Path, kind: str) -> None:
    fill(layout(srv), wipe=False)
    skills = srv / "agents/rain/skills"
    skills.rename(srv / "elsewhere")
    if kind == "link":
        skills.symlink_to(srv / "elsewhere")
    elif kind == "file":
        skills.write_text("")

    complaints = refresh(layout(srv))

    shown = list((srv / "sandboxes/agent-rain-abc/skills").iterdir())
    if kind == "missing":
        assert (complaints, shown) == (Complaints(), [])
    else:
        assert complaints == Complaints(
            skills=("skills in the agent's workspace is a link or a file; make it a directory",)
        )


# --- who meddles ------------------------------------------------------------------------------------------------------


def fails(found: Layout) -> SandkeeperError:
    with pytest.raises(SandkeeperError) as caught:
        fill(found, wipe=False)
    assert caught.value.reason is Reason.SEEDING_FAILED
    return caught.value


@pytest.mark.parametrize("name", ["", "workspace", "skills"])
def test_a_link_in_place_of_any_directory_is_not_followed(srv: Path, name: str) -> None:
    outside = srv / "outside"
    outside.mkdir()
    place = srv / "sandboxes/agent-rain-abc" / name
    if name:
        place.parent.mkdir(mode=0o700)
    place.symlink_to(outside)

    fails(layout(srv))

    assert list(outside.iterdir()) == []
    assert outside.stat().st_uid == 0


@pytest.mark.parametrize("part", ["sandboxes", "agents", "agents/rain"])
def test_a_link_on_the_way_is_not_followed_by_now(srv: Path, part: str) -> None:
    """They were all resolved; one that appears after that was put there to mislead."""
    (srv / part).rename(srv / "elsewhere")
    (srv / part).symlink_to(srv / "elsewhere")

    fails(layout(srv))

    assert not (srv / "elsewhere/agent-rain-abc").exists()


@pytest.mark.parametrize("change", ["owner", "group", "others"])
def test_a_directory_that_others_may_change_is_not_trusted(srv: Path, change: str) -> None:
    own = srv / "sandboxes/agent-rain-abc"
    own.mkdir(mode=0o700)
    if change == "owner":
        os.chown(own, 1000, 1000)
    else:
        own.chmod(0o770 if change == "group" else 0o702)

    error = fails(layout(srv))

    assert isinstance(error, Permanent)
    assert str(own) in error.message
    assert list(own.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "is_directory"), [("skills", True), ("a/b", True), ("a", True), ("notes", False)]
)
@pytest.mark.parametrize("kind", ["link", "dangling", "wrong"])
def test_something_else_at_the_place_of_a_mount(
    srv: Path, place: str, kind: str, *, is_directory: bool
) -> None:
    """A sandbox put it into its copy, and something is to be mounted there now."""
    outside = srv / "outside"
    outside.mkdir()
    workspace = srv / "sandboxes/agent-rain-abc/workspace"
    workspace.mkdir(parents=True)
    workspace.parent.chmod(0o700)
    top = workspace / place.partition("/")[0]
    if kind == "wrong" and is_directory:
        top.write_text("")
    elif kind == "wrong":
        top.mkdir()
    else:
        top.symlink_to(outside if kind == "link" else srv / "nowhere")

    error = fails(layout(srv, places={place: is_directory}))

    assert isinstance(error, Permanent)
    assert place in error.message
    assert list(outside.iterdir()) == []
    assert not (srv / "nowhere").exists()


def test_a_workspace_that_is_swapped_for_a_link_all_the_time(srv: Path) -> None:
    """Were the runtime's directory open to somebody: at whatever moment, nothing is made where the link leads."""
    fill(layout(srv), wipe=False)
    outside, workspace = srv / "outside", srv / "sandboxes/agent-rain-abc/workspace"
    outside.mkdir()
    stop, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            swaps += 1
            with suppress(OSError):  # another was made meanwhile
                workspace.rename(srv / f"aside-{swaps}")
                workspace.symlink_to(outside)
                workspace.unlink()

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(300):
            try:
                fill(layout(srv), wipe=False)
            except SandkeeperError as error:
                assert error.reason is Reason.SEEDING_FAILED  # noqa: PT017 - either outcome is right
    finally:
        stop.set()
        swapping.join()

    assert swaps > 10
    assert list(outside.iterdir()) == []
    assert outside.stat().st_uid == 0
