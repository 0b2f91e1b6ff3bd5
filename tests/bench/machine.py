"""On what it was measured, as far as figures depend on it."""

import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench.figures import Json
from bench.stage import Stage
from testbed import progress

__all__ = ["describe", "load", "memory", "processor_time", "processor_times"]

_CLUSTER: Final = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kwok")
"""What a cluster consists of, as far as a Pod on a fake node needs it."""
_NAME_LENGTH: Final = 15
"""Characters of a program's name that the kernel keeps."""


async def describe(stage: Stage) -> Json:
    """Return the facts."""
    server = await stage.kube.request("GET", "/version")
    engine = stage.engine.info()
    facts = {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memoryGiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "kubernetes": server["gitVersion"],
        "cluster": stage.provider,
        "docker": engine["ServerVersion"],
        "storageDriver": engine["Driver"],
        "python": sys.version.split()[0],
        "kopf": version("kopf"),
        "sandkeeper": version("sandkeeper"),
    }
    progress.say(f"The machine: {facts}")
    return facts


def load() -> float:
    """Return how many processes wanted to run, on average over the last minute."""
    return round(os.getloadavg()[0], 1)


def memory(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"no VmRSS of {pid}")


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that a process used so far."""
    return _stat(Path(f"/proc/{pid}"))[1]


def processor_times() -> dict[str, float]:
    """Return the seconds of processor time that the programs of a local cluster used so far; {}: it runs elsewhere."""
    found: dict[str, float] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                name, used = _stat(process)
                found[name] = found.get(name, 0) + used
    return {name: found[short] for name in _CLUSTER if (short := name[:_NAME_LENGTH]) in found}


def _stat(process: Path) -> tuple[str, float]:
    before, _, after_name = (process / "stat").read_text(encoding="utf-8").rpartition(") ")
    fields = after_name.split()
    used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return before.partition(" (")[2], used


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
