"""The program that is sent into sandboxes, in a name space of this machine."""

import ast
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.yards import Namespace, Yard
from sandkeeper.bridge import FileBridge, MountTable, helper
from sandkeeper.bridge.errors import NoSpace, ReadOnly, Refused, TooLarge
from sandkeeper.bridge.protocol import PYTHONS, Refusal, command, decode, encode
from sandkeeper.bridge.table import Mount
from sandkeeper.config.mounts import Role

SOURCE = Path(helper.__file__).read_text(encoding="utf-8")

WHAT_EVERY_PYTHON_HAS = frozenset(
    {
        "__future__",
        "ast",
        "collections",
        "contextlib",
        "errno",
        "itertools",
        "os",
        "signal",
        "stat",
        "sys",
        "types",
    }
)
"""Among what Debian's python3-minimal has; json is not."""


def alone(target: str, *, has_links: bool = False) -> MountTable:
    """A table with one mount."""
    return MountTable([Mount(role=Role.BIND, target=target, read_only=False, has_links=has_links)])


def test_it_is_for_python_3_9() -> None:
    ast.parse(SOURCE, feature_version=(3, 9))


def test_it_needs_no_more_than_the_smallest_python_has() -> None:
    imported = set()
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported <= WHAT_EVERY_PYTHON_HAS
    assert imported <= sys.stdlib_module_names


async def test_half_a_request_changes_nothing(namespace_yard: Yard) -> None:
    """Whoever wrote it died, or the connection did."""
    await namespace_yard.sh("echo before > /workspace/file")
    place = namespace_yard.bridge.table.place("/workspace/file")
    whole = encode("write", place, {}, data=b"after" * 1000, seconds=20)
    for length in (len(whole) - 1, len(whole) - 5000):
        ended = await namespace_yard.run(
            command(PYTHONS[0], seconds=20), whole[:length], limit=10_000, seconds=30
        )
        answer, _ = decode(ended.stdout)
        assert answer.refused is Refusal.CUT_OFF
    for length in (len(whole) - 5200, 5000, 3, 0):
        ended = await namespace_yard.run(
            command(PYTHONS[0], seconds=20), whole[:length], limit=10_000, seconds=30
        )
        assert ended.stdout == b""
    assert await namespace_yard.sh("cd /workspace; ls; cat file") == b"deep\nfile\nhidden\nskills\nbefore\n"


ENDLESS = "mkfifo /workspace/pipe; exec 3<>/workspace/pipe"
"""Input that does not end: somebody has it open to write."""


async def test_it_ends_by_itself_where_its_input_never_comes(namespace_yard: Yard) -> None:
    said = await namespace_yard.sh(f'{ENDLESS}; "$@" <&3 || echo $?', *command(PYTHONS[0], seconds=1))
    assert said == b"142\n"  # SIGALRM


async def test_it_gives_up_after_its_time_and_says_so(namespace_yard: Yard) -> None:
    request = encode("stat", namespace_yard.bridge.table.place("/workspace"), {}, data=b"", seconds=1)
    head, size = request.rsplit(b"'size': 0", 1)
    waiting = head + b"'size': 9" + size  # for data that does not come
    script = f'{ENDLESS}; cat >&3; "$@" <&3'
    said = await namespace_yard.sh(script, *command(PYTHONS[0], seconds=60), stdin=waiting)
    assert decode(said)[0].refused is Refusal.TOO_SLOW


async def test_a_file_that_says_it_is_empty_may_have_a_lot_in_it(namespace_yard: Yard) -> None:
    bridge = FileBridge(alone("/proc"), namespace_yard.run)
    assert (await bridge.stat("/proc/meminfo")).size == 0
    with pytest.raises(TooLarge):
        await bridge.read("/proc/meminfo", max_bytes=20)
    assert b"MemTotal" in await bridge.read("/proc/meminfo")


