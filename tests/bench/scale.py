"""Ten thousand Sandboxes held: what each costs, and what happens when all of them are concerned at once."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bench import counters, machine, phase, scale_report
from bench.contenders import OURS, POLICY, Field, field_of, sandbox
from bench.crowd import arrive, round_of, told
from bench.figures import Json, Section, Series
from bench.kube import policies, sandboxes
from bench.observer import SANDBOX_READY, Observer
from bench.phase import DRIFTED, PRUNED, READY, REPLACED, all_of
from bench.scale_report import Drain, Found, Held, Restart
from bench.stage import PODS, Stage
from bench.steps import changed, edit
from sandkeeper.config.operator import OperatorConfig
from support.waiting import wait_for
from testbed import progress

__all__ = ["measure"]

_REPLACEMENTS: Final[Json] = {"perMinute": 1200, "burst": 100}
_IDLE: Final = "idle"
"""The policy of those that are drained."""
_A_DAY: Final = 86_400
_LIMIT: Final = 1800.0
_EVENTS: Final = 600.0
"""Seconds in which all Events of ten thousand should be posted; what is left then is part of the rest."""
_PAUSE: Final = 0.2
_QUIET: Final = 3.0
"""Seconds without a pass after which an operator that was started again has looked at everything."""
_IN_HAND: Final = OperatorConfig().workers
"""Passes that have begun, which are counted neither as made nor as queued."""
_AT_ONCE: Final = 500
"""Creations that the client has under way: what waits in the client is no load of the operator's."""


async def measure(
    stage: Stage, *, sizes: Sequence[int], rest: float, drained: int, rate: float, nodes: int
) -> Section:
    """Hold as many as the last of ``sizes``; ``rest`` seconds of nothing are watched, ``drained`` become idle."""
    settings = {"replacements": _REPLACEMENTS}
    async with AsyncExitStack() as stack:
        field = await stack.enter_async_context(field_of(stage, nodes=nodes, names=(OURS,), **settings))
        await edit(field, hotWindowSeconds=_A_DAY)
        # One for what is made once for all: a connection, a NetworkPolicy.
        await round_of(field, field.ours, prefix="warm", count=1)
        empty = field.ours.memory()
        held = await _grow(field, sizes)
        at_rest = await _rest(field, rest)
        names = [f"held-{number}" for number in range(sizes[-1])]
        field, restart = await _restart(stack, field, settings, sizes[-1])
        marked, planned = await _edit_hot(field, names)
        replaced = await phase.phase(
            field,
            "all cold: replaced",
            names,
            REPLACED,
            lambda: edit(field, hotWindowSeconds=1),
            limit=_LIMIT,
            is_told=False,
        )
        progress.say(f"All replaced in {replaced.seconds:.0f} s")
        drain = await _drain(field, drained, rate)
        memory = field.ours.memory()
    return scale_report.section(
        Found(
            nodes=nodes,
            empty=empty,
            held=held,
            rest=at_rest,
            restart=restart,
            planned=planned,
            marked=marked,
            replaced=replaced,
            drain=drain,
            memory=memory,
            replacements=_REPLACEMENTS,
        )
    )


async def _grow(field: Field, sizes: Sequence[int]) -> list[Held]:
    """Add Sandboxes until there are as many as each size, and see what the last ones cost."""
    held: list[Held] = []
    there = 0
    turns = asyncio.Semaphore(_AT_ONCE)

    async def make(name: str) -> None:
        async with turns:
            await field.ours.make(field.kube, name)

    for size in sizes:
        names = [f"held-{number}" for number in range(there, size)]
        made = await phase.phase(
            field, f"up to {size}", names, READY, partial(all_of, names, make), limit=_LIMIT, is_told=False
        )
        there = size
        held.append(Held(size=size, made=made, memory=field.ours.memory()))
        progress.say(f"{size} held: {held[-1].memory:.0f} MiB, the last {made.count} in {made.seconds:.0f} s")
    return held


async def _rest(field: Field, seconds: float) -> tuple[float, float, float]:
    """Do nothing; return the part of a core that the operator takes, its writes, and the seconds.

    Thousands of Events may still be to be posted, which takes as long as the API server lets it: that is no rest.
    """
    assert field.ours.operator is not None
    with suppress(TimeoutError):
        await told(field.ours.operator, limit=_EVENTS)
    before = await counters.read(field.kube, field.ours.operator)
    used, began = field.ours.processor_time(), time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    share = (field.ours.processor_time() - used) / took
    added = (await counters.read(field.kube, field.ours.operator)).since(before)
    progress.say(f"At rest: {share * 100:.2f} % of a core")
    return share, added.own + added.own_pods + added.own_deletions, took


