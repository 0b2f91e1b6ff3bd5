"""Ten thousand passes that change nothing: none of them may write."""

import asyncio
import time

from bench import counters, targets
from bench.contenders import OURS, field_of, settled
from bench.crowd import round_of
from bench.figures import Section, Table
from bench.stage import Stage
from bench.steps import edit, touch
from bench.targets import Target

__all__ = ["measure"]

_AT_ONCE = 32
_AN_HOUR = 3600


async def measure(stage: Stage, *, count: int, passes: int, nodes: int) -> Section:
    """Touch ``count`` Sandboxes over and over, until the operator has looked ``passes`` times."""
    async with field_of(stage, nodes=nodes, names=(OURS,)) as field:
        ours = field.ours
        assert ours.operator is not None
        # A use is noted in the status once per hot window, and that one write is another matter.
        await edit(field, hotWindowSeconds=_AN_HOUR)
        await round_of(field, ours, prefix="quiet", count=count, keep=True)
        await settled(ours.operator)
        names = list(ours.observer.ready_at)
        ours.observer.forget()
        before, looked = await counters.read(field.kube, ours.operator), counters.passes(ours.operator)
        others = field.elsewhere.seen
        used, began = ours.processor_time(), time.monotonic()
        turns = asyncio.Semaphore(_AT_ONCE)
        touched = made = 0.0

        async def one(name: str) -> None:
            async with turns:
                await touch(field, name)

        # Touches of the same Sandbox in the same moment are one pass, so more may be needed.
        while made < passes and touched < 2 * passes:
            await asyncio.gather(*map(one, names))
            touched += len(names)
            made = counters.passes(ours.operator) - looked
        await settled(ours.operator)
        made = counters.passes(ours.operator) - looked
        took = time.monotonic() - began
        work = (ours.processor_time() - used) / made
        added = (await counters.read(field.kube, ours.operator)).since(before)
        # A touch within the same second as the one before changes nothing, and tells nobody.
        seen = sum(ours.observer.events.values())
        server = added.server - touched if field.elsewhere.seen == others else None
    own = added.own + added.own_pods + added.own_deletions + added.own_networks
    written = max(own, server or 0)
    promised = (
        Target(what="passes that change nothing", bound=passes, measured=made, at_least=True),
        Target(what="writes in all of them", bound=0, measured=written),
    )
    rows = (
        ("touches by the client", f"{touched:g}"),
        ("changes that its watch saw", f"{seen:g}"),
        ("passes", f"{made:g}"),
        ("writes, as the operator counts", f"{own:g}"),
        (
            "writes, as the API server counts, without the client's",
            "others wrote too" if server is None else f"{server:g}",
        ),
        ("writes that were refused", f"{added.refused:g}"),
        ("Events", f"{added.events:g}"),
        ("time", f"{took:.0f} s"),
        ("processor, for each pass with its event", f"{work * 1000:.2f} ms"),
    )
    return Section(
        name="unchanged",
        title="Passes that change nothing",
        method=f"{count} Sandboxes are touched over and over within their hot window: each touch is a change that the "
        "operator has to look at, and none is one that it has to do something about.",
        tables=(Table(("", ""), rows), targets.table(promised)),
        headline=f"{made:g} passes that change nothing write {written:g} times.",
        verdict=targets.verdict(promised),
        data={
            "count": count,
            "touches": touched,
            "passes": made,
            "writes": own,
            "writesByApiServer": server,
            "processorSecondsEach": round(work, 5),
            "targets": targets.to_json(promised),
        },
    )
