"""The command: ``python -m bench`` measures everything, and writes the report."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench import life, machine, many, path, pod_many, pod_path, pod_ready, pure, ready, recovery, writes
from bench.figures import Section
from bench.report import Report
from bench.stage import Stage
from bench.staging import staged
from testbed import progress

_DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_INTERRUPTED: Final = 130


@dataclass(frozen=True, kw_only=True)
class _Size:
    """How much of everything."""

    samples: int
    followed: int
    lives: int
    tries: int
    idle: int
    recoveries: int
    many: int
    rounds: int
    rest: float
    pods: int
    followed_pods: int
    many_pods: int
    nodes: int
    calls: int
    seconds: float
    """For the whole run."""


_FULL: Final = _Size(
    samples=40,
    followed=20,
    lives=5,
    tries=4,
    idle=15,
    recoveries=24,
    many=100,
    rounds=2,
    rest=20,
    pods=30,
    followed_pods=15,
    many_pods=500,
    nodes=20,
    calls=500,
    seconds=2700,
)
_QUICK: Final = _Size(
    samples=3,
    followed=2,
    lives=1,
    tries=1,
    idle=5,
    recoveries=1,
    many=4,
    rounds=1,
    rest=2,
    pods=1,
    followed_pods=1,
    many_pods=10,
    nodes=2,
    calls=20,
    seconds=300,
)

_PARTS: Final[dict[str, Callable[[Stage, _Size], Awaitable[Section]]]] = {
    "ready": lambda stage, size: ready.measure(stage, count=size.samples),
    "path": lambda stage, size: path.measure(stage, count=size.followed),
    "recovery": lambda stage, size: recovery.measure(stage, count=size.recoveries),
    "writes": lambda stage, size: writes.measure(
        stage, life.AS_CONTAINERS, count=size.lives, idle=size.idle, tries=size.tries
    ),
    "many": lambda stage, size: many.measure(
        stage, count=size.many, rounds=size.rounds, idle_seconds=size.rest
    ),
    "pod-ready": lambda stage, size: pod_ready.measure(stage, count=size.pods),
    "pod-path": lambda stage, size: pod_path.measure(stage, count=size.followed_pods),
    "pod-writes": lambda stage, size: writes.measure(
        stage, life.AS_PODS, count=size.lives, idle=size.idle, tries=size.tries
    ),
    "pod-many": lambda stage, size: pod_many.measure(
        stage, count=size.many_pods, rounds=size.rounds, nodes=size.nodes
    ),
    "pure": lambda stage, size: asyncio.to_thread(pure.measure, calls=size.calls),
}


async def _run(names: Sequence[str], size: _Size) -> Report:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with staged() as stage, asyncio.timeout(size.seconds):
        before = machine.load()
        facts = await machine.describe(stage)
        sections = []
        for name in names:
            with progress.step(f"Measuring: {name}"):
                sections.append(replace(await _PARTS[name](stage, size), part=name))
        return Report(machine=facts, loads=(before, machine.load()), sections=sections)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="bench", description="Measure Sandkeeper on a real cluster and a real Docker engine."
    )
    parser.add_argument("--quick", action="store_true", help="a few samples of each, in a few minutes")
    parser.add_argument(
        "--only",
        action="append",
        choices=tuple(_PARTS),
        metavar="PART",
        help=f"this part alone; may be repeated: {', '.join(_PARTS)}",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where to write performance.md and performance.json; by default docs, and with --quick or --only nowhere",
    )
    chosen = parser.parse_args()
    names = [name for name in _PARTS if not chosen.only or name in chosen.only]
    try:
        report = asyncio.run(_run(names, _QUICK if chosen.quick else _FULL))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.say("Interrupted; everything is cleared away")
        return _INTERRUPTED
    for section in report.sections:
        sys.stdout.write(f"\n{section.to_markdown()}\n")
    folder = chosen.output or (None if chosen.quick or chosen.only else _DOCS)
    if folder is not None:
        report.write(folder)
        progress.say(f"Written to {folder / 'performance.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
