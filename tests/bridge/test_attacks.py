"""Code in a sandbox that wants the bridge to read or write something else than was asked for.

``/elsewhere`` stands for all that is none of the bridge's business. It is as writable to the sandbox as its workspace,
so that nothing but the bridge itself keeps the bridge from it.
"""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge.yards import Yard
from sandkeeper.bridge import FileBridge, helper
from sandkeeper.bridge.errors import BridgeError, NotFound, Refused, WrongKind

SECRET = b"none of yours"


@pytest.fixture
async def guarded(yard: Yard) -> AsyncIterator[Yard]:
    """A place with a secret elsewhere, which is as it was when the test is over."""
    await yard.sh(
        'cd /elsewhere; mkdir -p folder/below; printf %s "$1" | tee secret folder/secret > folder/below/secret',
        SECRET.decode(),
    )
    before = await _all_of(yard)
    yield yard
    assert await _all_of(yard) == before


async def _all_of(yard: Yard) -> bytes:
    return await yard.sh(
        "cd /elsewhere; find . -printf '%p %y %i %m %n %s\\n' | sort; cat secret folder/secret"
    )


def everything(bridge: FileBridge, path: str) -> list[Callable[[], Coroutine[Any, Any, object]]]:
    """All that can be done to a path that leads to a directory with a file ``secret`` and a directory ``below``."""
    return [
        lambda: bridge.read(f"{path}/secret"),
        lambda: bridge.write(f"{path}/secret", b"overwritten"),
        lambda: bridge.write(f"{path}/new", b"new"),
        lambda: bridge.listdir(path),
        lambda: bridge.listdir(f"{path}/below"),
        lambda: bridge.stat(f"{path}/secret"),
        lambda: bridge.mkdir(f"{path}/new"),
        lambda: bridge.mkdir(f"{path}/below/new", parents=True),
        lambda: bridge.remove(f"{path}/secret"),
        lambda: bridge.remove(f"{path}/below", recursive=True),
        lambda: bridge.rename(f"{path}/secret", "/workspace/stolen"),
        lambda: bridge.rename("/workspace/mine", f"{path}/mine"),
        lambda: bridge.rename(f"{path}/below", "/workspace/stolen"),
    ]


async def all_are_refused(yard: Yard, path: str, why: str) -> None:
    await yard.sh("echo mine > /workspace/mine")
    for attempt in everything(yard.bridge, path):
        with pytest.raises(Refused, match=why):
            await attempt()
    assert await yard.bridge.read("/workspace/mine") == b"mine\n"


@pytest.mark.parametrize("target", ["/elsewhere/folder", "hidden/folder", "/agent"])
async def test_a_link_to_a_directory(guarded: Yard, target: str) -> None:
    await guarded.sh('ln -s "$1" /workspace/link', target)
    await all_are_refused(guarded, "/workspace/link", "symbolic link")


async def test_a_link_in_between(guarded: Yard) -> None:
    await guarded.sh("mkdir -p /workspace/a/b; ln -s /elsewhere /workspace/a/b/c")
    await all_are_refused(guarded, "/workspace/a/b/c/folder", "symbolic link")


async def test_a_link_to_a_file(guarded: Yard) -> None:
    await guarded.sh("cd /workspace; ln -s /elsewhere/secret link; ln -s /elsewhere/nobody dangling")
    for attempt in (
        guarded.bridge.read("/workspace/link"),
        guarded.bridge.write("/workspace/link", b"overwritten"),
        guarded.bridge.write("/workspace/dangling", b"made"),
    ):
        with pytest.raises(Refused, match="symbolic link"):
            await attempt


async def test_a_link_is_removed_and_not_what_it_leads_to(guarded: Yard) -> None:
    await guarded.sh(
        "cd /workspace; ln -s /elsewhere/folder link; mkdir tree; ln -s /elsewhere/folder tree/link"
    )
    await guarded.bridge.remove("/workspace/link", recursive=True)
    await guarded.bridge.remove("/workspace/tree", recursive=True)


@pytest.mark.parametrize(
    "path",
    [
        "/workspace/../elsewhere/folder",
        "/workspace/deep/../../elsewhere/folder",
        "/workspace/deep/..",
        "/workspace/skills/../../../elsewhere/folder",
        "/../elsewhere/folder",
    ],
)
async def test_going_up(guarded: Yard, path: str) -> None:
    await all_are_refused(guarded, path, r"'\.\.'")