async def test_a_device_is_not_opened(namespace_yard: Yard) -> None:
    assert namespace_yard.hosts is not None
    device = Path(namespace_yard.hosts["workspace"], "zero")
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    with pytest.raises(Refused, match="a device"):
        await namespace_yard.bridge.read("/workspace/zero", max_bytes=10)
    with pytest.raises(Refused, match="a device"):
        await namespace_yard.bridge.write("/workspace/zero", b"")


async def test_a_full_disk_leaves_what_was(namespace_yard: Yard) -> None:
    bridge = FileBridge(alone("/small"), namespace_yard.run)
    await bridge.write("/small/file", b"before")
    with pytest.raises(NoSpace):
        await bridge.write("/small/file", bytes(2 << 20))
    assert await bridge.read("/small/file") == b"before"
    assert [entry.name for entry in await bridge.listdir("/small")] == ["file"]


async def test_links_that_the_kubelet_made_are_followed_within_their_mount(namespace_yard: Yard) -> None:
    """As the files of a ConfigMap are."""
    await namespace_yard.sh(
        "cd /prepare/agent; mkdir ..2026; echo who > ..2026/SOUL.md; ln -s ..2026 ..data; ln -s ..data/SOUL.md . "
        "&& ln -s /elsewhere/secret away; touch /elsewhere/secret"
    )
    bridge = FileBridge(alone("/agent", has_links=True), namespace_yard.run)
    assert await bridge.read("/agent/SOUL.md") == b"who\n"
    assert (await bridge.stat("/agent/SOUL.md")).size == 4
    with pytest.raises(Refused, match="another mount"):
        await bridge.read("/agent/away")
    with pytest.raises(Refused, match="symbolic link"):
        await FileBridge(alone("/agent"), namespace_yard.run).read("/agent/SOUL.md")


async def test_a_directory_that_is_no_mount_is_none(namespace_yard: Yard) -> None:
    """The table says what the configuration wants; the sandbox may be made from another."""
    bridge = FileBridge(alone("/workspace/deep"), namespace_yard.run)
    with pytest.raises(Refused, match="its mount is not there"):
        await bridge.listdir("/workspace/deep")


AWKWARD = "/a b\tc\nd\\e\\040f"


@pytest.fixture
def awkward() -> Iterator[Yard]:
    """A mount whose name the kernel has to escape, and one in a directory below."""
    script = """
        mount -t tmpfs tmpfs /mnt; mkdir "/mnt$1"; mount -t tmpfs -o mode=777 tmpfs "/mnt$1"
        mkdir "/mnt$1/x" "/mnt$1/x/y"; mount -t tmpfs tmpfs "/mnt$1/x/y"
        echo ready; read end
    """
    made = Namespace(script, AWKWARD)
    try:
        yield Yard(made)
    finally:
        made.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="a name space with mounts of its own needs root")
async def test_a_mount_may_be_called_anything(awkward: Yard) -> None:
    target = f"/mnt{AWKWARD}"
    bridge = FileBridge(alone(target), awkward.run)
    await bridge.write(f"{target}/file", b"found")
    assert await bridge.read(f"{target}/file") == b"found"
    with pytest.raises(Refused, match="another mount"):
        await bridge.rename(f"{target}/x", f"{target}/z")


async def test_read_only_is_also_what_the_kernel_says(namespace_yard: Yard) -> None:
    """Should the table be wrong, which a drifted sandbox makes it."""
    writable = MountTable([replace(namespace_yard.bridge.table.place("/agent").mount, read_only=False)])
    bridge = FileBridge(writable, namespace_yard.run)
    await namespace_yard.sh("echo who > /prepare/agent/SOUL.md")
    for attempt in (
        bridge.write("/agent/SOUL.md", b""),
        bridge.mkdir("/agent/new"),
        bridge.remove("/agent/SOUL.md"),
        bridge.rename("/agent/SOUL.md", "/agent/SELF.md"),
    ):
        with pytest.raises(ReadOnly, match="Read-only file system"):
            await attempt
