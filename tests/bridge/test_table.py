"""Which mount a path lies in, and what it is called on the other side."""

import posixpath
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.bridge.errors import BridgeError, OutsideMounts, Refused, TooLarge
from sandkeeper.bridge.table import Mount, MountTable
from sandkeeper.config.mounts import (
    ClaimSource,
    ConfigMapSource,
    HostSource,
    MountPoint,
    OwnSource,
    Role,
    mount_points,
)
from support.engine import a_config


def mount(role: Role, target: str, host: str | None = None, *, read_only: bool = False) -> Mount:
    return Mount(role=role, target=target, host=host, read_only=read_only)


WORKSPACE = mount(Role.WORKSPACE, "/workspace", "/srv/sandboxes/rain/workspace")
SKILLS = mount(Role.SKILLS, "/workspace/skills", "/srv/sandboxes/rain/skills", read_only=True)
SHARED = mount(Role.BIND, "/workspace/shared", "/srv/household/shared")
AGENT = mount(Role.AGENT, "/agent", "/srv/household/rain", read_only=True)
CLAIM = mount(Role.BIND, "/data")
TABLE = MountTable([WORKSPACE, SKILLS, SHARED, AGENT, CLAIM])


@pytest.mark.parametrize(
    ("path", "expected", "parts"),
    [
        ("/workspace", WORKSPACE, ()),
        ("/workspace/", WORKSPACE, ()),
        ("/workspace/notes.md", WORKSPACE, ("notes.md",)),
        ("//workspace/./a//b/", WORKSPACE, ("a", "b")),
        ("/workspace/skillset", WORKSPACE, ("skillset",)),
        ("/workspace/skills", SKILLS, ()),
        ("/workspace/skills/a/b", SKILLS, ("a", "b")),
        ("/workspace/shared/x", SHARED, ("x",)),
        ("/agent/SOUL.md", AGENT, ("SOUL.md",)),
        ("/data/...", CLAIM, ("...",)),
    ],
)
def test_the_longest_root_wins(path: str, expected: Mount, parts: tuple[str, ...]) -> None:
    place = TABLE.place(path)
    assert (place.mount, place.parts) == (expected, parts)
    assert TABLE.place(place.path) == place


@pytest.mark.parametrize("path", ["/", "/tmp/x", "/workspaces", "/agent2/x", "/etc/passwd"])  # noqa: S108
def test_what_lies_in_no_mount_is_told_with_what_does(path: str) -> None:
    with pytest.raises(OutsideMounts, match="'/agent', '/data', '/workspace', '/workspace/shared'"):
        TABLE.place(path)


@pytest.mark.parametrize(
    ("path", "error", "why"),
    [
        ("notes.md", OutsideMounts, "not absolute"),
        ("", OutsideMounts, "not absolute"),
        ("~/notes.md", OutsideMounts, "not absolute"),
        ("/workspace/../agent/x", Refused, r"'\.\.'"),
        ("/workspace/..", Refused, r"'\.\.'"),
        ("/workspace/a\0b", Refused, "NUL"),
        ("/workspace/\ud800", Refused, "no sequence of bytes"),
        ("/workspace/" + "a/" * 2100, TooLarge, "4211 bytes"),
    ],
)
def test_what_is_no_path(path: str, error: type[BridgeError], why: str) -> None:
    for ask in (TABLE.place, TABLE.host_path, TABLE.sandbox_path):
        with pytest.raises(error, match=why):
            ask(path)


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("/workspace/a/b", "/srv/sandboxes/rain/workspace/a/b"),
        ("/workspace", "/srv/sandboxes/rain/workspace"),
        ("/workspace/skills/a", "/srv/sandboxes/rain/skills/a"),
        ("/agent", "/srv/household/rain"),
        ("/data/x", None),
    ],
)
def test_from_the_sandbox_to_the_host(path: str, host: str | None) -> None:
    assert TABLE.host_path(path) == host


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("/srv/sandboxes/rain/workspace/a/b", "/workspace/a/b"),
        ("/srv/sandboxes/rain/skills", "/workspace/skills"),
        ("/srv/household/shared/x", "/workspace/shared/x"),
        ("/srv/household/rain/SOUL.md", "/agent/SOUL.md"),
    ],
)
def test_from_the_host_to_the_sandbox(host: str, path: str) -> None:
    assert TABLE.sandbox_path(host) == path


@pytest.mark.parametrize(
    "host",
    [
        "/srv/household/tio-claude/SOUL.md",
        "/srv/household",
        "/",
        # There is something else at these places of the sandbox.
        "/srv/sandboxes/rain/workspace/skills/a",
        "/srv/sandboxes/rain/workspace/shared",
    ],
)
def test_what_the_sandbox_does_not_see(host: str) -> None:
    with pytest.raises(OutsideMounts, match="does not see"):
        TABLE.sandbox_path(host)


def test_a_directory_that_is_mounted_twice_is_found_by_the_narrower_purpose() -> None:
    twice = MountTable([AGENT, replace(SHARED, host=AGENT.host), WORKSPACE])
    assert twice.sandbox_path("/srv/household/rain/x") == "/workspace/shared/x"


