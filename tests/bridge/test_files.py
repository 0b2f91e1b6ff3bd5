"""What the bridge does with files, in a name space of this machine, in a real container and in a real Pod."""

import asyncio
import os
import stat

import pytest

from bridge.yards import Yard
from sandkeeper.bridge.errors import (
    Denied,
    Exists,
    NotFound,
    OutsideMounts,
    ReadOnly,
    Refused,
    TooLarge,
    WrongKind,
)
from sandkeeper.bridge.protocol import Kind

AWKWARD = [
    "with a space",
    "new\nline",
    "'quotes\"`$(touch pwned)`",
    "--help",
    "-",
    "ünïcödé 名",
    os.fsdecode(b"no \xff utf-8 \x80"),
    "back\\slash\\040",
    "tab\tand\x01control",
    "...",
    "x" * 255,
]


async def test_what_was_written_is_read(yard: Yard) -> None:
    await yard.bridge.write("/workspace/notes.md", b"first")
    await yard.bridge.write("/workspace/notes.md", b"second\0\xff\n")

    assert await yard.bridge.read("/workspace/notes.md") == b"second\0\xff\n"
    assert await yard.sh("cat /workspace/notes.md") == b"second\0\xff\n"
    assert [entry.name for entry in await yard.bridge.listdir("/workspace")] == [
        "deep",
        "hidden",
        "notes.md",
        "skills",
    ]


async def test_it_is_the_sandboxs_own_user_who_writes(yard: Yard) -> None:
    await yard.bridge.write("/workspace/mine", b"")
    await yard.bridge.mkdir("/workspace/folder")
    assert await yard.sh("cd /workspace; stat -c '%u %g %a' mine folder") == b"1000 1000 644\n1000 1000 755\n"


async def test_an_empty_file_and_one_of_many_pieces(yard: Yard) -> None:
    blob = os.urandom(5_000_001)
    await yard.bridge.write("/workspace/empty", b"")
    await yard.bridge.write("/workspace/blob", blob)
    assert await yard.bridge.read("/workspace/empty") == b""
    assert await yard.bridge.read("/workspace/blob") == blob


async def test_a_name_may_be_anything(yard: Yard) -> None:
    for name in AWKWARD:
        await yard.bridge.mkdir(f"/workspace/names/{name}", parents=True)
        await yard.bridge.write(f"/workspace/names/{name}/{name}", os.fsencode(name))
        assert await yard.bridge.read(f"/workspace/names/{name}/{name}") == os.fsencode(name)
    listed = await yard.bridge.listdir("/workspace/names")
    assert [entry.name for entry in listed] == sorted(AWKWARD, key=os.fsencode)
    name = AWKWARD[2]
    await yard.bridge.rename(f"/workspace/names/{name}/{name}", f"/workspace/names/{AWKWARD[1]}/{name}")
    await yard.bridge.remove(f"/workspace/names/{name}")
    await yard.bridge.remove("/workspace/names", recursive=True)
    assert await yard.sh("cd /workspace; ls") == b"deep\nhidden\nskills\n"


async def test_a_name_may_be_longer_than_the_system_takes(yard: Yard) -> None:
    with pytest.raises(TooLarge, match="File name too long"):
        await yard.bridge.write(f"/workspace/{'x' * 256}", b"")


async def test_a_path_may_be_longer_than_the_system_takes_at_once(yard: Yard) -> None:
    parts = "/".join(["d" * 200] * 15)
    await yard.bridge.mkdir(f"/workspace/{parts}", parents=True)
    await yard.bridge.write(f"/workspace/{parts}/{'f' * 200}", b"deep down")
    assert await yard.bridge.read(f"/workspace/{parts}/{'f' * 200}") == b"deep down"


async def test_the_mode_of_a_file_is_kept(yard: Yard) -> None:
    await yard.sh("cd /workspace; echo old > tool; chmod 4750 tool")
    await yard.bridge.write("/workspace/tool", b"new")
    about = await yard.bridge.stat("/workspace/tool")
    assert about.mode == 0o750  # whoever it runs as is not ours to hand on
    assert about.size == 3


