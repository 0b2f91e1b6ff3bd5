"""The report: docs/performance.md for people, docs/performance.json for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import history, plots
from bench.figures import Json, Section, Table, wrapped

__all__ = ["Report"]

_INTRODUCTION: Final = """\
What Sandkeeper costs, measured on a real API server, a real Docker engine and a real node. Beside each figure of time
stands a baseline from the same run, taken in turns with it: the same container, made on the same engine by hand, or the
same Pod, created by hand. A busy machine slows both; so read the ratios, and take the seconds for what this machine
gives.

This page is written by the benchmark; [performance.json](performance.json) has the same figures, and
[performance-history.jsonl](performance-history.jsonl) has a line for each part of a run. To measure anew, all of it, or
parts by the names that the sections give:

```sh
make bench
make bench PARTS="burst rate"
```

Parts are printed, and written only where it is said: `python -m bench --only burst --output docs`; the others then stay
as they are.
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

* Thousands of containers: one engine on this machine starts few of them a second, and `docker.maxContainers` is 200
  by default. Beyond that the engine is the limit and not the operator.
* What kubelets take for thousands of Pods: theirs are played here, so that what is left is Sandkeeper and the control
  plane.
* How long a Pod takes to start elsewhere: that is up to the cluster's nodes and network.
* The write that refreshes a last use, once per hot window and once a minute at most: the steps above are quicker.
* A far API server: client, server and operator are on one machine, where a request takes milliseconds. The path to
  Ready has three requests one after the other (the client's POST and our two writes), so it grows by about three
  round trips; a Pod by hand has one."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is known: one part that was just measured, or all of them."""

    machine: Json
    figures: Json
    """By the names of sections."""
    texts: Json
    """What is said of each section: `part`, `headline`, `markdown`, and when, where and how busy the machine was."""

    @classmethod
    def of(cls, machine: Json, section: Section, *, loads: tuple[float, float]) -> "Report":
        """Take one part; ``loads`` are the load averages before it and after it."""
        text = {
            "part": section.part,
            "date": datetime.now(UTC).date().isoformat(),
            "processor": _processor(machine),
            "loadAverage": list(loads),
            "headline": section.headline,
            "markdown": section.to_markdown(),
        }
        return cls(machine=machine, figures={section.name: section.data}, texts={section.name: text})

    def write(self, folder: Path, *, order: Sequence[str]) -> None:
        """Write the files; the other parts stay as they were. ``order`` is that of the parts."""
        history.append(self.machine, self.figures, self.texts, folder)
        path = folder / "performance.json"
        known = (
            json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"figures": {}, "texts": {}}
        )
        texts = {**known["texts"], **self.texts}
        figures = {**known["figures"], **self.figures}
        names = sorted(texts, key=lambda name: order.index(texts[name]["part"]))
        whole = Report(
            machine=self.machine,
            figures={name: figures[name] for name in names},
            texts={name: texts[name] for name in names},
        )
        text = json.dumps(asdict(whole), indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        (folder / "performance.md").write_text(whole.to_markdown(), encoding="utf-8")
        plots.draw(whole.figures, folder)

    def to_markdown(self) -> str:
        """Write it as Markdown."""
        short = [wrapped(f"* {text['headline']}", indent="  ") for text in self.texts.values()]
        parts = ["# Performance", _INTRODUCTION.strip(), "\n".join(short), self._machine()]
        for name, text in self.texts.items():
            before, after = text["loadAverage"]
            when = (
                f"Measured on {text['date']}, {text['processor']}; the load average was {before} before and {after} "
                "after."
            )
            parts += [text["markdown"], *plots.shown(name), when]
        return "\n\n".join([*parts, _NOT_MEASURED]) + "\n"

    def _machine(self) -> str:
        facts = self.machine
        rows = (
            ("processor", _processor(facts)),
            ("memory", f"{facts['memoryGiB']} GiB"),
            ("kernel", f"Linux {facts['kernel']}"),
            ("Kubernetes", f"{facts['kubernetes']} ({facts['cluster']})"),
            ("Docker", f"{facts['docker']}, {facts['storageDriver']}"),
            ("Python, kopf, Sandkeeper", f"{facts['python']}, {facts['kopf']}, {facts['sandkeeper']}"),
        )
        parts = ["## The machine of the latest part", Table(("", ""), rows).to_markdown()]
        return "\n\n".join([*parts, *([_LOCAL] if facts["cluster"] == "local" else []), _IMAGE])


def _processor(machine: Json) -> str:
    return f"{machine['cores']} cores, {machine['processor']}"
