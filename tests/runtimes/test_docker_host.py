"""The threads for the host's files."""

import asyncio
import threading
from pathlib import Path

import pytest

from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.runtimes.docker.host import Host


async def test_what_is_looked_up_comes_back_and_what_is_raised_too() -> None:
    host = Host(timeout=30)
    try:
        assert await host.run(lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            await host.run(lambda: 1 // 0)
    finally:
        host.close()


async def test_what_the_operating_system_says_is_told() -> None:
    host = Host(timeout=30)
    try:
        with pytest.raises(Transient, match=r"at /nowhere/at/all: no such file or directory\.$"):
            await host.run(lambda: Path("/nowhere/at/all").stat())
    finally:
        host.close()


async def test_a_file_system_that_hangs_ends_in_a_time_out() -> None:
    gate, host = threading.Event(), Host(timeout=0.2)
    try:
        with pytest.raises(Transient, match="may hang"):
            await host.run(lambda: gate.wait(60))
    finally:
        gate.set()
        host.close()


async def test_what_is_swept_is_waited_for_by_nobody_and_may_fail() -> None:
    gate, swept, host = threading.Event(), asyncio.Event(), Host(timeout=30)
    loop = asyncio.get_running_loop()

    def fail() -> None:
        assert gate.wait(60)
        raise Permanent("no matter", "no matter")  # type: ignore[arg-type]

    def tell() -> None:
        loop.call_soon_threadsafe(swept.set)

    try:
        host.sweep(fail)
        host.sweep(tell)
        assert await host.run(lambda: 1) == 1
        assert not swept.is_set()
        gate.set()
        async with asyncio.timeout(30):
            await swept.wait()
    finally:
        host.close()