async def test_nothing_else_is_left_beside_a_file(yard: Yard) -> None:
    await yard.sh("mkdir -p /workspace/folder/taken; touch /workspace/folder/taken/x")
    await yard.bridge.write("/workspace/folder/file", b"x")
    with pytest.raises(WrongKind):
        await yard.bridge.write("/workspace/folder/taken", b"x")
    assert await yard.sh("ls -A /workspace/folder") == b"file\ntaken\n"


async def test_whoever_reads_meanwhile_sees_all_or_nothing_of_a_write(yard: Yard) -> None:
    old, new = b"o" * 3_000_000, b"n" * 4_000_000
    await yard.bridge.write("/workspace/file", old)
    seen = asyncio.create_task(yard.python(WATCH))
    for content in (new, old, new):
        await yard.bridge.write("/workspace/file", content)
    await yard.bridge.write("/workspace/stop", b"")
    assert await seen == b"whole\n"


WATCH = """
import os
while not os.path.exists("/workspace/stop"):
    with open("/workspace/file", "rb") as file:
        found = file.read()
    assert found in (b"o" * 3000000, b"n" * 4000000), len(found)
print("whole")
"""


async def test_stat_tells_what_there_is(yard: Yard) -> None:
    await yard.sh("cd /workspace; printf 12345 > file; ln file second; mkfifo fifo; ln -s /elsewhere link")
    await yard.python("import socket; socket.socket(socket.AF_UNIX).bind('/workspace/socket')")
    kinds = {
        "file": Kind.FILE,
        "fifo": Kind.FIFO,
        "link": Kind.LINK,
        "socket": Kind.SOCKET,
        "deep": Kind.DIRECTORY,
    }
    for name, kind in kinds.items():
        assert (await yard.bridge.stat(f"/workspace/{name}")).kind is kind
    about = await yard.bridge.stat("/workspace/file")
    assert (about.size, about.links) == (5, 2)
    assert abs(about.modified_ns - float(await yard.sh("date +%s")) * 1e9) < 3600e9
    assert (await yard.bridge.stat("/workspace")).kind is Kind.DIRECTORY
    listed = {entry.name: entry.about.kind for entry in await yard.bridge.listdir("/workspace")}
    assert listed.items() >= kinds.items()


async def test_what_is_not_there(yard: Yard) -> None:
    bridge, nobody = yard.bridge, "/workspace/nobody"
    for attempt in (
        bridge.read(nobody),
        bridge.listdir(nobody),
        bridge.stat(nobody),
        bridge.remove(nobody),
        bridge.rename(nobody, "/workspace/other"),
        bridge.write(f"{nobody}/file", b""),
        bridge.mkdir(f"{nobody}/folder"),
    ):
        with pytest.raises(NotFound, match="nobody"):
            await attempt


async def test_a_directory_is_no_file_and_a_file_no_directory(yard: Yard) -> None:
    bridge = yard.bridge
    await yard.sh("cd /workspace; mkdir folder; touch file")
    for attempt in (
        bridge.read("/workspace/folder"),
        bridge.read("/workspace"),
        bridge.write("/workspace/folder", b""),
        bridge.write("/workspace", b""),
        bridge.listdir("/workspace/file"),
        bridge.read("/workspace/file/below"),
        bridge.write("/workspace/file/below", b""),
        bridge.mkdir("/workspace/file", parents=True),
        bridge.remove("/workspace", recursive=True),
        bridge.rename("/workspace", "/workspace/folder"),
    ):
        with pytest.raises(WrongKind):
            await attempt


async def test_directories_are_made(yard: Yard) -> None:
    await yard.bridge.mkdir("/workspace/a")
    with pytest.raises(Exists):
        await yard.bridge.mkdir("/workspace/a")
    await yard.bridge.mkdir("/workspace/a/b/c", parents=True)
    await yard.bridge.mkdir("/workspace/a/b/c", parents=True)
    await yard.bridge.mkdir("/workspace", parents=True)
    assert (await yard.bridge.stat("/workspace/a/b/c")).kind is Kind.DIRECTORY


