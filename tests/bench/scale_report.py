"""What holding ten thousand Sandboxes came to."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench import phase, targets
from bench.figures import Json, Section, Series, Table, milliseconds, ratio, seconds
from bench.phase import Phase
from bench.targets import Target

__all__ = ["Drain", "Found", "Held", "Restart", "section"]


@dataclass(frozen=True, kw_only=True)
class Held:
    """So many are held."""

    size: int
    made: Phase
    """Of those that were added last."""
    memory: float
    """Resident, in MiB."""


@dataclass(frozen=True, kw_only=True)
class Restart:
    """An operator that began with all of them there."""

    ready: float
    """Seconds from SIGKILL until the next one said that it is ready."""
    seconds: float
    """Until it had looked at everything."""
    passes: float
    writes: float
    """That it says it made."""
    changes: int
    """Of Sandboxes that the client's watch saw meanwhile."""
    processor: float
    """Seconds."""
    memory: float
    """Resident, in MiB."""


@dataclass(frozen=True, kw_only=True)
class Drain:
    """Many become idle at once, while others are created."""

    drained: Phase
    before: Series
    """How long creations took before it."""
    meanwhile: Series
    """How long they took while it went on, and until the last of them."""
    rate: float
    """Creations a second."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """All of it."""

    nodes: int
    empty: float
    """Resident memory with no Sandbox, in MiB."""
    held: Sequence[Held]
    rest: tuple[float, float, float]
    """Part of a core, writes, and seconds in which nothing happened."""
    restart: Restart
    planned: float
    """Seconds from an edit of the policy until each Sandbox that it concerns was queued or had had its pass."""
    marked: Phase
    replaced: Phase
    drain: Drain
    memory: float
    """Resident after all that, in MiB."""
    replacements: Json

    @property
    def size(self) -> int:
        """The most that were held."""
        return self.held[-1].size

    @property
    def each(self) -> float:
        """Memory for each Sandbox held, in KiB."""
        return (self.held[-1].memory - self.empty) * 1024 / self.size

    @property
    def is_within_budget(self) -> bool:
        """Whether at no moment more had been replaced than the budget allows until then."""
        burst, rate = self.replacements["burst"], self.replacements["perMinute"] / 60
        return all(
            number <= burst + rate * (at + 1) for number, at in enumerate(self.replaced.moments, start=1)
        )

    @property
    def allowed(self) -> float:
        """Seconds that the budget takes to replace all."""
        return (
            max(0.0, float(self.size - self.replacements["burst"]))
            * 60
            / float(self.replacements["perMinute"])
        )


def section(found: Found) -> Section:
    """Write it."""
    promised = _targets(found)
    size, last, first = found.size, found.held[-1], found.held[0]
    flat = ratio(last.made.processor, first.made.processor)
    return Section(
        name="scale",
        title=f"{size} held",
        method=f"On {found.nodes} nodes whose kubelets are played. Sandboxes are added until there are as many as each "
        "size, all of a size at once. Then nothing happens for longer than the five minutes after which everything is "
        "compared with lists; the operator is killed (SIGKILL) and started again; the policy of all is edited while "
        "all are hot, and then they are made cold, so that each is replaced; last, others become idle at once while "
        "more are created at a fixed rate. Planned is a Sandbox that waits "
        f"for its pass, or has had it. The operator may replace {found.replacements['perMinute']} a minute "
        "(`replacements`), and prune as many as by default.",
        tables=(
            _sizes(found),
            _upkeep(found),
            phase.table((found.marked, found.replaced)),
            _drain(found),
            targets.table(promised),
        ),
        headline=f"{size} held: {last.memory:.0f} MiB ({found.each:.1f} KiB each), "
        f"{found.rest[0] * 100:.1f} % of a core at rest, and {found.restart.seconds:.0f} s from SIGKILL until all "
        f"were looked at again, with {found.restart.writes:g} writes.",
        verdict=f"A Sandbox added to thousands costs {flat:.2f} times the processor time of one of the first "
        f"{first.size}. {targets.verdict(promised)}",
        data={
            "nodes": found.nodes,
            "replacements": found.replacements,
            "emptyMiB": round(found.empty, 1),
            "kibEach": round(found.each, 2),
            "afterwardsMiB": round(found.memory, 1),
            "sizes": [
                {"size": each.size, "residentMiB": round(each.memory, 1), **each.made.to_json()}
                for each in found.held
            ],
            "rest": {"processor": round(found.rest[0], 5), "writes": found.rest[1], "seconds": found.rest[2]},
            "restart": {
                "ready": round(found.restart.ready, 2),
                "seconds": round(found.restart.seconds, 2),
                "passes": found.restart.passes,
                "writes": found.restart.writes,
                "changes": found.restart.changes,
                "processorSeconds": round(found.restart.processor, 2),
                "residentMiB": round(found.restart.memory, 1),
            },
            "planned": round(found.planned, 2),
            "marked": found.marked.to_json(),
            "replaced": {**found.replaced.to_json(), "withinBudget": found.is_within_budget},
            "drain": {
                **found.drain.drained.to_json(),
                "creationsPerSecond": found.drain.rate,
                "creationP99Before": round(found.drain.before.percentile(99), 3),
                "creationP99": round(found.drain.meanwhile.percentile(99), 3),
            },
            "targets": targets.to_json(promised),
        },
    )


def _targets(found: Found) -> tuple[Target, ...]:
    restart, drain = found.restart, found.drain
    size = found.size
    return (
        Target(what=f"memory with {size}", bound=250, unit=" MiB", measured=found.held[-1].memory),
        Target(what="at rest, of a core", bound=1, unit=" %", measured=found.rest[0] * 100),
        Target(what="writes at rest", bound=0, measured=found.rest[1]),
        Target(what="started again, until all were looked at", bound=60, unit=" s", measured=restart.seconds),
        Target(what="writes of a restart", bound=0, measured=max(restart.writes, restart.changes)),
        Target(what=f"an edit that concerns {size}, planned", bound=1, unit=" s", measured=found.planned),
        Target(
            what="replaced, in times what the budget takes",
            bound=1.1,
            measured=ratio(found.replaced.seconds, found.allowed) if found.allowed else None,
        ),
        Target(what="moments beyond the budget", bound=0, measured=0.0 if found.is_within_budget else 1.0),
        Target(
            what=f"{drain.drained.count} idle ones drained",
            bound=60,
            unit=" s",
            measured=drain.drained.seconds,
        ),
    )


def _sizes(found: Found) -> Table:
    rows = [("0", "", "", "", "", f"{found.empty:.0f} MiB")]
    rows += [
        (
            str(each.size),
            str(each.made.count),
            f"{each.made.count / each.made.seconds:.0f}",
            f"{each.made.writes:.2f}",
            f"{each.made.processor * 1000:.2f} ms",
            f"{each.memory:.0f} MiB",
        )
        for each in found.held
    ]
    return Table(
        ("held", "of which added last", "Ready a second", "writes each", "processor each", "memory"),
        tuple(rows),
    )


def _upkeep(found: Found) -> Table:
    share, writes, took = found.rest
    restart = found.restart
    return Table(
        (f"the operator with {found.size}", ""),
        (
            ("memory for each", f"{found.each:.1f} KiB"),
            (f"processor at rest, over {took:.0f} s", f"{share * 100:.2f} % of a core"),
            ("writes at rest", f"{writes:g}"),
            ("from SIGKILL until the next one is ready", seconds(restart.ready)),
            ("until it has looked at everything", seconds(restart.seconds)),
            ("its passes", f"{restart.passes:g}"),
            ("its writes", f"{restart.writes:g}"),
            ("its processor time until then", seconds(restart.processor)),
            ("its memory", f"{restart.memory:.0f} MiB"),
            ("an edit of the policy of all, planned", seconds(found.planned)),
            ("memory after all that follows", f"{found.memory:.0f} MiB"),
        ),
    )


def _drain(found: Found) -> Table:
    drain = found.drain
    return Table(
        (f"{drain.drained.count} idle ones, and {drain.rate:g} creations a second", ""),
        (
            ("all pruned after", seconds(drain.drained.seconds)),
            ("creations before, p50", milliseconds(drain.before.p50)),
            ("creations before, p99", milliseconds(drain.before.percentile(99))),
            ("creations meanwhile, p50", milliseconds(drain.meanwhile.p50)),
            ("creations meanwhile, p99", milliseconds(drain.meanwhile.percentile(99))),
        ),
    )
