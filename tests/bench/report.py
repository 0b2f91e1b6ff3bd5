"""The report: docs/performance.md for people, docs/performance.json for programs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.figures import Json, Section, Table, wrapped

__all__ = ["Report"]

_INTRODUCTION: Final = """\
What Sandkeeper costs, measured on a real API server, a real Docker engine and a real node. Beside each figure of time
stands a baseline from the same run, taken in turns with it: the same container, made on the same engine by hand, or the
same Pod, created by hand. A busy machine slows both; so read the ratios, and take the seconds for what this machine
gives.

This page is written by the benchmark; [performance.json](performance.json) has the same figures. To measure anew, all
of it, or parts by the names that the sections give, which are printed and not written:

```sh
make bench
make bench PARTS="pod-ready pod-path pod-writes pod-many"
```
"""

_LOCAL: Final = """\
API server, etcd, Docker engine, operator and client share these cores, so whatever one of them does slows the others.
etcd runs without waiting for the disk: writes are quicker here than on most clusters, and the number of writes is what
carries over. The load average tells how busy the machine was, with this benchmark and whatever else ran on it."""

_IMAGE: Final = """\
All containers are of one image of 2 MB, a static busybox, with the built-in hardening (read-only root, no network, no
capabilities, three tmpfs, an init). Pods are of debian:bookworm-slim, which the node has, with the built-in hardening
of Pods. Pulling an image is not measured, nor is a setupCommand."""

_NOT_MEASURED: Final = """\
## What these figures do not say

* Thousands of Sandboxes: one engine on this machine starts few containers a second, and `docker.maxContainers` is 200
  by default. Beyond that the engine is the limit and not the operator.
* How long a Pod takes to start elsewhere: that is up to the cluster's nodes and network.
* The write that refreshes a last use, once per hot window and once a minute at most: the steps above are quicker.
* A far API server: client, server and operator are on one machine, where a request takes milliseconds. The path to
  Ready has three requests one after the other (the client's POST and our two writes), so it grows by about three
  round trips; a Pod by hand has one."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run."""

    machine: Json
    loads: tuple[float, float]
    sections: Sequence[Section]

    def write(self, folder: Path) -> None:
        """Write both files."""
        today = datetime.now(UTC).date().isoformat()
        data = {
            "date": today,
            "machine": self.machine,
            "loadAverage": list(self.loads),
            "figures": {section.name: section.data for section in self.sections},
        }
        text = json.dumps(data, indent=2, ensure_ascii=False)
        (folder / "performance.json").write_text(text + "\n", encoding="utf-8")
        (folder / "performance.md").write_text(self.to_markdown(today), encoding="utf-8")

    def to_markdown(self, today: str) -> str:
        """Write it as Markdown."""
        short = [wrapped(f"* {section.headline}", indent="  ") for section in self.sections]
        parts = ["# Performance", _INTRODUCTION.strip(), "\n".join(short), self._machine(today)]
        parts += [section.to_markdown() for section in self.sections]
        return "\n\n".join([*parts, _NOT_MEASURED]) + "\n"

    def _machine(self, today: str) -> str:
        facts = self.machine
        rows = (
            ("date", today),
            ("processor", f"{facts['cores']} cores, {facts['processor']}"),
            ("memory", f"{facts['memoryGiB']} GiB"),
            ("kernel", f"Linux {facts['kernel']}"),
            ("Kubernetes", f"{facts['kubernetes']} ({facts['cluster']})"),
            ("Docker", f"{facts['docker']}, {facts['storageDriver']}"),
            ("Python, kopf, Sandkeeper", f"{facts['python']}, {facts['kopf']}, {facts['sandkeeper']}"),
            ("load average", f"{self.loads[0]} before, {self.loads[1]} after"),
        )
        parts = ["## The machine", Table(("", ""), rows).to_markdown()]
        return "\n\n".join([*parts, *([_LOCAL] if facts["cluster"] == "local" else []), _IMAGE])