async def test_nul(guarded: Yard) -> None:
    await all_are_refused(guarded, "/workspace/deep\0/../../elsewhere/folder", "NUL")


async def test_a_mount_that_is_not_in_the_table(guarded: Yard) -> None:
    await all_are_refused(guarded, "/workspace/hidden/folder", "another mount")


async def test_around_a_mount_that_is_not_in_the_table(guarded: Yard) -> None:
    bridge = guarded.bridge
    for attempt in (
        bridge.remove("/workspace/hidden", recursive=True),
        bridge.rename("/workspace/hidden", "/workspace/found"),
        bridge.stat("/workspace/hidden"),
    ):
        with pytest.raises(Refused):
            await attempt
    await guarded.sh("mkdir /workspace/plain")
    with pytest.raises(Refused):
        await bridge.rename("/workspace/plain", "/workspace/hidden")


async def test_hard_links_are_not_read(guarded: Yard) -> None:
    await guarded.sh("cd /elsewhere; ln secret second; cd /workspace; echo mine > a; ln a b")
    try:
        for path in ("/workspace/a", "/workspace/b"):
            with pytest.raises(Refused, match="hard links"):
                await guarded.bridge.read(path)
    finally:
        await guarded.sh("rm /elsewhere/second")


async def test_a_hard_link_is_replaced_and_not_written_through(guarded: Yard) -> None:
    await guarded.sh("cd /workspace; echo before > a; ln a b")
    await guarded.bridge.write("/workspace/b", b"after\n")
    assert await guarded.sh("cd /workspace; cat a b") == b"before\nafter\n"


async def test_what_is_no_file_blocks_nobody(guarded: Yard) -> None:
    await guarded.sh("cd /workspace; mkfifo fifo")
    await guarded.python("import socket; socket.socket(socket.AF_UNIX).bind('/workspace/socket')")
    bridge = FileBridge(guarded.bridge.table, guarded.run, seconds=20)
    for path in ("/workspace/fifo", "/workspace/socket"):
        for attempt in (bridge.read(path), bridge.write(path, b"x")):
            with pytest.raises(Refused, match="a FIFO, a socket or a device"):
                await attempt
        with pytest.raises(WrongKind):
            await bridge.listdir(path)


async def test_a_mount_that_was_moved_away(guarded: Yard) -> None:
    """The root of a mount stays where it is; a directory above it does not."""
    await guarded.sh(
        "cd /workspace; mv deep aside; mkdir -p deep/team/below; echo fake > deep/team/secret; echo mine > mine"
    )
    try:
        for attempt in everything(guarded.bridge, "/workspace/deep/team")[:10]:
            with pytest.raises(Refused, match="its mount is not there"):
                await attempt()
        with pytest.raises(Refused, match="another mount"):
            await guarded.bridge.remove("/workspace/aside", recursive=True)
        with pytest.raises(Refused, match="another mount"):
            await guarded.bridge.rename("/workspace/aside", "/workspace/deep2")
    finally:
        await guarded.sh("cd /workspace; rm -r deep; mv aside deep")


async def test_a_link_where_a_mount_was(guarded: Yard) -> None:
    await guarded.sh("cd /workspace; mv deep aside; ln -s aside deep")
    try:
        with pytest.raises(Refused, match="symbolic link"):
            await guarded.bridge.listdir("/workspace/deep/team")
    finally:
        await guarded.sh("cd /workspace; rm deep; mv aside deep")


async def test_modules_that_lie_about(guarded: Yard) -> None:
    await guarded.sh(
        "cd /workspace; for each in ast os errno stat signal types sitecustomize usercustomize; do "
        "echo 'raise SystemExit(99)' > $each.py; done"
    )
    await guarded.bridge.write("/workspace/file", b"x")
    assert await guarded.bridge.read("/workspace/file") == b"x"


# --- races ------------------------------------------------------------------------------------------------------------

SWAP = """
import os, sys
os.chdir("/workspace")
os.symlink(sys.argv[1], "link")
swaps = 0
while not os.path.exists("stop"):
    os.rename("swap", "aside"); os.rename("link", "swap")
    os.rename("swap", "link"); os.rename("aside", "swap")
    swaps += 1
print(swaps)
"""
"""Keeps putting a link where a directory was, and back."""