async def test_what_is_removed_is_gone_and_nothing_else(yard: Yard) -> None:
    await yard.sh(
        """
        cd /workspace; mkdir -p tree/a/b/c kept empty; touch tree/file tree/a/b/file kept/file file
        mkfifo tree/a/fifo; ln -s /workspace/kept tree/a/link; ln -s nowhere tree/b
        """
    )
    with pytest.raises(Exists, match="not empty"):
        await yard.bridge.remove("/workspace/tree")
    await yard.bridge.remove("/workspace/file")
    await yard.bridge.remove("/workspace/empty")
    await yard.bridge.remove("/workspace/tree/a/link")
    await yard.bridge.remove("/workspace/tree", recursive=True)
    assert await yard.sh("cd /workspace; ls . kept") == b".:\ndeep\nhidden\nkept\nskills\n\nkept:\nfile\n"


async def test_many_files_are_removed_at_once(yard: Yard) -> None:
    await yard.sh("mkdir /workspace/many; cd /workspace/many; seq 2500 | xargs touch; mkdir d; touch d/x")
    await yard.bridge.remove("/workspace/many", recursive=True)
    assert await yard.sh("ls /workspace") == b"deep\nhidden\nskills\n"


async def test_a_tree_may_be_too_deep_to_be_removed_at_once(yard: Yard) -> None:
    await yard.python("import os; os.makedirs('/workspace/x/' + '/'.join(['d'] * 300))")
    with pytest.raises(TooLarge, match="too deep"):
        await yard.bridge.remove("/workspace/x", recursive=True)
    await yard.bridge.remove("/workspace/x/" + "/".join(["d"] * 100), recursive=True)
    await yard.bridge.remove("/workspace/x", recursive=True)


async def test_files_and_directories_move(yard: Yard) -> None:
    bridge = yard.bridge
    await yard.sh(
        "cd /workspace; mkdir -p a/b c; echo 1 > a/b/one; echo 2 > two; ln -s two link; mkdir full; touch full/x"
    )
    await bridge.rename("/workspace/a/b", "/workspace/c/d")
    await bridge.rename("/workspace/two", "/workspace/c/d/one")
    await bridge.rename("/workspace/link", "/workspace/link2")
    assert await bridge.read("/workspace/c/d/one") == b"2\n"
    assert (await bridge.stat("/workspace/link2")).kind is Kind.LINK
    with pytest.raises(Exists):
        await bridge.rename("/workspace/c", "/workspace/full")
    with pytest.raises(WrongKind):
        await bridge.rename("/workspace/c/d/one", "/workspace/full")


async def test_sizes_are_bounded_both_ways(yard: Yard) -> None:
    await yard.sh(
        "cd /workspace; head -c 1001 /dev/zero > large; truncate -s 5G huge; mkdir many; touch many/1 many/2"
    )
    assert len(await yard.bridge.read("/workspace/large", max_bytes=1001)) == 1001
    for attempt in (
        yard.bridge.read("/workspace/large", max_bytes=1000),
        yard.bridge.read("/workspace/huge"),
        yard.bridge.write("/workspace/new", b"12345", max_bytes=4),
        yard.bridge.listdir("/workspace/many", max_entries=1),
    ):
        with pytest.raises(TooLarge):
            await attempt
    assert len(await yard.bridge.listdir("/workspace/many", max_entries=2)) == 2


async def test_a_file_may_grow_while_it_is_read(yard: Yard) -> None:
    grow = asyncio.create_task(
        yard.sh("cd /workspace; : > log; until [ -e stop ]; do head -c 100000 /dev/zero >> log; done")
    )
    try:
        for _ in range(8):
            try:
                assert len(await yard.bridge.read("/workspace/log", max_bytes=4 << 20)) <= 4 << 20
            except (TooLarge, NotFound):
                continue
    finally:
        await yard.bridge.write("/workspace/stop", b"")
        await grow


async def test_read_only_mounts_are_read(yard: Yard) -> None:
    await yard.sh("echo how > /prepare/skills/skill.md; echo who > /prepare/agent/SOUL.md")
    assert await yard.bridge.read("/workspace/skills/skill.md") == b"how\n"
    assert await yard.bridge.read("/agent/SOUL.md") == b"who\n"


