"""From a killed container to a new one that runs and a status that says so."""

import asyncio
import time

from bench.figures import Section, Series, Table, ratio, seconds
from bench.kube import Seen
from bench.ready import is_running
from bench.stage import Stage
from testbed import progress

__all__ = ["measure"]

TARGET = 2.0


async def measure(stage: Stage, *, count: int) -> Section:
    """Kill ``count`` containers, each of another Sandbox, one after the other."""
    names = [f"recovery-{number}" for number in range(count)]
    ours: list[float] = []
    theirs: list[float] = []
    async with stage.operator():
        for number, name in enumerate(names):
            await stage.create(name)
            before = await stage.watch.until(name, is_running)
            theirs.append(await _by_hand(stage))
            ours.append(await _recovery(stage, name, before.object["status"]["runtime"]["id"]))
            await stage.delete(name)
            if number % 10 == 9:
                progress.say(f"Recovery: {number + 1} of {count}")
    return _section(Series.of(ours), Series.of(theirs))


async def _recovery(stage: Stage, name: str, container_id: str) -> float:
    def is_new(seen: Seen) -> bool:
        return is_running(seen) and seen.object["status"]["runtime"]["id"] != container_id

    began = time.monotonic()
    await asyncio.to_thread(stage.bare.kill, container_id)
    seen = await stage.watch.until(name, is_new)
    status = seen.object["status"]
    state = (await asyncio.to_thread(stage.engine.inspect_container, status["runtime"]["id"]))["State"]
    assert state["Running"], f"{name} is Ready, and its new container is not running: {state}"
    assert status["recoveries"] == 1, f"{name} counts {status['recoveries']} recoveries"
    return seen.at - began


async def _by_hand(stage: Stage) -> float:
    """Kill a bare container, remove it, and make another."""
    old = stage.bare.make()
    began = time.monotonic()
    stage.bare.kill(old)
    stage.bare.remove(old)
    new = stage.bare.make()
    took = time.monotonic() - began
    await asyncio.to_thread(stage.bare.remove, new)
    return took


def _section(ours: Series, theirs: Series) -> Section:
    rows = (
        ("Sandbox: killed to Ready", seconds(ours.p50), seconds(ours.p90), str(len(ours.samples))),
        ("by hand: kill, remove, make", seconds(theirs.p50), seconds(theirs.p90), str(len(theirs.samples))),
        ("ratio", f"{ratio(ours.p50, theirs.p50):.2f}", f"{ratio(ours.p90, theirs.p90):.2f}", ""),
    )
    return Section(
        name="recovery",
        title="From a killed container to a new one",
        method="The clock starts before `docker kill` is called, and stops when the watch shows Ready with another "
        "container's id. Each Sandbox dies once: one that keeps dying is made again ever more slowly, on purpose.",
        tables=(Table(("", "p50", "p90", "n"), rows),),
        headline=f"A killed container is made again, and Ready, within {seconds(ours.p50)} (p50; target {TARGET:g} s).",
        verdict=f"Target: p50 at most {TARGET:g} s. {'Reached' if ours.p50 <= TARGET else 'Not reached'}.",
        data={
            "sandbox": ours.to_json(),
            "byHand": theirs.to_json(),
            "ratio": round(ratio(ours.p50, theirs.p50), 3),
            "targetSeconds": TARGET,
        },
    )
