from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed import locks, probes, processes

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY = """
import sys, threading
def write():
    while True:
        with open(sys.argv[1], "w") as file:
            file.write("again")
for _ in range(8):
    threading.Thread(target=write).start()
"""
"""Changes a file all the time, from several threads."""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[processes.Record]:
    record = processes.start(["sleep", "1000.25"], log=tmp_path / "log")
    yield record
    processes.stop([record], first=signal.SIGKILL)


def test_it_has_a_session_of_its_own(sleeper: processes.Record) -> None:
    assert os.getsid(sleeper.pid) == sleeper.pid


def test_a_record_survives_being_saved(sleeper: processes.Record, tmp_path: Path) -> None:
    processes.save(sleeper, tmp_path / "pids" / "sleep.json")
    assert processes.load(tmp_path / "pids" / "sleep.json") == sleeper
    assert processes.load(tmp_path / "none.json") is None


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_another_process_with_the_same_pid_gets_no_signal(
    sleeper: processes.Record,
    change: dict[str, object],
) -> None:
    stranger = replace(sleeper, **change)  # type: ignore[arg-type]
    assert not stranger.alive
    processes.stop([stranger], first=signal.SIGKILL)
    assert sleeper.alive


def test_one_that_ended_is_not_alive_even_if_nobody_reaped_it(sleeper: processes.Record) -> None:
    os.kill(sleeper.pid, signal.SIGKILL)
    probes.wait("its end", lambda: "alive" if sleeper.alive else None, seconds=30)


def test_one_that_hangs_can_be_stopped(sleeper: processes.Record) -> None:
    sleeper.send(signal.SIGSTOP)
    processes.stop([sleeper], grace=5)
    assert not sleeper.alive


def test_one_that_is_frozen_does_nothing_from_that_moment_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    record = processes.start([sys.executable, "-c", BUSY, str(log)], log=tmp_path / "said")
    try:
        probes.wait("its work", lambda: None if log.exists() else "none yet", seconds=30)
        for _ in range(20):
            record.freeze()
            before = log.stat().st_mtime_ns
            time.sleep(0.05)
            assert log.stat().st_mtime_ns == before
            record.send(signal.SIGCONT)
    finally:
        processes.stop([record], grace=0)


def test_one_that_ended_needs_no_freezing(sleeper: processes.Record) -> None:
    processes.stop([sleeper], grace=0)
    sleeper.freeze()


def test_one_that_ignores_us_is_killed(tmp_path: Path) -> None:
    record = processes.start(
        ["sh", "-c", "trap '' TERM; echo ready; read x < /dev/ptmx"], log=tmp_path / "log"
    )
    said = tmp_path / "log"
    probes.wait("the trap", lambda: None if "ready" in said.read_text(encoding="utf-8") else "no", seconds=30)
    processes.stop([record], grace=0.1)
    assert not record.alive


def test_descendants_are_found_the_deepest_first(tmp_path: Path) -> None:
    record = processes.start(["sh", "-c", "sleep 1000.5 & wait"], log=tmp_path / "log")
    # Between its fork and its exec the child is called like its parent.
    probes.wait(
        "the child", lambda: None if list(processes.mentioning("sleep\x001000.5")) else "none yet", seconds=5
    )
    assert family()[-1] == record
    assert processes.with_descendants(processes.mentioning("sleep\x001000.5")) == family()[:1]
    processes.stop(family(), first=signal.SIGKILL)


def family() -> list[processes.Record]:
    return processes.with_descendants(processes.mentioning("sleep 1000.5 & wait"))


def test_a_lock_leaves_no_file_and_can_be_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    for _ in range(2):
        with locks.exclusive(path):
            assert path.exists()
        assert not path.exists()


def test_what_never_gets_ready_is_told_with_the_last_words() -> None:
    with pytest.raises(probes.NotReadyError, match=r"it is not ready after 0 s: still cold"):
        probes.wait("it", lambda: "still cold", seconds=0.1)
