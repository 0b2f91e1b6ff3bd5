"""Whether anybody wrote where another had the say: pure, by the order in which the API server put all that happened.

No clock is asked. Every write that took effect has a resourceVersion, and so has every change of the Lease that says
who may write; these are one order, whoever saw what and when.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from support.proxy import Write

__all__ = ["UNLED", "Reign", "usurpations"]

UNLED = frozenset({"leases", "events"})
"""What is written without leading: who leads, and what was done."""


@dataclass(frozen=True)
class Reign:
    """What holds from this version on, until that of the next."""

    version: int
    holder_in: Callable[[str], str | None]
    """Who has the say in a namespace; None: nobody may write there."""


def usurpations(writes: Mapping[str, Iterable[Write]], reigns: Sequence[Reign]) -> list[str]:
    """Tell of every write by another than the one who had the say in its namespace at that moment."""
    return list(_usurpations(writes, sorted(reigns, key=lambda reign: reign.version)))


def _usurpations(writes: Mapping[str, Iterable[Write]], reigns: Sequence[Reign]) -> Iterator[str]:
    versions = [reign.version for reign in reigns]
    for writer, written in writes.items():
        for write in written:
            if write.resource in UNLED or not write.version:
                continue
            place = bisect_right(versions, write.version) - 1
            holder = reigns[place].holder_in(write.namespace) if place >= 0 else None
            if holder != writer:
                what = f"{write.verb} {write.resource} {write.namespace}/{write.name}"
                yield f"{writer} made version {write.version} ({what}), and {holder or 'nobody'} had the say there"
