"""Every version of the Sandboxes of a namespace, in order, as the API server tells it."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.cluster import Cluster
from support.waiting import wait_for

__all__ = ["History", "watched"]

Json = dict[str, Any]


class History:
    """What was seen so far."""

    def __init__(self) -> None:
        self.statuses: list[tuple[str, Json]] = []
        """Names of Sandboxes, each with the status that it had from then on."""

    def replaced(self) -> list[str]:
        """Return the Sandboxes whose runtime's removal was announced, to be replaced, in that order."""
        order = list[str]()
        last: dict[str, str | None] = {}
        for name, status in self.statuses:
            removing = _removing(status)
            if removing is not None and last.get(name) != removing:
                order.append(name)
            last[name] = removing
        return order

    def most_away(self) -> int:
        """Return how many were being replaced at once, at the most."""
        away, most = set[str](), 0
        for name, status in self.statuses:
            (away.add if _removing(status) is not None else away.discard)(name)
            most = max(most, len(away))
        return most


def _removing(status: Json) -> str | None:
    return None if "pruned" in status else status.get("removing")


@contextmanager
def watched(cluster: Cluster, namespace: str) -> Iterator[History]:
    """Watch for as long as this lasts. The history is empty until what is there has been told."""
    history = History()
    process = subprocess.Popen(
        [
            *(cluster.program, "--kubeconfig", str(cluster.kubeconfig), "-n", namespace),
            *("get", "sandboxes", "--watch", "--output-watch-events", "-o", "json"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            told = event["object"]
            history.statuses.append((told["metadata"]["name"], told.get("status", {})))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        wait_for(lambda: history.statuses, what="the watch tells of something")
        yield history
        assert process.poll() is None, "the watch ended, so something was not seen"
    finally:
        process.kill()
        process.wait(10)
        reader.join(10)
        if process.stdout is not None:
            process.stdout.close()