STEAL = """
import os, sys
os.chdir("/workspace")
stolen = 0
while not os.path.exists("stop"):
    for name in os.listdir("."):
        if name.startswith(".sandkeeper-"):
            try:
                os.symlink(sys.argv[1] + "/secret", "mine")
                os.rename("mine", name)
                stolen += 1
            except OSError:
                pass
print(stolen)
"""
"""Keeps putting a link where a file is about to become another."""

DRIVE = """
import os, sys, time
space = {"__name__": "helper"}
exec(compile(sys.stdin.read(), "helper", "exec"), space)
under = os.fsencode(sys.argv[1]).split(b"/")
outcomes = {}
def attempt(operation, *names, **options):
    try:
        mount = space["Mount"](b"/workspace", has_links=False)
        said, data = space[operation](mount, under + list(names), **options)
        outcome = "done"
        assert data in (b"", b"ours"), data
        listed = {bytes.fromhex(entry["name"]) for entry in said.get("entries", ())}
        assert not listed & {b"folder", b"secret"}, listed
    except space["Refusal"] as refusal:
        outcome = str(refusal)
    except OSError as error:
        outcome = type(error).__name__
    os.closerange(3, 512)  # as the end of its process does
    outcomes[operation + " " + outcome] = outcomes.get(operation + " " + outcome, 0) + 1
end = time.monotonic() + 60
rounds = 0
while rounds < 500 and time.monotonic() < end:
    rounds += 1
    attempt("write", b"victim", data=b"ours")
    attempt("read", b"victim", limit=100)
    attempt("read", b"secret", limit=100)
    attempt("listdir", limit=100)
    attempt("mkdir", b"mine")
    attempt("write", b"mine", b"victim", data=b"ours")
    attempt("rename", b"victim", to=under + [b"mine", b"moved"])
    attempt("remove", b"mine", recursive=True)
    attempt("remove", b"secret", recursive=False)
open("/workspace/stop", "w").close()
print(repr(outcomes).replace("'", '"'))
"""
"""Does what thousands of requests do, without the hundred milliseconds that each of them takes to get there."""


@asynccontextmanager
async def meanwhile(yard: Yard, program: str) -> AsyncIterator[list[int]]:
    """Let a program work against us, and tell in the end how often it did what it does."""
    times: list[int] = []
    task = asyncio.create_task(yard.python(program, "/elsewhere/folder"))
    try:
        yield times
    finally:
        await yard.sh("touch /workspace/stop")
        times.append(int(await task))


@pytest.mark.parametrize("under", ["swap", "swap/below"])
async def test_thousands_of_requests_while_a_directory_is_swapped_for_a_link(
    guarded: Yard, under: str
) -> None:
    await guarded.sh("mkdir -p /workspace/swap/below")
    async with meanwhile(guarded, SWAP) as swaps:
        said = await guarded.python(DRIVE, under, stdin=inspect.getsource(helper).encode())
    outcomes = json.loads(said)
    assert swaps[0] > 100
    for operation in ("write", "read", "listdir", "mkdir", "remove"):
        assert {f"{operation} done", f"{operation} link"} <= set(outcomes), outcomes


async def test_requests_while_a_directory_is_swapped_for_a_link(guarded: Yard) -> None:
    outcomes = set()
    await guarded.sh("mkdir -p /workspace/swap")
    async with meanwhile(guarded, SWAP):

        async def attempt(number: int) -> None:
            try:
                await guarded.bridge.write(f"/workspace/swap/{number}", b"ours")
                assert await guarded.bridge.read(f"/workspace/swap/{number}") == b"ours"
                outcomes.add("done")
            except (Refused, NotFound, WrongKind) as error:
                outcomes.add(type(error).__name__)

        for start in range(0, 40, 4):
            await asyncio.gather(*map(attempt, range(start, start + 4)))
    assert outcomes


async def test_the_file_that_is_about_to_be_is_swapped_for_a_link(guarded: Yard) -> None:
    """It may then be a link that the bridge leaves there; but what it leads to is not touched."""
    async with meanwhile(guarded, STEAL) as stolen:
        for _ in range(15):
            try:
                await guarded.bridge.write("/workspace/secret", b"ours" * 100_000)
                assert await guarded.bridge.read("/workspace/secret") != SECRET
            except BridgeError:
                await guarded.sh("rm -f /workspace/secret")
    assert stolen[0] > 0
