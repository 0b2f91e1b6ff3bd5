"""What can be overheard of the operator's work: the command lines of the machine, and every version of every object."""

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from support.cluster import Cluster

__all__ = ["CommandLines", "recorded"]


class CommandLines(threading.Thread):
    """Reads the command line of every process of the machine, again and again, and keeps those that hold a text."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(name="command-lines", daemon=True)
        self._texts = [text.encode() for text in texts]
        self._over = threading.Event()
        self.found: list[str] = []

    def run(self) -> None:
        while not self._over.wait(0.005):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    line = (process / "cmdline").read_bytes()
                except OSError:
                    continue  # it ended
                if any(text in line for text in self._texts):
                    self.found.append(line.decode(errors="replace"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(10)


@contextmanager
def recorded(cluster: Cluster, namespace: str, kind: str, what: str, into: Path) -> Iterator[None]:
    """Write what a JSONPath says of every version of every object of a kind to a file."""
    command = [cluster.program, "--kubeconfig", str(cluster.kubeconfig), "-n", namespace]
    command += ["get", kind, "--watch", "-o", f"jsonpath={what}{{'\\n'}}"]
    with into.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink)
        try:
            yield
        finally:
            process.terminate()
            process.wait(10)
