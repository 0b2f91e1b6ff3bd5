"""The operator of the demo: one process of its own, as on any machine without a cluster to run it in."""

import socket
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import yaml

from demo.narration import NotSoError
from demo.places import Places
from demo.stage import NAMESPACE, Stage
from sandkeeper.api.policy import Backend
from testbed import files, processes, progress

SYSTEM_NAMESPACE: Final = "sandkeeper-system"

_READY_SECONDS: Final = 60
_GRACE_SECONDS: Final = 20
_PAUSE: Final = 0.1


def settings(places: Places, backend: Backend) -> dict[str, Any]:
    """Return the operator's configuration."""
    return {
        "namespace": SYSTEM_NAMESPACE,
        "release": "demo",
        # Whatever else is in the cluster is not ours to keep.
        "watchNamespaces": [NAMESPACE],
        # Both: what the demo of the other left is to end in order, too.
        "backends": [Backend.DOCKER.value, Backend.POD.value],
        "defaultBackend": backend.value,
        "ceilings": {"bindRoots": [str(places.household)]},
    }


def start(stage: Stage) -> None:
    """Start it afresh: what runs may be older than what is in the checkout."""
    places = stage.places
    stop(places)
    files.ensure(places.config, yaml.safe_dump(settings(places, stage.backend), sort_keys=False))
    places.log.unlink(missing_ok=True)
    port = _free_port()
    with progress.step("Starting the operator", aloud=False):
        record = processes.start(
            [
                *(sys.executable, "-m", "sandkeeper.cli", "run", "--config", str(places.config)),
                *("--health-host", "127.0.0.1", "--health-port", str(port)),
                *("--grace-seconds", str(_GRACE_SECONDS)),
            ],
            log=places.log,
            env=stage.environ,
        )
        processes.save(record, places.process)
        _wait_ready(record, port, places.log)


def stop(places: Places) -> None:
    """Stop it, if it runs. A pid alone proves nothing: the record has the time of its start, too."""
    record = processes.load(places.process)
    if record is not None and record.alive:
        with progress.step("Stopping the operator", aloud=False):
            processes.stop([record], grace=_GRACE_SECONDS + 5)
    places.process.unlink(missing_ok=True)


def runs(places: Places) -> bool:
    """Whether it runs."""
    record = processes.load(places.process)
    return record is not None and record.alive


def _wait_ready(record: processes.Record, port: int, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_ready(port):
        if not record.alive or time.monotonic() > deadline:
            tail = log.read_text(encoding="utf-8")[-2000:]
            raise NotSoError(f"the operator does not become ready:\n{tail}")
        time.sleep(_PAUSE)


def _is_ready(port: int) -> bool:
    try:
        # Any other answer than a good one is raised as an OSError.
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
