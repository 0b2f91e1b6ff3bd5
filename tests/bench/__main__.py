"""The command: ``python -m bench`` measures everything, and writes the report."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench import (
    burst,
    docker_many,
    life,
    machine,
    many,
    path,
    pod_many,
    pod_path,
    pod_ready,
    pure,
    rate,
    ready,
    recovery,
    scale,
    scrape,
    shards,
    steps,
    unchanged,
    writes,
)
from bench.figures import Section
from bench.report import Report
from bench.stage import Stage
from bench.staging import staged
from testbed import progress

_DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_INTERRUPTED: Final = 130
_PER_SECOND: Final = 50.0
"""Arrivals at a fixed rate."""
_CALM_PER_SECOND: Final = 20.0
"""Where the first is more than a small machine bears, this one says how long a Sandbox takes that need not queue."""


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
    crowd: int
    """Arrivals in the comparison with bare Pods and a sketch."""
    crowd_rounds: int
    unchanged: int
    """Sandboxes of which nothing changes, in as many passes as follows."""
    passes: int
    sizes: tuple[int, ...]
    """How many are held, one size after the other."""
    scale_rest: float
    drained: int
    creations: float
    """A second, while others are drained."""
    containers: int
    """That are created, used, drifted and pruned."""
    containers_rounds: int
    sharded: int
    """By which the costs of one are measured."""
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
    crowd=1000,
    crowd_rounds=3,
    unchanged=500,
    passes=10_000,
    sizes=(100, 1000, 3000, 10_000),
    scale_rest=330,
    drained=1000,
    creations=10,
    containers=200,
    containers_rounds=2,
    sharded=1000,
    calls=500,
    seconds=7200,
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
    crowd=30,
    crowd_rounds=1,
    unchanged=20,
    passes=100,
    sizes=(10, 30),
    scale_rest=2,
    drained=10,
    creations=5,
    containers=4,
    containers_rounds=1,
    sharded=20,
    calls=20,
    seconds=600,
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
    "docker-200": lambda stage, size: docker_many.measure(
        stage, count=size.containers, rounds=size.containers_rounds
    ),
    "pod-ready": lambda stage, size: pod_ready.measure(stage, count=size.pods),
    "pod-path": lambda stage, size: pod_path.measure(stage, count=size.followed_pods),
    "pod-writes": lambda stage, size: writes.measure(
        stage, life.AS_PODS, count=size.lives, idle=size.idle, tries=size.tries
    ),
    "pod-many": lambda stage, size: pod_many.measure(
        stage, count=size.many_pods, rounds=size.rounds, nodes=size.nodes
    ),
    "burst": lambda stage, size: burst.measure(
        stage, count=size.crowd, rounds=size.crowd_rounds, nodes=size.nodes
    ),
    "rate": lambda stage, size: rate.measure(
        stage, name="rate", count=size.crowd, rate=_PER_SECOND, rounds=size.crowd_rounds, nodes=size.nodes
    ),
    "calm-rate": lambda stage, size: rate.measure(
        stage,
        name="calmRate",
        count=size.crowd // 2,
        rate=_CALM_PER_SECOND,
        rounds=size.crowd_rounds,
        nodes=size.nodes,
    ),
    "shards": lambda stage, size: shards.measure(stage, count=size.sharded, nodes=size.nodes),
    "steps": lambda stage, size: steps.measure(stage, count=size.crowd, nodes=size.nodes),
    "unchanged": lambda stage, size: unchanged.measure(
        stage, count=size.unchanged, passes=size.passes, nodes=size.nodes
    ),
    "scale": lambda stage, size: scale.measure(
        stage,
        sizes=size.sizes,
        rest=size.scale_rest,
        drained=size.drained,
        rate=size.creations,
        nodes=size.nodes,
    ),
    "scrape": lambda stage, size: scrape.measure(held=size.sizes[-1]),
    "pure": lambda stage, size: asyncio.to_thread(pure.measure, calls=size.calls),
}


async def _run(names: Sequence[str], size: _Size, *, keep: Callable[[Report], None]) -> None:
    """Measure part after part. Each is kept when it is done: a run that ends early has not run for nothing."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with staged() as stage, asyncio.timeout(size.seconds):
        facts = await machine.describe(stage)
        for name in names:
            before = machine.load()
            with progress.step(f"Measuring: {name}"):
                section = replace(await _PARTS[name](stage, size), part=name)
            sys.stdout.write(f"\n{section.to_markdown()}\n\n")
            sys.stdout.flush()
            keep(Report.of(facts, section, loads=(before, machine.load())))


def _less(size: _Size, *, count: int | None, rounds: int | None) -> _Size:
    """Return the size with so many in the comparisons, where it is said."""
    if count is not None:
        size = replace(
            size, crowd=count, sizes=tuple(each for each in size.sizes if each <= count) or (count,)
        )
    return replace(size, crowd_rounds=rounds or size.crowd_rounds)


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
        "--count", type=int, metavar="N", help="in burst, rate and steps, and in scale at most"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of burst and rate")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where to write performance.md and performance.json; by default docs, and with --quick or --only nowhere",
    )
    chosen = parser.parse_args()
    names = [name for name in _PARTS if not chosen.only or name in chosen.only]
    size = _QUICK if chosen.quick else _FULL
    size = _less(size, count=chosen.count, rounds=chosen.rounds)
    folder = chosen.output or (None if chosen.quick or chosen.only else _DOCS)

    def keep(report: Report) -> None:
        if folder is not None:
            report.write(folder, order=tuple(_PARTS))
            progress.say(f"Written to {folder / 'performance.md'}")

    try:
        asyncio.run(_run(names, size, keep=keep))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.say("Interrupted; everything is cleared away")
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
