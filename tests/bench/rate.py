"""Arrivals at a fixed rate, side by side: bare Pods, a kopf sketch, Sandkeeper."""

import os

from bench import targets
from bench.burst import ABOUT
from bench.compared import compare
from bench.contenders import BARE, OURS, SKETCH, field_of
from bench.figures import Section, milliseconds
from bench.stage import Stage
from bench.targets import Target

__all__ = ["measure"]

_HOPED = 1.5
_CROWDED = 0.8
"""Of all processor time: beyond that, queues are what is measured."""


async def measure(stage: Stage, *, name: str, count: int, rate: float, rounds: int, nodes: int) -> Section:
    """Have ``count`` of each, ``rate`` a second, ``rounds`` times in turns; ``name`` is the section's."""
    cores = os.cpu_count() or 1
    async with field_of(stage, nodes=nodes, names=(BARE, SKETCH, OURS)) as field:
        found = await compare(field, count=count, rounds=rounds, rate=rate)
    p50 = found.times(lambda name: found.latency(name, 50))
    p99 = found.times(lambda name: found.latency(name, 99))
    promised = (
        Target(what="p50 to Ready, in times the bare Pod's", bound=2, measured=p50),
        Target(what="p50 as hoped for", bound=_HOPED, measured=p50),
        Target(what="p99 to Ready, in times the bare Pod's", bound=4, measured=p99),
        *found.cost_targets(),
    )
    busy = {name: rate * sum(found.shares(name).values()) / cores for name in (BARE, SKETCH, OURS)}
    reading = (
        f"At this rate the {cores} cores are busy for {_percent(busy[BARE])} of the time with bare Pods, "
        f"{_percent(busy[SKETCH])} with the sketch and {_percent(busy[OURS])} with Sandkeeper, the whole cluster and "
        f"the client included."
    )
    reading += (
        " Until it is Ready a Sandbox waits, one after the other, for two writes and two events of a watch more than a "
        "bare Pod; the sketch, which does nothing else, takes "
        f"{found.latency(SKETCH, 50) / found.latency(BARE, 50):.1f} times the bare Pod's p50."
    )
    if busy[OURS] > _CROWDED:
        reading += " So close to all there is, what arrives waits for the processors, and more so for each that waits."
    ours, theirs, sketch = (milliseconds(found.latency(name, 50)) for name in (OURS, BARE, SKETCH))
    return Section(
        name=name,
        title=f"{rate:g} a second, beside bare Pods and a sketch",
        method=f"{ABOUT.format(nodes=nodes, rounds=rounds)} {count} arrive, {rate:g} a second, whatever became of "
        "those before them. The clock of each starts when it was due: who is late is late with all that follow.",
        tables=(*found.tables(), targets.table(promised)),
        headline=f"At {rate:g} a second a Sandbox is Ready after {ours} (p50), a bare Pod after {theirs}, and one of a "
        f"kopf sketch after {sketch}; the p99 is {p99:.1f} times the bare Pod's.",
        verdict=f"{targets.verdict(promised)} {reading}",
        data={
            "count": count,
            "perSecond": rate,
            "nodes": nodes,
            "rounds": rounds,
            "p50Ratio": round(p50, 3),
            "p99Ratio": round(p99, 3),
            "contenders": found.to_json(),
            "targets": targets.to_json(promised),
        },
    )


def _percent(part: float) -> str:
    return f"{part * 100:.0f} %"