async def _restart(stack: AsyncExitStack, field: Field, settings: Json, count: int) -> tuple[Field, Restart]:
    """Kill the operator and start it again; wait until it has looked at everything."""
    ours, stage = field.ours, field.stage
    assert ours.operator is not None
    ours.observer.forget()
    killed = time.monotonic()
    ours.operator.kill()
    operator = await stack.enter_async_context(
        stage.operator(watchNamespaces=[ours.namespace], **PODS, **settings)
    )
    ready = time.monotonic() - killed
    looked = await _looked(operator.process.pid, partial(counters.passes, operator), count)
    reading = await counters.read(field.kube, operator)
    restart = Restart(
        ready=ready,
        seconds=looked - killed,
        passes=counters.passes(operator),
        writes=reading.own + reading.own_pods + reading.own_deletions + reading.own_networks,
        changes=sum(ours.observer.events.values()),
        processor=machine.processor_time(operator.process.pid),
        memory=machine.memory(operator.process.pid),
    )
    progress.say(
        f"Started again: everything looked at after {restart.seconds:.0f} s, {restart.writes:g} writes, "
        f"{restart.processor:.1f} s of processor time, {restart.memory:.0f} MiB"
    )
    again = replace(ours, operator=operator, pid=operator.process.pid)
    return replace(field, contenders=(again,)), restart


async def _looked(pid: int, passes: "partial[float]", count: int) -> float:
    """Wait until each was looked at and nothing is left to do; return when that was."""
    known, since = -1.0, time.monotonic()
    async with asyncio.timeout(_LIMIT):
        while known < count or time.monotonic() - since < _QUIET:
            await asyncio.sleep(_PAUSE)
            now = await asyncio.to_thread(passes)
            if now != known:
                known, since = now, time.monotonic()
    return since


async def _edit_hot(field: Field, names: Sequence[str]) -> tuple[phase.Phase, float]:
    """Edit the policy of all, none of which may be replaced; return also when each of them was planned for."""
    operator = field.ours.operator
    assert operator is not None
    planned: list[float] = []

    async def act() -> None:
        passes = await asyncio.to_thread(counters.passes, operator)
        began = time.monotonic()
        await edit(field, **changed("2"))
        await asyncio.to_thread(
            wait_for,
            lambda: counters.planned(operator) - passes >= len(names) - _IN_HAND,
            what="each is planned",
            timeout=_LIMIT,
        )
        planned.append(time.monotonic() - began)

    marked = await phase.phase(field, "all hot: drifted", names, DRIFTED, act, limit=_LIMIT, is_told=False)
    progress.say(f"A policy edited: planned in {planned[0]:.1f} s, and said in {marked.seconds:.0f} s")
    return marked, planned[0]


@dataclass
class _Arrivals:
    """Creations that go on while something else happens."""

    field: Field
    observer: Observer
    rate: float

    async def run(self, prefix: str, count: int) -> Series:
        """Let ``count`` arrive; return how long each took."""
        names = [f"{prefix}-{number}" for number in range(count)]
        due = await arrive(self.field, self.field.ours, names, self.rate)
        await self.observer.all_ready(names, limit=_LIMIT)
        return Series.of([self.observer.ready_at[name] - due[name] for name in names])


async def _drain(field: Field, count: int, rate: float) -> Drain:
    """Let ``count`` become idle at once while others are created."""
    ours = field.ours
    namespace = ours.namespace
    policy = await field.kube.request("GET", policies(namespace, POLICY))
    spec = {name: value for name, value in policy["spec"].items() if name != "prune"}
    await field.stage.policy(_IDLE, namespace=namespace, **spec)
    names = [f"idle-{number}" for number in range(count)]

    async def make(name: str) -> None:
        body = sandbox(name, policyRef={"name": _IDLE})
        await field.kube.request("POST", sandboxes(namespace), body=body)

    await phase.phase(
        field, "to be drained", names, READY, partial(all_of, names, make), limit=_LIMIT, is_told=False
    )
    async with Observer(field.kube, namespace, sandboxes, SANDBOX_READY) as observer:
        arrivals = _Arrivals(field, observer, rate)
        # Long enough for the drain, were it to take as long as it may.
        before = await arrivals.run("before", max(1, count // 5))
        meanwhile = asyncio.create_task(arrivals.run("meanwhile", max(1, int(count / 1000 * 60 * rate))))
        drained = await phase.phase(
            field,
            "drained",
            names,
            PRUNED,
            lambda: edit(field, _IDLE, prune={"idleSeconds": 1}),
            limit=_LIMIT,
            is_told=False,
        )
        took = await meanwhile
    progress.say(f"{count} drained in {drained.seconds:.0f} s")
    return Drain(drained=drained, before=before, meanwhile=took, rate=rate)