def test_where_one_hides_the_directory_another_may_show_it() -> None:
    wide = mount(Role.AGENT, "/agent", "/srv/sandboxes", read_only=True)
    table = MountTable([WORKSPACE, SKILLS, wide])
    assert table.sandbox_path("/srv/sandboxes/rain/workspace/skills/x") == "/agent/rain/workspace/skills/x"


@pytest.mark.parametrize("reverse", [False, True])
def test_of_two_at_one_place_the_narrower_purpose_wins(*, reverse: bool) -> None:
    roles = [Role.WORKSPACE, Role.AGENT, Role.BIND, Role.SKILLS]
    mounts = [mount(role, "/workspace", f"/srv/{role}") for role in roles]
    while mounts:
        table = MountTable(reversed(mounts) if reverse else mounts)
        assert table.place("/workspace/x").mount is mounts.pop()


def test_a_mount_below_is_found() -> None:
    assert TABLE.within(TABLE.place("/workspace/notes")) is None
    assert TABLE.within(TABLE.place("/agent")) is AGENT
    nested = MountTable([WORKSPACE, mount(Role.BIND, "/workspace/a/b/c")])
    found = nested.within(nested.place("/workspace/a"))
    assert found is not None
    assert found.target == "/workspace/a/b/c"
    assert nested.within(nested.place("/workspace/a/bc")) is None


def test_the_table_of_a_configuration() -> None:
    config = a_config("tools:1", binds=("/srv/household/shared:/workspace/shared:rw", "/srv/docs:/docs:ro"))
    table = MountTable.of(mount_points(config), hosts={"/workspace": "/srv/sandboxes/rain/workspace"})
    assert table.host_path("/workspace/x") == "/srv/sandboxes/rain/workspace/x"
    assert table.sandbox_path("/srv/docs/x") == "/docs/x"
    read_only = {
        path: table.place(path).mount.read_only for path in ("/workspace", "/workspace/shared", "/docs")
    }
    assert read_only == {"/workspace": False, "/workspace/shared": False, "/docs": True}


def test_what_is_known_of_each_source() -> None:
    sources: list[HostSource | ClaimSource | ConfigMapSource | OwnSource] = [
        HostSource("/srv/x"),
        ClaimSource(name="c"),
        ConfigMapSource("m"),
        OwnSource(),
    ]
    points = [
        MountPoint(role=Role.BIND, target=f"/{number}", source=source, read_only=True)
        for number, source in enumerate(sources)
    ]
    mounts = [MountTable.of(points).place(f"/{number}").mount for number in range(4)]
    assert [(one.host, one.has_links) for one in mounts] == [
        ("/srv/x", False),
        (None, False),
        (None, True),
        (None, False),
    ]


# --- properties -------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "ab", "...", "-", " ", "\n", "\udcff", "ü"])
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))
TARGETS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
MOUNTS = st.builds(
    Mount,
    role=st.sampled_from(list(Role)),
    target=TARGETS,
    read_only=st.booleans(),
    host=st.none() | TARGETS.map(lambda path: f"/host{path}"),
)
TABLES = st.lists(MOUNTS, max_size=6)


@given(TABLES, PATHS)
def test_what_the_sandbox_has_of_the_host_is_what_was_asked_for(mounts: list[Mount], path: str) -> None:
    table, host = MountTable(mounts), f"/host{path}".rstrip("/")
    try:
        shown = table.sandbox_path(host)
    except OutsideMounts:
        # It is told truly: whatever the sandbox sees at places that are named like it is something else.
        for one in mounts:
            if one.host is not None and posixpath.commonpath([one.host, host]) == one.host:
                inside = posixpath.join(one.target, *posixpath.relpath(host, one.host).split("/"))
                assert table.host_path(posixpath.normpath(inside)) != host
    else:
        assert table.host_path(shown) == host


@given(st.lists(MOUNTS, min_size=1, max_size=6), PATHS)
def test_there_and_back_where_nothing_is_mounted_twice(mounts: list[Mount], below: str) -> None:
    table = MountTable(replace(one, host=f"/host/{number}") for number, one in enumerate(mounts))
    path = posixpath.normpath(mounts[0].target + below)
    host = table.host_path(path)
    assert host is not None
    assert table.sandbox_path(host) == path


@given(TABLES, PATHS, st.data())
def test_the_order_of_mounts_does_not_matter(mounts: list[Mount], path: str, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(mounts))

    def asked(table: MountTable) -> object:
        try:
            return table.place(path), table.host_path(path)
        except OutsideMounts:
            return None

    assert asked(MountTable(mounts)) == asked(MountTable(shuffled))


@given(st.text(), TABLES)
def test_any_text_is_a_path_or_is_refused(text: str, mounts: list[Mount]) -> None:
    table = MountTable(mounts)
    for path in (text, "/" + text):
        try:
            place = table.place(path)
        except BridgeError:
            continue
        assert not {"", ".", ".."} & set(place.parts)
        assert not any("/" in part or "\0" in part for part in place.parts)
