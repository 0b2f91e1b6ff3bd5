"""Directories of the host, found and checked: real directories, real links, real homes."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient
from sandkeeper.config.binds import BLOCKED_HOME_PARTS, BLOCKED_PATHS, BLOCKED_SOCKETS, Mount
from sandkeeper.config.operator import Ceilings
from sandkeeper.runtimes.docker.sources import Sources, bind_roots_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "agents"
    (path / "rain").mkdir(parents=True)
    return path


def looking(root: Path, *, never: tuple[str, ...] = ()) -> Sources:
    return Sources(Ceilings(bind_roots=[str(root)]), never=never)


def bind(root: Path, source: Path | str, **options: Any) -> Mount:
    return looking(root, **options).bind(Mount(str(source), "/x", "ro"))


def refusal(root: Path, source: Path | str, **options: Any) -> str:
    """Refused as a bind, and as a directory of the workspace just the same."""
    with pytest.raises(Permanent) as caught:
        bind(root, source, **options)
    with pytest.raises(SandkeeperError):
        looking(root, **options).directory(str(source), field="workspace.agent.hostPath")
    assert caught.value.reason is Reason.BIND_REFUSED
    assert caught.value.message.startswith(f"container.binds: '{source}:/x:ro' is refused: ")
    return caught.value.message


# --- what is found ----------------------------------------------------------------------------------------------------


def test_a_bind_is_mounted_from_where_its_links_lead(root: Path) -> None:
    (root / "current").symlink_to(root / "rain")

    assert bind(root, root / "current") == Mount(f"{root}/rain", "/x", "ro")
    assert looking(root).directory(f"{root}/current", field="x") == f"{root}/rain"


def test_the_places_of_links_are_noted(root: Path) -> None:
    (root / "rain" / "notes").mkdir()
    (root / "current").symlink_to("rain")
    (root / "latest").symlink_to(root / "current" / "here")
    (root / "rain" / "here").symlink_to("../current/notes")
    look = looking(root)

    assert look.bind(Mount(f"{root}/latest", "/x", "ro")).source == f"{root}/rain/notes"
    assert look.links == {f"{root}/latest", f"{root}/current", f"{root}/rain/here"}
    assert look.bind(Mount(f"{root}/rain", "/y", "ro")).source == f"{root}/rain"
    assert len(look.links) == 3


def test_links_in_a_circle_lead_nowhere(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one/x")

    assert "its links cannot be followed: too many levels of symbolic links" in refusal(root, root / "one")


def test_a_bind_root_that_is_a_link_opens_where_it_leads(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)

    assert bind(tmp_path / "alias", tmp_path / "alias/rain").source == f"{root}/rain"


def test_a_file_can_be_bound_and_is_no_workspace(root: Path) -> None:
    (root / "notes").write_text("")

    assert bind(root, root / "notes").source == f"{root}/notes"
    with pytest.raises(Transient) as caught:
        looking(root).directory(f"{root}/notes", field="workspace.agent.hostPath")
    assert caught.value.reason is Reason.VOLUME_MISSING


def test_nothing_that_is_missing_is_made(root: Path) -> None:
    with pytest.raises(Permanent, match=r"no such file.*Make it first") as caught:
        bind(root, root / "missing")
    assert caught.value.reason is Reason.BIND_REFUSED

    with pytest.raises(
        Transient, match=r"workspace.agent.hostPath: .*no such file.*Make the directory"
    ) as waits:
        looking(root).directory(f"{root}/missing", field="workspace.agent.hostPath")
    assert waits.value.reason is Reason.VOLUME_MISSING
    assert not (root / "missing").exists()


# --- attacks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/etc", "/var/run", "/proc/self/root", "..", "/", "../outside", "/root"])
@pytest.mark.parametrize("leaf", ["", "/not", "/not/there/yet"])
def test_a_link_that_leads_outside_whether_or_not_the_leaf_is_there(
    root: Path, tmp_path: Path, target: str, leaf: str
) -> None:
    (tmp_path / "outside").mkdir()
    (root / "innocent").symlink_to(target)

    refusal(root, f"{root}/innocent{leaf}")


@pytest.mark.parametrize("links", [1, 5])
def test_a_link_in_the_middle_and_a_chain_of_links(root: Path, links: int) -> None:
    for number in range(links):
        (root / f"l{number}").symlink_to(f"l{number + 1}")
    (root / f"l{links}").symlink_to("/etc")

    assert "/etc" in refusal(root, f"{root}/l0/ssl")


def test_links_in_a_circle(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")

    refusal(root, root / "a")


@pytest.mark.parametrize("path", sorted(BLOCKED_PATHS))
def test_a_link_to_whatever_is_blocked_and_to_what_holds_it(root: Path, path: str) -> None:
    (root / "itself").symlink_to(path)
    (root / "above").symlink_to(Path(path).parent)

    refusal(Path("/"), root / "itself")
    refusal(Path("/"), root / "above")


@pytest.mark.parametrize("plant", [os.mkfifo, lambda path: os.mknod(path, 0o020666, os.makedev(1, 3))])
def test_what_is_neither_a_directory_nor_a_file(root: Path, plant: Callable[[Path], None]) -> None:
    plant(root / "thing")

    assert "neither a directory nor a file" in refusal(root, root / "thing")


@pytest.mark.parametrize("name", sorted(BLOCKED_HOME_PARTS | BLOCKED_SOCKETS))
@pytest.mark.parametrize("kind", ["directory", "file", "dangling"])
def test_a_directory_that_holds_credentials_or_a_socket(root: Path, name: str, kind: str) -> None:
    """Homes are not only where homes usually are."""
    path = root / "rain" / name
    if kind == "directory":
        path.mkdir()
    elif kind == "file":
        path.write_text("")
    else:
        path.symlink_to("nowhere")

    assert f"holds {name}" in refusal(root, root / "rain")


@pytest.mark.parametrize(
    ("source", "is_refused"),
    [("keys", True), ("keys/deep", True), ("", True), ("other", False), ("keys2", False)],
)
def test_credentials_of_a_home_are_found_where_they_really_are(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, *, is_refused: bool
) -> None:
    """A home's .ssh may be a link to a directory with a harmless name below a bind root."""
    for name in ("keys/deep", "other", "keys2"):
        (root / name).mkdir(parents=True)
    home = tmp_path / "people/rain"
    home.mkdir(parents=True)
    (home / ".ssh").symlink_to(root / "keys")
    of_rain = pwd.struct_passwd(("rain", "x", 1000, 1000, "", str(home), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [of_rain])

    if is_refused:
        assert "never bound" in refusal(root, root / source)
    else:
        bind(root, root / source)


@pytest.mark.parametrize("never", ["data/engine", "data", "run/engine.sock"])
def test_what_this_engine_has_is_bound_to_nobody(root: Path, never: str) -> None:
    for name in ("data/engine/overlay2", "run", "fine"):
        (root / name).mkdir(parents=True)
    (root / "run/engine.sock").touch()
    (root / "alias").symlink_to(root / never)
    options = {"never": (str(root / never),)}

    refusal(root, root / never, **options)
    refusal(root, root / "alias", **options)
    refusal(root, (root / never).parent, **options)
    bind(root, root / "fine", **options)


# --- again ------------------------------------------------------------------------------------------------------------


def test_what_is_mounted_again_is_checked_again(root: Path, tmp_path: Path) -> None:
    looking(root).recheck(f"{root}/rain")
    looking(root).recheck(f"{root}/missing")  # the engine says so

    (tmp_path / "outside").mkdir()
    (root / "rain").rmdir()
    (root / "rain").symlink_to(tmp_path / "outside")
    with pytest.raises(Permanent, match=r"it leads to .*outside by now") as caught:
        looking(root).recheck(f"{root}/rain")
    assert caught.value.reason is Reason.BIND_REFUSED

    with pytest.raises(Permanent, match="outside the operator's bind roots"):
        looking(root).recheck(str(tmp_path / "outside"))


def test_what_was_found_by_a_root_that_is_a_link_passes_again(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    look = looking(tmp_path / "alias")

    look.recheck(look.bind(Mount(f"{tmp_path}/alias/rain", "/x", "ro")).source)


def test_bind_roots_are_found_by_their_names_and_by_where_they_lead(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    ceilings = Ceilings(bind_roots=[str(tmp_path / "alias"), str(root), "/nowhere"])

    assert bind_roots_of({f"{tmp_path}/alias/x"}, ceilings) == [f"{tmp_path}/alias"]
    assert bind_roots_of({f"{root}/x"}, ceilings) == [f"{tmp_path}/alias", str(root)]
    assert bind_roots_of({f"{root}2/x"}, ceilings) == []
