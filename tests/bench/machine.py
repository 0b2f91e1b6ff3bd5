"""On what it was measured, as far as figures depend on it."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from bench.figures import Json
from bench.stage import Stage
from testbed import progress

__all__ = ["describe", "load"]


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


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
