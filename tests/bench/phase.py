"""One thing done to many Sandboxes at once: how long until all of them are where it leads, and at what cost."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench import counters
from bench.contenders import Field
from bench.crowd import calm, told
from bench.figures import Json, Series, Table, seconds

__all__ = ["DRIFTED", "PRUNED", "READY", "RECOVERED", "REPLACED", "Phase", "all_of", "phase", "table"]

# The keys of a custom resource are in alphabetical order.
READY: Final = re.compile(rb'"status":"True","type":"Ready"')
DRIFTED: Final = re.compile(rb'"status":"True","type":"Drifted"')
REPLACED: Final = re.compile(
    rb'"status":"True","type":"Ready".*"configHash":"([^"]+)","desiredConfigHash":"\1"'
)
PRUNED: Final = re.compile(rb'"phase":"Pruned"')
RECOVERED: Final = re.compile(rb'"status":"True","type":"Ready".*"recoveries":[1-9]')


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What came of it."""

    what: str
    moments: tuple[float, ...]
    """Seconds from the beginning until each was there, in that order."""
    processor: float
    """Seconds of the operator's processor time, for each."""
    writes: float
    """Of the operator, for each: Sandboxes and Pods, deletions included."""
    events: float
    """Events for each."""
    refused: float
    """Writes for each that came too late, and were made anew."""
    acting: float
    """Seconds that the client took to ask for it."""

    @property
    def seconds(self) -> float:
        """Until the last was there."""
        return self.moments[-1]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.moments)

    def to_json(self) -> Json:
        """Return what is worth keeping of it."""
        return {
            "count": self.count,
            "seconds": round(self.seconds, 2),
            "p50": round(Series(self.moments).p50, 3),
            "perSecond": round(self.count / self.seconds, 1),
            "processorSecondsEach": round(self.processor, 5),
            "writesEach": round(self.writes, 3),
            "eventsEach": round(self.events, 3),
            "refusedEach": round(self.refused, 3),
        }


async def phase(
    field: Field,
    what: str,
    names: Sequence[str],
    reached: re.Pattern[bytes],
    act: Callable[[], Awaitable[object]],
    *,
    limit: float = 600,
    is_told: bool = True,
) -> Phase:
    """Do it, and wait until a watch showed it of each, and the operator has nothing left to do.

    Without ``is_told`` its Events are not waited for, which it posts with rests: they go on behind what follows.
    """
    ours = field.ours
    assert ours.operator is not None
    ours.observer.forget(reached)
    before = await counters.read(field.kube, ours.operator)
    used, began = ours.processor_time(), time.monotonic()
    await act()
    acting = time.monotonic() - began
    await ours.observer.all_ready(names, limit=limit)
    await calm(ours, limit=limit)
    if is_told:
        await told(ours.operator, limit=limit)
    added = (await counters.read(field.kube, ours.operator)).since(before)
    count = len(names)
    return Phase(
        what=what,
        moments=tuple(sorted(ours.observer.ready_at[name] - began for name in names)),
        processor=(ours.processor_time() - used) / count,
        writes=(added.own + added.own_pods + added.own_deletions) / count,
        events=added.events / count,
        refused=added.refused / count,
        acting=acting,
    )


async def all_of(names: Sequence[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Do something to each, all at once."""
    await asyncio.gather(*map(act, names))


def table(phases: Sequence[Phase]) -> Table:
    """Write them as a table."""
    rows = [
        (
            each.what,
            str(each.count),
            seconds(each.seconds),
            f"{each.count / each.seconds:.0f}",
            f"{each.writes:.2f}",
            f"{each.events:.2f}",
            f"{each.processor * 1000:.2f} ms",
        )
        for each in phases
    ]
    header = ("for each Sandbox", "Sandboxes", "time", "a second", "writes", "Events", "processor")
    return Table(header, tuple(rows))
