"""Processes that outlive us, found again by record and proven ours before they get a signal.

A pid alone proves nothing: it may have been given to somebody else since. So the record has the start
time of the process and the boot it belongs to, and a process counts as ours only when both agree.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_PROC = Path("/proc")
_PAUSE = 0.02


@dataclass(frozen=True)
class Record:
    """One process, as it was when we started it."""

    pid: int
    started: int
    """In clock ticks since boot: field 22 of /proc/PID/stat."""
    boot: str

    @property
    def alive(self) -> bool:
        """Whether that very process runs; one that ended and waits to be reaped does not."""
        # It may be a child of ours, when a test starts an engine in its own process.
        with suppress(ChildProcessError, PermissionError):
            os.waitpid(self.pid, os.WNOHANG)
        found = _stat(self.pid)
        if found is None or self.boot != boot_id():
            return False
        state, _, started = found
        return state not in "ZX" and started == self.started

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process is there."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def freeze(self, *, seconds: float = 10.0) -> None:
        """Stop it (SIGSTOP), and wait until it stands still; SIGCONT lets it go on. TimeoutError: it does not stop.

        The signal alone is not enough: on a busy machine other threads go on until the one that takes it has its turn.
        """
        self.send(signal.SIGSTOP)
        deadline = time.monotonic() + seconds
        while self.alive and not _stands_still(self.pid):
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} did not stop within {seconds:g} s")
            time.sleep(_PAUSE)


def boot_id() -> str:
    """Tell this boot of the machine from every other."""
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def _stands_still(pid: int) -> bool:
    """Whether all its threads are stopped, or have ended."""
    try:
        threads = [_stat(f"{pid}/task/{one.name}") for one in (_PROC / f"{pid}/task").iterdir()]
    except OSError:
        return True
    return all(found is None or found[0] in "TZX" for found in threads)


def _stat(process: int | str) -> tuple[str, int, int] | None:
    """Read state, parent and start time, also of one thread (PID/task/TID)."""
    try:
        text = (_PROC / str(process) / "stat").read_text(encoding="utf-8")
    except OSError:
        return None
    # The name is in brackets and may hold brackets and blanks itself.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def record_of(pid: int) -> Record | None:
    """Describe a process that runs now."""
    found = _stat(pid)
    return None if found is None else Record(pid=pid, started=found[2], boot=boot_id())


def myself() -> Record:
    """Describe this process."""
    found = record_of(os.getpid())
    if found is None:
        raise ProcessLookupError("/proc does not show this process")
    return found


def start(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> Record:
    """Start a program in a session of its own, with its output in a file.

    Not by `subprocess`: its handle wants to be waited for, and these are to outlive us.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    pid = os.posix_spawnp(
        argv[0],
        list(argv),
        dict(os.environ if env is None else env),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        # Python ignores this one, and a child would inherit that.
        setsigdef=[signal.SIGPIPE],
        setsigmask=[],
    )
    found = record_of(pid)
    if found is None:
        raise ProcessLookupError(f"{argv[0]} ended at once, see {log}")
    return found


def save(record: Record, path: Path) -> None:
    """Keep a record, whole or not at all."""
    files.ensure(path, json.dumps(asdict(record)))


def load(path: Path) -> Record | None:
    """Read a record back; None if there is none."""
    try:
        return Record(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def stop(records: Iterable[Record], *, first: signal.Signals = signal.SIGTERM, grace: float = 5.0) -> None:
    """Ask some processes to end, all at the same time, and kill those that do not in time."""
    left = [record for record in records if record.alive]
    for number, seconds in ((first, grace), (signal.SIGKILL, 10.0)):
        for record in left:
            # A stopped process would not take the signal before it goes on.
            record.send(signal.SIGCONT)
            record.send(number)
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            left = [record for record in left if record.alive]
            if left:
                time.sleep(_PAUSE)
    if left:
        raise RuntimeError(f"these processes cannot be killed: {', '.join(str(r.pid) for r in left)}")


def mentioning(text: str) -> Iterator[Record]:
    """Find the processes that have a text, such as the path of a socket of ours, in their arguments."""
    wanted = os.fsencode(text)
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if wanted in (entry / "cmdline").read_bytes() and (found := record_of(int(entry.name))):
                yield found


def with_descendants(roots: Iterable[Record]) -> list[Record]:
    """List some processes and all below them, the deepest first."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (found := _stat(int(entry.name))):
            children.setdefault(found[1], []).append(int(entry.name))
    listed: dict[int, None] = {}
    waiting = [root.pid for root in roots]
    while waiting:
        pid = waiting.pop()
        listed.pop(pid, None)  # one that is a root too comes after its parent all the same
        listed[pid] = None
        waiting += children.get(pid, [])
    return [record for pid in reversed(listed) if (record := record_of(pid))]
