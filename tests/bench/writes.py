"""How many writes to the API server each step in the life of a Docker sandbox takes."""

import asyncio
from dataclasses import dataclass

from bench import counters, life
from bench.counters import Reading
from bench.figures import Section, Table
from bench.kube import Watch
from bench.life import Step
from bench.stage import Stage
from support.operator import OperatorProcess
from testbed import progress

__all__ = ["measure"]

_QUIET = 0.6
"""Seconds without a pass after which a step counts as done."""
_PAUSE = 0.2
_LONGEST = 60.0


@dataclass(frozen=True)
class _State:
    reading: Reading
    others: int
    """Events of Sandboxes that are not ours."""


@dataclass(frozen=True)
class _Counted:
    step: Step
    server: float
    """For each Sandbox, as the API server counts."""
    own: float
    """For each Sandbox, as the operator counts."""
    refused: float
    """For each Sandbox: writes that came too late, and were made anew."""
    events: float
    alone: bool
    """Whether nobody else changed a Sandbox meanwhile, so that the API server's figure is ours alone."""

    @property
    def certain(self) -> bool:
        """Whether the step need not be counted again; a write of others that changes nothing is not seen otherwise."""
        return self.alone and self.server == self.own


async def measure(stage: Stage, *, count: int, idle: int, tries: int) -> Section:
    """Count each step for ``count`` Sandboxes at once.

    The API server counts for all of its clients, so where others wrote meanwhile the steps are counted once more.
    """
    await stage.policy("idle", hotWindowSeconds=1, prune={"idleSeconds": idle})
    await stage.policy("cold", hotWindowSeconds=1)
    found: dict[str, _Counted] = {}
    async with stage.operator() as operator, Watch(stage.kube, None) as everyone:
        for number in range(tries):
            names = [f"writes-{number}-{one}" for one in range(count)]
            before = await _settled(stage, operator, everyone)
            for step in life.steps(stage):
                about = [name + step.about for name in names]
                await asyncio.gather(*map(step.act, about))
                await asyncio.gather(*(stage.watch.until(name, step.reached) for name in about))
                after = await _settled(stage, operator, everyone)
                if step.title not in found or not found[step.title].certain:
                    found[step.title] = _count(step, before, after, count)
                before = after
            await asyncio.gather(*(stage.delete(n + kind) for n in names for kind in (life.IDLE, life.COLD)))
            certain = sum(each.certain for each in found.values())
            progress.say(f"Writes: {certain} of {len(found)} steps counted while nobody else wrote")
            if certain == len(found):
                break
    return _section(tuple(found.values()), count)


def _count(step: Step, before: _State, after: _State, count: int) -> _Counted:
    added = after.reading.since(before.reading)
    return _Counted(
        step=step,
        server=added.server / count - step.by_client,
        own=added.own / count,
        refused=added.refused / count,
        events=added.events / count,
        alone=after.others == before.others,
    )


async def _settled(stage: Stage, operator: OperatorProcess, everyone: Watch) -> _State:
    """Wait until the operator has nothing left to do, and return what the counters say then."""
    async with asyncio.timeout(_LONGEST):
        passes, quiet = -1.0, 0.0
        while quiet < _QUIET:
            await asyncio.sleep(_PAUSE)
            now = await asyncio.to_thread(counters.passes, operator)
            quiet = quiet + _PAUSE if now == passes else 0.0
            passes = now
    reading = await counters.read(stage.kube, operator)
    await asyncio.sleep(_PAUSE)  # what was counted may be told a moment later
    return _State(reading, everyone.elsewhere(stage.namespace))


def _number(value: float) -> str:
    return f"{value:g}" if value == round(value) else f"{value:.1f}"


def _row(counted: _Counted) -> tuple[str, ...]:
    promised = counted.step.promised
    server = _number(counted.server) if counted.alone else "others wrote too"
    return (
        counted.step.title,
        "" if promised is None else str(promised),
        server,
        _number(counted.own),
        _number(counted.refused),
        _number(counted.events),
    )


def _section(found: tuple[_Counted, ...], count: int) -> Section:
    over = [
        each.step.title for each in found if each.step.promised is not None and each.own > each.step.promised
    ]
    verdict = "Every number that was promised is kept."
    if over:
        verdict = f"Above what was promised: {'; '.join(over)}. Where Sandboxes share a runtime, the use of one moves "
        verdict += "the next transition of all, and each of them is told so in its status."
    return Section(
        name="writes",
        title="Writes to the API server",
        method=f"Each step is done to several Sandboxes at once ({count}); the figures are for one. The client's own "
        "write is not counted. The API server's figure is the difference of `apiserver_request_total` (POST, PUT, "
        "PATCH and DELETE of Sandboxes) around the step, the operator's that of `sandkeeper_api_requests_total`. "
        "Refused are those that came too late, because the object had changed meanwhile; they write nothing. Events "
        "are aside.",
        tables=(
            Table(
                ("for each Sandbox", "promised", "API server", "operator", "refused", "Events"),
                tuple(map(_row, found)),
            ),
        ),
        headline=f"A new Sandbox takes {_number(found[0].own)} writes, and a pass that changes nothing "
        f"{_number(found[1].own)}.",
        verdict=verdict,
        data={
            each.step.title: {
                "apiServer": round(each.server, 2) if each.alone else None,
                "operator": round(each.own, 2),
                "refused": round(each.refused, 2),
                "events": round(each.events, 2),
            }
            for each in found
        },
    )
