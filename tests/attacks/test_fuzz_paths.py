"""Paths, fuzzed: texts against the kernel's own opinion.

The code goes by text, and by where links lead. What is right is what the kernel does with the same path, on real
directories with real links; and where there is no file system, what the standard library says of it.
"""

import os
import posixpath
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.hostile import PATHS, TEXTS
from attacks.register import On, attack
from sandkeeper.api.errors import Permanent
from sandkeeper.api.workspace import Workspace
from sandkeeper.config.binds import BLOCKED_HOME_PARTS, BLOCKED_PATHS, Mount, check, normalise_path
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.templates import fill_workspace
from sandkeeper.runtimes.docker.sources import Sources, follow

STEPS = st.sampled_from(["a", "b", "c", "..", ".", "", "new"])
WAYS = st.lists(STEPS, max_size=7).map("/".join)
ROOTS = st.sampled_from(["/srv/agents", "/srv", "/", "/srv//agents/", "/home/rain/.openclaw", "/var/lib"])
LINKS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "a/a", "a/b", "b/c"]),
    st.sampled_from(
        [
            "..",
            ".",
            "a",
            "b/c",
            "../..",
            "../outside",
            "/",
            "/etc",
            "/proc/self/root",
            "/proc/self/cwd",
            "loop",
            "new/x",
        ]
    ),
    max_size=4,
)


@attack(
    "any text as a path",
    stopped_by="it has one spelling, absolute, without `.` and `..`; or it is refused",
    on=On.CODE,
)
@given(st.one_of(PATHS, TEXTS))
def test_a_path_has_one_spelling_or_none(text: str) -> None:
    try:
        path = normalise_path(text)
    except ValueError:
        assert not text.startswith("/") or "\0" in text
        return
    assert normalise_path(path) == path
    assert path.startswith("/")
    assert path == "/" or not {"", ".", ".."} & set(path[1:].split("/"))
    assert path == "/" + posixpath.normpath(text).lstrip("/")


@pytest.fixture(scope="module")
def plain_tree() -> Iterator[Path]:
    """Directories without any link, in which the text of a path says where it leads."""
    with tempfile.TemporaryDirectory(prefix="sk-fuzz-") as made:
        for one in "abc":
            for two in "abc":
                (Path(made) / one / two / "a").mkdir(parents=True)
        yield Path(made).resolve()


@attack(
    "a path that is checked as one text and opened as another",
    stopped_by="the spelling leads where the kernel goes by the text as it was written",
    on=On.CODE,
)
@given(way=WAYS)
def test_the_spelling_leads_where_the_kernel_goes(plain_tree: Path, way: str) -> None:
    written = f"{plain_tree}/{way}"
    with suppress(FileNotFoundError, NotADirectoryError):
        assert Path(written).stat().st_ino == Path(normalise_path(written)).stat().st_ino


@contextmanager
def linked_tree(links: dict[str, str]) -> Iterator[Path]:
    """Directories, and links among and out of them, to begin a bind at; beside them a directory that is not theirs."""
    with tempfile.TemporaryDirectory(prefix="sk-fuzz-") as made:
        root = Path(made).resolve() / "root"
        for name in ("a/a", "a/b", "b/c"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root.parent / "outside").mkdir()
        for name, target in links.items():
            link = root / name
            with suppress(OSError):  # what it would be in may be a link by now, or is not empty
                if link.is_dir() and not link.is_symlink():
                    link.rmdir()
                link.symlink_to(target)
        yield root


def opened(path: str) -> str | None:
    """Where the kernel arrives; None: nowhere."""
    try:
        found = os.open(path, os.O_PATH)
    except OSError:
        return None
    try:
        return str(Path(f"/proc/self/fd/{found}").readlink())
    finally:
        os.close(found)


def is_below(path: str, root: str) -> bool:
    return posixpath.commonpath([path, root]) == root


@attack(
    "binds through links that lead out of a bind root, in a circle, up, to `/proc`, to leaves that do not exist",
    stopped_by="the source is resolved through its deepest existing ancestor; what passes is where the kernel arrives",
    on=On.CODE,
)
@given(links=LINKS, way=WAYS)
def test_what_passes_is_below_the_root_to_the_kernel_too(links: dict[str, str], way: str) -> None:
    with linked_tree(links) as root:
        sources = Sources(Ceilings(bind_roots=(str(root),)), never=())
        arrived = opened(normalise_path(f"{root}/{way}"))
        try:
            found = sources.bind(Mount(normalise_path(f"{root}/{way}"), "/mnt", "ro"))
        except Permanent:
            found = None
        if found is not None:
            assert found.source == arrived
            assert is_below(found.source, str(root))
        elif arrived is not None:
            # What is refused deserved it: it is elsewhere, or was written as if it were.
            written = normalise_path(f"{root}/{way}")
            assert not is_below(arrived, str(root)) or not is_below(written, str(root))


@attack(
    "the same, while whoever can write where one of the links is chooses where it leads",
    stopped_by="the places of all links on the way are noted, and have to be where no sandbox writes",
    on=On.CODE,
)
@given(links=LINKS, way=WAYS)
def test_the_places_of_all_links_are_noted(links: dict[str, str], way: str) -> None:
    with linked_tree(links) as root:
        path = normalise_path(f"{root}/{way}")
        try:
            real, places = follow(path)
        except OSError:  # in a circle
            assert opened(path) is None
            return
        assert real == os.path.realpath(path)
        assert all(Path(place).is_symlink() for place in places)
        assert all(os.path.realpath(Path(place).parent) == str(Path(place).parent) for place in places)
        assert places or real == path


@attack(
    "any path as a bind's source, under any bind root: parents of blocked paths, credentials, whole homes, sockets",
    stopped_by="what passes is below a bind root and neither is, nor lies in, nor contains what is blocked",
    on=On.CODE,
)
@given(root=ROOTS, path=PATHS)
def test_no_source_passes_that_is_blocked(root: str, path: str) -> None:
    if list(check([f"{path}:/mnt"], Ceilings(bind_roots=(root,)))):
        return
    source, *_ = f"{path}:/mnt".split(":")
    source = posixpath.normpath("/" + source.lstrip("/"))
    assert is_below(source, posixpath.normpath("/" + root.lstrip("/")))
    assert not [path for path in BLOCKED_PATHS if is_below(source, path) or is_below(path, source)]
    assert not BLOCKED_HOME_PARTS & set(source.lower().split("/"))
    assert "docker.sock" not in source.lower().split("/")


@attack(
    "any text as an agentId in every template, admission passed by",
    stopped_by="it is one harmless component, and is refused otherwise",
    on=On.CODE,
)
@given(TEXTS)
def test_an_agents_id_is_one_component_or_none(agent_id: str) -> None:
    templates = {
        "hostPath": {"path": "/srv/agents/{agentId}"},
        "claim": {"name": "agents", "subPath": "agents/{agentId}"},
    }
    for kind, template in templates.items():
        section = Workspace.model_validate({"agent": {kind: template}})
        try:
            agent = fill_workspace(section, agent_id).agent
        except ValueError:
            continue
        assert agent is not None
        filled = (
            agent.host_path.path if agent.host_path else f"/srv/{agent.claim.sub_path}" if agent.claim else ""
        )
        assert posixpath.split(posixpath.normpath(filled)) == ("/srv/agents", agent_id)