async def test_read_only_mounts_are_not_changed(yard: Yard) -> None:
    bridge = yard.bridge
    await yard.sh("mkdir /prepare/agent/folder; echo who > /prepare/agent/SOUL.md; touch /workspace/mine")
    for attempt in (
        bridge.write("/agent/SOUL.md", b""),
        bridge.write("/workspace/skills/new", b""),
        bridge.mkdir("/agent/new"),
        bridge.remove("/agent/SOUL.md"),
        bridge.remove("/agent/folder", recursive=True),
        bridge.rename("/agent/SOUL.md", "/agent/SELF.md"),
        bridge.rename("/workspace/mine", "/agent/mine"),
        bridge.rename("/agent/SOUL.md", "/workspace/SOUL.md"),
    ):
        with pytest.raises(ReadOnly, match="mounted read-only"):
            await attempt
    assert await yard.sh("cd /agent; ls; cat SOUL.md") == b"SOUL.md\nfolder\nwho\n"


async def test_a_mount_below_is_neither_moved_nor_removed(yard: Yard) -> None:
    await yard.sh("echo how > /prepare/skills/skill.md; echo all > /workspace/deep/team/file")
    for attempt in (
        yard.bridge.remove("/workspace/skills", recursive=True),
        yard.bridge.remove("/workspace/deep", recursive=True),
        yard.bridge.remove("/workspace/deep/team", recursive=True),
        yard.bridge.rename("/workspace/deep", "/workspace/shallow"),
    ):
        with pytest.raises((Refused, ReadOnly, WrongKind)):
            await attempt
    assert await yard.sh("cat /workspace/skills/skill.md /workspace/deep/team/file") == b"how\nall\n"


async def test_from_mount_to_mount_nothing_is_moved(yard: Yard) -> None:
    await yard.bridge.write("/workspace/file", b"")
    with pytest.raises(Refused, match="different mounts"):
        await yard.bridge.rename("/workspace/file", "/workspace/deep/team/file")


@pytest.mark.parametrize("path", ["/etc/passwd", "/tmp/file", "/", "/elsewhere/file", "/workspaces/file"])  # noqa: S108
async def test_what_only_the_sandbox_has_is_not_there(yard: Yard, path: str) -> None:
    for attempt in (yard.bridge.read(path), yard.bridge.write(path, b""), yard.bridge.listdir(path)):
        with pytest.raises(OutsideMounts, match="lies in no mount"):
            await attempt


async def test_the_sandboxs_user_may_not_do_everything(yard: Yard) -> None:
    await yard.sh("cd /workspace; mkdir locked; touch locked/file secret; chmod 000 secret; chmod 500 locked")
    try:
        with pytest.raises(Denied):
            await yard.bridge.read("/workspace/secret")
        with pytest.raises(Denied):
            await yard.bridge.write("/workspace/locked/new", b"")
        with pytest.raises(Denied):
            await yard.bridge.remove("/workspace/locked", recursive=True)
    finally:
        await yard.sh("chmod 700 /workspace/locked")


async def test_neither_paths_nor_data_are_in_the_list_of_processes(yard: Yard) -> None:
    # A request that is not sent to its end keeps its process waiting, for whoever looks.
    seen = asyncio.create_task(yard.python(LOOK))
    for _ in range(5):
        await yard.bridge.write("/workspace/telltale", b"telltale" * 1000)
    await yard.bridge.write("/workspace/stop", b"")
    commands = await seen
    assert b"signal.alarm" in commands  # it did look at the right moment
    assert b"telltale" not in commands


LOOK = """
import os
seen = set()
while not os.path.exists("/workspace/stop"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                seen.add(file.read())
        except OSError:
            pass
print(seen)
"""


async def test_many_at_once_do_not_get_in_each_others_way(yard: Yard) -> None:
    contents = {f"/workspace/{number}": os.urandom(20_000) for number in range(12)}
    await asyncio.gather(*(yard.bridge.write(path, data) for path, data in contents.items()))
    await asyncio.gather(*(yard.bridge.write("/workspace/same", data) for data in contents.values()))
    found = await asyncio.gather(*map(yard.bridge.read, contents))
    assert found == list(contents.values())
    assert await yard.bridge.read("/workspace/same") in contents.values()


async def test_a_new_file_has_the_mode_that_others_have(yard: Yard) -> None:
    await yard.bridge.write("/workspace/new", b"")
    await yard.sh("touch /workspace/other")
    modes = {(await yard.bridge.stat(f"/workspace/{name}")).mode for name in ("new", "other")}
    assert modes == {stat.S_IMODE(0o644)}
