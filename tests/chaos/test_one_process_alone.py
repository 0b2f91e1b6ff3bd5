"""What is done to the operator's process alone: its clock and its descriptors, shown on a program that tells them."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.clock import FakedClock
from chaos.descriptors import limited, open_descriptors, spare

CLOCKS = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
"""

OPENER = """
import os, sys
for _ in sys.stdin:
    try:
        print(os.open("/dev/null", os.O_RDONLY), flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


@contextmanager
def asking(program: str, **env: str) -> Iterator[tuple[int, Callable[[], str]]]:
    """Run a program that says a line whenever it is asked."""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env or None,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        says, told = process.stdin, process.stdout

        def ask() -> str:
            says.write("?\n")
            says.flush()
            return told.readline().strip()

        try:
            yield process.pid, ask
        finally:
            process.kill()


def test_a_clock_steps_both_ways_and_the_others_go_on(tmp_path: Path) -> None:
    clock = FakedClock(tmp_path / "clock")
    with asking(CLOCKS, **clock.environment) as (_, ask):
        for offset in (0, 3600, -86400, 0):
            clock.step(offset)
            wall, monotonic, boot = map(float, ask().split())
            assert wall - time.time() == pytest.approx(offset, abs=1)
            assert monotonic == pytest.approx(time.monotonic(), abs=1)
            assert boot == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=1)


def test_descriptors_run_out_and_come_back() -> None:
    with asking(OPENER) as (pid, ask):
        first = int(ask())
        with limited(pid, to_spare=2):
            assert spare(pid) == 2
            assert [ask() for _ in range(3)] == [str(first + 1), str(first + 2), "Too many open files"]
            assert spare(pid) == 0
        assert int(ask()) == first + 3
        assert {first, first + 3} <= open_descriptors(pid)
        assert spare(pid) > 2
