"""Rounds of all contenders, taken in turns, and what they come to."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.contenders import BARE, OURS, SKETCH, Field
from bench.crowd import Round, round_of, warm_up
from bench.figures import Json, Series, Table, milliseconds, ratio
from bench.targets import Target
from testbed import progress

__all__ = ["Compared", "compare"]

_CURVE = (*range(0, 100, 2), 95, 99, 99.5, 100)
"""The percentiles that are kept for the plots."""


@dataclass(frozen=True)
class Compared:
    """Rounds by contender. A figure is the median of the rounds', so one that was disturbed does not count."""

    rounds: dict[str, list[Round]]

    def median(self, name: str, figure: Callable[[Round], float]) -> float:
        """Return the median of a figure."""
        return median(figure(each) for each in self.rounds[name])

    def latency(self, name: str, percent: float) -> float:
        """Return the median of a percentile of latency."""
        return self.median(name, lambda each: Series(each.latencies).percentile(percent))

    def server_writes(self, name: str) -> float | None:
        """Return writes for each as the API server counted, from the rounds in which nobody else was seen to write.

        The least of these: ours are the same in each round, and a write of others that changed nothing is not seen.
        """
        found = [each.server_writes for each in self.rounds[name] if each.server_writes is not None]
        return min(found, default=None)

    def writes(self, name: str) -> float:
        """Return writes for each: the most that anybody counted who could."""
        counted = [self.median(name, lambda each: max(each.seen_writes, each.own_writes or 0))]
        server = self.server_writes(name)
        return max(counted if server is None else [*counted, server])

    def times(self, figure: Callable[[str], float], *, to: str = BARE) -> float:
        """Return how many times as much Sandkeeper has of a figure."""
        return ratio(figure(OURS), figure(to))

    def cost_targets(self) -> tuple[Target, ...]:
        """Return what was promised of the cost of each, however they arrive."""
        processor = self.times(lambda name: self.median(name, lambda each: each.processor), to=SKETCH)
        return (
            Target(what="writes for each new Sandbox", bound=2, measured=self.writes(OURS)),
            Target(
                what="Events for each new Sandbox",
                bound=1,
                measured=self.median(OURS, lambda each: each.events),
            ),
            Target(what="processor time, in times the sketch's", bound=1.3, measured=processor),
        )

    def tables(self) -> tuple[Table, ...]:
        """Write them as tables: of time, of cost, and of where the processors' time goes."""
        times, costs = [], []
        for name in self.rounds:
            series = [milliseconds(self.latency(name, percent)) for percent in (50, 90, 99, 100)]
            speed = self.median(name, lambda each: each.throughput)
            times.append((name, f"{speed:.1f}", *series))
            if name != BARE:
                costs.append((name, *self._costs(name)))
        header = ("", "Ready a second", "p50", "p90", "p99", "longest")
        cost = (
            "for each",
            "writes (API server)",
            "writes (observer)",
            "writes (operator)",
            "Events",
            "processor",
            "memory",
        )
        return Table(header, tuple(times)), Table(cost, tuple(costs)), self._shares()

    def shares(self, name: str) -> dict[str, float]:
        """Return seconds of processor time for each, by who used it."""
        rounds = self.rounds[name]
        return {who: median(each.shares[who] for each in rounds) for who in rounds[0].shares}

    def _shares(self) -> Table:
        """Of a cluster elsewhere only our own side is known."""
        found = {name: self.shares(name) for name in self.rounds}
        others = [who for who in found[OURS] if who != OURS]
        rows = [
            (
                name,
                *(_each(shares[who]) for who in others),
                "" if name == BARE else _each(shares[name]),
                _each(sum(shares.values())),
            )
            for name, shares in found.items()
        ]
        return Table(("processor time for each, until Ready", *others, "itself", "together"), tuple(rows))

    def _costs(self, name: str) -> tuple[str, ...]:
        server = self.server_writes(name)
        own = self.rounds[name][0].own_writes
        return (
            "others wrote too" if server is None else f"{server:.2f}",
            f"{self.median(name, lambda each: each.seen_writes):.2f}",
            "" if own is None else f"{self.median(name, lambda each: each.own_writes or 0):.2f}",
            f"{self.median(name, lambda each: each.events):.2f}",
            f"{self.median(name, lambda each: each.processor) * 1000:.2f} ms",
            f"{self.median(name, lambda each: each.memory):.0f} MiB",
        )

    def to_json(self) -> Json:
        """Return what is worth keeping of them."""
        return {name: self._one(name) for name in self.rounds}

    def _one(self, name: str) -> Json:
        server = self.server_writes(name)
        found = {
            "throughput": [round(each.throughput, 2) for each in self.rounds[name]],
            "p50": round(self.latency(name, 50), 4),
            "p90": round(self.latency(name, 90), 4),
            "p99": round(self.latency(name, 99), 4),
            "longest": round(self.latency(name, 100), 4),
            "processorShares": {who: round(share, 5) for who, share in self.shares(name).items()},
            "clientProcessorSecondsEach": round(self.median(name, lambda each: each.client), 5),
            "curve": [[percent, round(self.latency(name, percent), 4)] for percent in _CURVE],
        }
        if name == BARE:
            return found
        return {
            **found,
            "writesByApiServer": None if server is None else round(server, 3),
            "writesByObserver": round(self.median(name, lambda each: each.seen_writes), 3),
            "events": round(self.median(name, lambda each: each.events), 3),
            "processorSecondsEach": round(self.median(name, lambda each: each.processor), 5),
            "residentMiB": round(self.median(name, lambda each: each.memory), 1),
        }


def _each(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


async def compare(field: Field, *, count: int, rounds: int, rate: float) -> Compared:
    """Let all take turns, so that a busy minute of the machine is a busy minute for each."""
    await warm_up(field)
    found: dict[str, list[Round]] = {each.name: [] for each in field.contenders}
    for number in range(rounds):
        for contender in field.contenders:
            made = await round_of(field, contender, prefix=f"r{number}", count=count, rate=rate)
            found[contender.name].append(made)
        said = ", ".join(
            f"{name} {one[-1].throughput:.0f}/s, p50 {milliseconds(Series(one[-1].latencies).p50)}"
            for name, one in found.items()
        )
        progress.say(f"Round {number + 1} of {rounds}: {said}")
    assert found.keys() == {BARE, SKETCH, OURS}
    return Compared(found)
