"""Many Sandboxes applied at once, and what the operator needs to keep them."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench import counters, machine
from bench.figures import Section, Series, Table, milliseconds, ratio, seconds
from bench.ready import is_running
from bench.stage import WORKERS, Stage
from sandkeeper.api.names import Label
from support.operator import OperatorProcess
from testbed import progress

__all__ = ["measure"]

_LIMIT = 300.0


@dataclass
class _Found:
    ours: list[float]
    first: list[float]
    """Until the first Sandbox of each round was Ready."""
    theirs: list[float]
    work: list[float]
    """Seconds of processor time for each Sandbox made, by round."""
    memory_empty: float = 0.0
    memory_full: float = 0.0
    processor: float = 0.0
    """Part of one core, while nothing happens."""
    writes: float = 0.0
    """While nothing happens."""


async def measure(stage: Stage, *, count: int, rounds: int, idle_seconds: float) -> Section:
    """Apply ``count`` Sandboxes at once, ``rounds`` times, in turns with as many bare containers."""
    found = _Found([], [], [], [])
    async with stage.operator() as operator:
        pid = operator.process.pid
        await asyncio.sleep(2)
        found.memory_empty = machine.memory(pid)
        for number in range(rounds):
            names = [f"many-{number}-{one}" for one in range(count)]
            found.theirs.append(await _by_hand(stage, count))
            used = machine.processor_time(pid)
            await _apply(stage, names, found)
            found.work.append((machine.processor_time(pid) - used) / count)
            progress.say(f"{count} at once: {found.ours[-1]:.1f} s, and by hand {found.theirs[-1]:.1f} s")
            if number == rounds - 1:
                await asyncio.sleep(3)
                found.memory_full = machine.memory(pid)
                await _rest(stage, operator, found, idle_seconds)
            await asyncio.gather(*(stage.delete(name, limit=_LIMIT) for name in names))
    return _section(found, count=count, idle_seconds=idle_seconds)


async def _apply(stage: Stage, names: list[str], found: _Found) -> None:
    began = time.monotonic()
    await asyncio.gather(*map(stage.create, names))
    seen = await asyncio.gather(*(stage.watch.until(name, is_running, limit=_LIMIT) for name in names))
    found.first.append(min(each.at for each in seen) - began)
    found.ours.append(max(each.at for each in seen) - began)
    there = await asyncio.to_thread(stage.containers)
    keys = [container["Labels"][Label.KEY] for container in there]
    assert sorted(keys) == sorted(f"agent:{name}" for name in names), f"not one for each: {sorted(keys)}"
    ids = {each.object["status"]["runtime"]["id"] for each in seen}
    assert ids == {container["Id"] for container in there if container["State"] == "running"}


async def _rest(stage: Stage, operator: OperatorProcess, found: _Found, idle_seconds: float) -> None:
    pid = operator.process.pid
    before = await counters.read(stage.kube, operator)
    used, began = machine.processor_time(pid), time.monotonic()
    await asyncio.sleep(idle_seconds)
    found.processor = (machine.processor_time(pid) - used) / (time.monotonic() - began)
    found.writes = (await counters.read(stage.kube, operator)).since(before).own


async def _by_hand(stage: Stage, count: int) -> float:
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(WORKERS)
    try:
        began = time.monotonic()
        made = await asyncio.gather(*(loop.run_in_executor(pool, stage.bare.make) for _ in range(count)))
        took = time.monotonic() - began
        await asyncio.gather(*(loop.run_in_executor(pool, stage.bare.remove, each) for each in made))
    finally:
        # Who interrupts us waits for the calls that have begun, or they would make containers behind our back.
        pool.shutdown(cancel_futures=True)
    return took


def _section(found: _Found, *, count: int, idle_seconds: float) -> Section:
    ours, theirs = Series.of(found.ours), Series.of(found.theirs)
    rounds = str(len(found.ours))
    speed = (
        (f"{count} Sandboxes, all Ready", seconds(ours.p50), f"{count / ours.p50:.1f}", rounds),
        (f"{count} containers by hand", seconds(theirs.p50), f"{count / theirs.p50:.1f}", rounds),
        ("ratio", f"{ratio(ours.p50, theirs.p50):.2f}", "", ""),
    )
    upkeep = (
        ("resident memory, no Sandbox", f"{found.memory_empty:.0f} MiB"),
        (f"resident memory, {count} Sandboxes", f"{found.memory_full:.0f} MiB"),
        ("processor, for each Sandbox made", milliseconds(Series.of(found.work).p50)),
        (f"processor, {count} Sandboxes at rest", f"{found.processor * 100:.1f} % of a core"),
        (f"writes, {count} Sandboxes at rest for {idle_seconds:g} s", f"{found.writes:g}"),
    )
    return Section(
        name="many",
        title=f"{count} at once, and keeping them",
        method="All are applied at once, each with a POST of its own; each has to be Ready, and the engine has to "
        f"have exactly one container for each. By hand: as many containers, {WORKERS} at a time, which is what the "
        "operator allows itself (`docker.workers`). The figures are medians of the rounds.",
        tables=(
            Table(("", "time", "per second", "rounds"), speed),
            Table(("the operator", ""), upkeep),
        ),
        headline=f"{count} applied at once: {ratio(ours.p50, theirs.p50):.2f} times as long as {count} containers by "
        f"hand; the operator then holds {found.memory_full:.0f} MiB.",
        verdict=f"None was made twice. The first was Ready after {seconds(Series.of(found.first).p50)}.",
        data={
            "count": count,
            "seconds": [round(each, 2) for each in found.ours],
            "secondsByHand": [round(each, 2) for each in found.theirs],
            "ratio": round(ratio(ours.p50, theirs.p50), 3),
            "residentMiB": {"0": round(found.memory_empty, 1), str(count): round(found.memory_full, 1)},
            "processorSecondsEach": [round(each, 4) for each in found.work],
            "idleProcessor": round(found.processor, 4),
            "idleWrites": found.writes,
        },
    )
