"""The figures of storms: for people, docs/reliability.md; for programs, docs/reliability.json."""

import json
import os
import platform
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench.figures import Table, wrapped
from chaos.storm import Outcome, Storm

__all__ = ["summary", "table", "write"]

_INTRODUCTION: Final = """\
What becomes of Sandboxes while everything around the operator fails. In each storm below users make, use, hold, stop,
start, recreate and delete Sandboxes and edit their policies, without a pause; at the same time faults strike at random,
several at once. Then it is calm, and everything is compared with a model of what should be, made from nothing but what
the users did. This page is written by the run itself; [reliability.json](reliability.json) has the same figures. To do
it again, for as long as you like, or one storm alone, which is printed and not written:

```sh
make chaos
make chaos MINUTES=60 SEED=7
make chaos STORMS=pods
```

The seed gives the same users and the same faults in the same order. At which instruction a fault meets the operator it
does not give: that is up to the machine.
"""

_ASSERTED: Final = """\
## What counts as a violation

Once it is calm, and within the bound: two minutes (four where the API server was killed), and 330 s more in a storm of
three minutes or longer, for what failed often in a row is tried again [after 300 s](explanation/rules-of-life.md):

* A Sandbox that nobody deleted is gone, or one that was deleted is still there.
* A Sandbox is not Ready with a runtime that runs, and is neither stopped by its user nor pruned because nobody used it.
* A key has two runtimes, or one that is not the one that the status names.
* A runtime was made from an older edit of its policy (read from its environment, not from what the operator says), or a
  request for a new one was not honoured.
* A runtime whose Sandbox is gone.
* Anything of somebody else's (a Pod without marks, a Pod, a container or a NetworkPolicy that is marked as another
  installation's) is gone or was touched.
* The operator's memory is above 1.5 times what it was, and 30 MiB; or it has 25 file descriptors more than before; or
  it ended though nobody had killed it.

At any moment on the way, seen by a witness of its own that reads every version of every object:

* Two runtimes of a key live at the same time.
* A runtime is removed within the hot window of a use that was answered with Ready, or within a hold.
* A status is lost, or its recoveries, last use or creation time go back.
"""

_NOT_SHOWN: Final = """\
## What this does not show

* Pods are on fake nodes, where a kubelet is played: what a real kubelet does is shown by other tests.
* One operator at a time. Two that compete for the lease, and three that share the work, are in `tests/availability`.
* etcd with data lost or split: the API server is killed, and its history compacted away, but etcd itself stays whole.
* Time from fault to repair under load is not a promise: this machine runs API server, engine, users and operator on its
  few cores."""


def summary(outcome: Outcome) -> tuple[str, ...]:
    """Tell the figures of one storm in a row."""
    return (
        outcome.storm,
        str(sum(outcome.faults.values())),
        str(sum(outcome.actions.values())),
        str(outcome.sandboxes),
        str(outcome.versions),
        str(outcome.promises),
        f"{outcome.healed_seconds:.1f} s",
        f"{outcome.memory_before:.0f}, {outcome.memory_after:.0f} MiB",
        f"{outcome.descriptors_before}, {outcome.descriptors_after}",
        str(len(outcome.violations)),
    )


def table(outcomes: Sequence[Outcome]) -> Table:
    """Put the figures of all storms below each other."""
    header = (
        *("storm", "faults", "acts of users", "Sandboxes made", "versions seen", "uses answered Ready"),
        *("as it should be after", "memory before, after", "descriptors before, after", "violations"),
    )
    return Table(header, tuple(summary(outcome) for outcome in outcomes))


def faults(outcome: Outcome) -> Table:
    """Tell of each kind of fault how often it hit, and how often it found nothing to hit."""
    kinds = sorted(outcome.faults.keys() | outcome.missed.keys())
    rows = tuple((kind, str(outcome.faults[kind]), str(outcome.missed[kind])) for kind in kinds)
    return Table(("fault", "hit", "nothing to hit"), rows)


def write(folder: Path, storms: Sequence[Storm], outcomes: Sequence[Outcome]) -> None:
    """Write both files."""
    today = datetime.now(UTC).date().isoformat()
    data = {"date": today, "machine": _machine(), "storms": [_to_json(outcome) for outcome in outcomes]}
    (folder / "reliability.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    (folder / "reliability.md").write_text(_to_markdown(today, storms, outcomes), encoding="utf-8")


def _to_markdown(today: str, storms: Sequence[Storm], outcomes: Sequence[Outcome]) -> str:
    struck = sum((outcome.faults for outcome in outcomes), Counter[str]())
    told = sum(len(outcome.violations) for outcome in outcomes)
    made = sum(outcome.sandboxes for outcome in outcomes)
    headline = wrapped(
        f"On {today}: {sum(struck.values())} faults of {len(struck)} kinds, {made} Sandboxes, {told} violations."
    )
    rows = tuple(_machine().items())
    parts = ["# Reliability", _INTRODUCTION.strip(), headline, table(outcomes).to_markdown()]
    parts += ["A fault counts only where it is proven to have hit.", _ASSERTED.strip()]
    for storm, outcome in zip(storms, outcomes, strict=True):
        length = (
            f"{outcome.seconds / 60:g} min, seed {outcome.seed}, about {outcome.held} Sandboxes at a time."
        )
        parts += [
            f"## The storm {storm.name}",
            wrapped(f"{storm.title} {length}"),
            faults(outcome).to_markdown(),
        ]
        parts += ["\n".join(wrapped(f"* {one}", indent="  ") for one in outcome.violations)]
    parts += ["## The machine", Table(("", ""), rows).to_markdown(), _NOT_SHOWN]
    return "\n\n".join(part for part in parts if part) + "\n"


def _to_json(outcome: Outcome) -> dict[str, object]:
    return {
        "storm": outcome.storm,
        "seed": outcome.seed,
        "seconds": outcome.seconds,
        "faults": dict(outcome.faults),
        "nothingToHit": dict(outcome.missed),
        "actsOfUsers": dict(outcome.actions),
        "sandboxesMade": outcome.sandboxes,
        "sandboxesAtTheEnd": outcome.held,
        "versionsSeen": outcome.versions,
        "usesAnsweredReady": outcome.promises,
        "asItShouldBeAfterSeconds": round(outcome.healed_seconds, 1),
        "residentMiB": [round(outcome.memory_before, 1), round(outcome.memory_after, 1)],
        "descriptors": [outcome.descriptors_before, outcome.descriptors_after],
        "tracebacksLogged": outcome.errors,
        "violations": outcome.violations,
    }


def _machine() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "kernel": f"Linux {platform.release()}",
        "Python, kopf, Sandkeeper": ", ".join(
            (platform.python_version(), version("kopf"), version("sandkeeper"))
        ),
    }
