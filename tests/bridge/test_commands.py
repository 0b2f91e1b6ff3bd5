"""Commands with input and output, in a real container and in a real Pod."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from bridge.yards import Yard
from sandkeeper.bridge.errors import Unavailable
from sandkeeper.bridge.files import FileBridge
from sandkeeper.bridge.pods import PodExec
from support.engine import eventually

SH = ("/bin/sh", "-c")


async def test_streams_and_exit_code_are_the_commands_own(yard: Yard) -> None:
    ended = await yard.run([*SH, "cat; echo err >&2; exit 7"], b"in\n", limit=100, seconds=30)
    assert (ended.code, ended.stdout, ended.stderr) == (7, b"in\n", b"err\n")


async def test_input_ends(yard: Yard) -> None:
    blob = os.urandom(3_000_000)
    ended = await yard.run(
        ["/usr/bin/python3", "-c", "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"],
        blob,
        limit=len(blob),
        seconds=60,
    )
    assert (ended.code, ended.stdout) == (0, blob)


async def test_words_arrive_as_they_are(yard: Yard) -> None:
    words = ["a b", "", "&c=d%20", "ü;$HOME", "new\nline", "--"]
    ended = await yard.run(["/usr/bin/printf", "<%s>", *words], b"", limit=1000, seconds=30)
    assert ended.stdout.decode() == "".join(f"<{word}>" for word in words)


@pytest.mark.parametrize("stream", [1, 2])
async def test_too_much_output_is_given_up(yard: Yard, stream: int) -> None:
    begun = time.monotonic()
    with pytest.raises(Unavailable, match="more than the 100000 bytes"):
        await yard.run([*SH, f"head -c 1000000 /dev/zero >&{stream}"], b"", limit=100_000, seconds=60)
    assert time.monotonic() - begun < 50


async def test_not_more_than_a_little_of_the_complaints_is_kept(yard: Yard) -> None:
    ended = await yard.run([*SH, "head -c 50000 /dev/zero >&2"], b"", limit=100_000, seconds=60)
    assert 0 < len(ended.stderr) <= 2048


async def test_a_program_that_is_not_there(yard: Yard) -> None:
    for program in ("/usr/bin/nobody", "/etc/hostname", "/etc/hostname/python3"):
        ended = await yard.run([program, "-I"], b"x" * 50_000, limit=10_000, seconds=60)
        assert ended.code in {126, 127}


async def test_several_at_once(yard: Yard) -> None:
    async def echo(number: int) -> bytes:
        return (await yard.run(["/bin/cat"], b"%d" % number, limit=100, seconds=60)).stdout

    assert await asyncio.gather(*map(echo, range(20))) == [b"%d" % number for number in range(20)]


async def test_an_endless_command_is_given_up(remote: Yard) -> None:
    with pytest.raises(Unavailable, match="did not end within 1 seconds"):
        await remote.run([*SH, "sleep 3"], b"", limit=100, seconds=1)


async def test_endless_output_is_given_up(remote: Yard) -> None:
    begun = time.monotonic()
    with pytest.raises(Unavailable, match="more than"):
        await remote.run([*SH, "timeout 20 yes"], b"", limit=100_000, seconds=60)
    assert time.monotonic() - begun < 20


async def test_input_that_nobody_reads_keeps_nobody(remote: Yard) -> None:
    """In a Pod, Kubernetes itself may then never say that the command ended, or say that all went well."""
    begun = time.monotonic()
    try:
        ended = await remote.run([*SH, "exit 3"], os.urandom(5_000_000), limit=100, seconds=5)
        assert ended.code in ({0, 3} if isinstance(remote.run, PodExec) else {3})
    except Unavailable:
        pass
    assert time.monotonic() - begun < 30


async def test_whoever_asks_may_stop_waiting(remote: Yard) -> None:
    task = asyncio.create_task(remote.run([*SH, "sleep 2"], b"", limit=100, seconds=60))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await remote.run(["/bin/echo", "next"], b"", limit=100, seconds=30)).stdout == b"next\n"


async def test_nothing_is_left_open(remote: Yard) -> None:
    for _ in range(3):
        await remote.bridge.stat("/workspace")
    before = _open_files()
    for _ in range(12):
        await remote.bridge.stat("/workspace")
    await eventually(lambda: _open_files() <= before + 1, what="all is closed")


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_sandbox_that_keeps_us_waiting(remote: Yard) -> None:
    """It stops our program before that can give up by itself."""
    stop = asyncio.create_task(remote.python(STOP))
    bridge = FileBridge(remote.bridge.table, remote.run, seconds=1)
    try:
        await eventually(lambda: _is_stopping(remote), what="whoever comes is stopped")
        begun = time.monotonic()
        with pytest.raises(Unavailable, match=r"did not end within 6 seconds"):
            await _write_for_ever(bridge)
        assert time.monotonic() - begun < 60
    finally:
        await remote.sh("touch /workspace/stop")
        await stop


async def _is_stopping(yard: Yard) -> bool:
    return bool((await yard.sh("ls /workspace")).count(b"stopping"))


async def _write_for_ever(bridge: FileBridge) -> None:
    while True:
        try:
            await bridge.write("/workspace/file", b"x" * 1_000_000)
        except Unavailable as error:
            if "took too long" not in str(error):  # on a busy machine it gives up by itself
                raise


STOP = """
import os, signal
def signal_all(number):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if b"signal." + b"alarm" in file.read():
                    os.kill(int(pid), number)
        except OSError:
            pass
open("/workspace/stopping", "w").close()
while not os.path.exists("/workspace/stop"):
    signal_all(signal.SIGSTOP)
signal_all(signal.SIGKILL)
"""
