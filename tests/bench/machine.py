"""On what it was measured, as far as figures depend on it."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from bench.figures import Json
from bench.stage import Stage
from testbed import progress

__all__ = ["describe", "load", "memory", "processor_time"]


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
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
