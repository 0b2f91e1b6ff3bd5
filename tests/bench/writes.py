"""How many writes to the API server each step in the life of a sandbox takes."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from bench import counters, life
from bench.counters import Reading
from bench.figures import Json, Section, Table
from bench.kube import Watch, pods
from bench.life import Kind, Step
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
    """Events of Sandboxes that are not ours, and of Pods where these are counted."""


@dataclass(frozen=True)
class _Counted:
    step: Step
    server: float
    """For each Sandbox, as the API server counts."""
    own: float
    """For each Sandbox, as the operator counts, but for deletions of Pods."""
    deletions: float
    """For each Sandbox: Pods that the operator deleted."""
    refused: float
    """For each Sandbox: writes that came too late, and were made anew."""
    events: float
    alone: bool
    """Whether nobody else changed a Sandbox meanwhile, so that the API server's figure is ours alone."""

    @property
    def certain(self) -> bool:
        """Whether the step need not be counted again; a write of others that changes nothing is not seen otherwise."""
        return self.alone and self.server == self.own


async def measure(stage: Stage, kind: Kind, *, count: int, idle: int, tries: int) -> Section:
    """Count each step for ``count`` Sandboxes at once.

    The API server counts for all of its clients, so where others wrote meanwhile the steps are counted once more.
    """
    found: dict[str, _Counted] = {}
    async with AsyncExitStack() as stack:
        template = kind.template
        if kind.are_pods:
            nodes = await stack.enter_async_context(stage.fake_nodes(1))
            template = {**template, "pod": nodes.placement}
        for suffix, windows in life.policies(idle).items():
            # The policy that Docker's Sandboxes need not name is there already.
            if kind.policy + suffix != "default":
                await stage.policy(kind.policy + suffix, **windows, **template)
        operator = await stack.enter_async_context(stage.operator(**kind.settings))
        everyone = [await stack.enter_async_context(Watch(stage.kube, None))]
        if kind.are_pods:
            everyone.append(await stack.enter_async_context(Watch(stage.kube, None, pods)))
        for number in range(tries):
            names = [f"{kind.name.lower()}-{number}-{one}" for one in range(count)]
            before = await _settled(stage, operator, everyone)
            for step in life.steps(stage, kind):
                about = [name + step.about for name in names]
                await asyncio.gather(*map(step.act, about))
                await asyncio.gather(*(stage.watch.until(name, step.reached) for name in about))
                after = await _settled(stage, operator, everyone)
                if step.title not in found or not found[step.title].certain:
                    found[step.title] = _count(kind, step, before, after, count)
                before = after
            left = [name + kept for name in names for kept in (life.IDLE, life.COLD)]
            await asyncio.gather(*map(stage.delete, left))
            certain = sum(each.certain for each in found.values())
            progress.say(f"Writes: {certain} of {len(found)} steps counted while nobody else wrote")
            if certain == len(found):
                break
        networks = (await counters.read(stage.kube, operator)).own_networks
    return _section(kind, tuple(found.values()), count, networks=networks)


def _count(kind: Kind, step: Step, before: _State, after: _State, count: int) -> _Counted:
    added = after.reading.since(before.reading)
    server, own = added.server, added.own
    if kind.are_pods:
        server += added.server_pods
        own += added.own_pods - added.server_tried
    return _Counted(
        step=step,
        server=server / count - step.by_client,
        own=own / count,
        deletions=added.own_deletions / count,
        refused=added.refused / count,
        events=added.events / count,
        alone=after.others == before.others,
    )


async def _settled(stage: Stage, operator: OperatorProcess, everyone: Sequence[Watch]) -> _State:
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
    return _State(reading, sum(watch.elsewhere(stage.namespace) for watch in everyone))


def _number(value: float) -> str:
    return f"{value:g}" if value == round(value) else f"{value:.1f}"


_WITH_CONTAINERS: Final = """\
The API server's figure is the difference of `apiserver_request_total` (POST, PUT, PATCH and DELETE of Sandboxes) around
the step, the operator's that of `sandkeeper_api_requests_total`. Refused are those that came too late, because the
object had changed meanwhile; they write nothing. Events are aside."""

_WITH_PODS: Final = """\
The API server's figure is the difference of `apiserver_request_total` around the step: POST, PUT, PATCH and DELETE of
Sandboxes, and POST, PUT and PATCH of Pods themselves, so without what schedulers and kubelets write, and without dry
runs. The operator's is that of `sandkeeper_api_requests_total`. Pods are deleted by the garbage collector and the
kubelet too, so what the operator deletes has a column of its own. The garbage collector may also be the one who takes a
deleted Sandbox from a Pod's owners. The NetworkPolicies, one for each policy, are counted apart. Kubelets are played
(see below), so that no step takes the 2 s after which a status says that it goes on."""


def _row(kind: Kind, counted: _Counted) -> tuple[str, ...]:
    promised = counted.step.promised
    server = _number(counted.server) if counted.alone else "others wrote too"
    deletions = (_number(counted.deletions),) if kind.are_pods else ()
    return (
        counted.step.title,
        "" if promised is None else str(promised),
        server,
        _number(counted.own),
        *deletions,
        _number(counted.refused),
        _number(counted.events),
    )


def _section(kind: Kind, found: tuple[_Counted, ...], count: int, *, networks: float) -> Section:
    over = [
        each.step.title
        for each in found
        if each.step.promised is not None and each.own + each.deletions > each.step.promised
    ]
    verdict = "Every number that was promised is kept."
    if over:
        verdict = f"Above what was promised: {'; '.join(over)}. Where Sandboxes share a runtime, the use of one moves "
        verdict += "the next transition of all, and each of them is told so in its status."
    if kind.are_pods:
        verdict += f" NetworkPolicies were written or removed {_number(networks)} times in all that; there are three "
        verdict += "policies."
    deleted = ("Pods deleted",) if kind.are_pods else ()
    what = "A new Sandbox with a Pod" if kind.are_pods else "A new Sandbox"
    return Section(
        name=kind.name,
        title="Writes to the API server" + (", with Pods" if kind.are_pods else ""),
        method=f"Each step is done to several Sandboxes at once ({count}); the figures are for one. The client's own "
        f"write is not counted. {_WITH_PODS if kind.are_pods else _WITH_CONTAINERS}",
        tables=(
            Table(
                ("for each Sandbox", "promised", "API server", "operator", *deleted, "refused", "Events"),
                tuple(_row(kind, each) for each in found),
            ),
        ),
        headline=f"{what} takes {_number(found[0].own)} writes, and a pass that changes nothing "
        f"{_number(found[1].own)}.",
        verdict=verdict,
        data={each.step.title: _data(kind, each) for each in found},
    )


def _data(kind: Kind, counted: _Counted) -> Json:
    deleted = {"podsDeleted": round(counted.deletions, 2)} if kind.are_pods else {}
    return {
        "apiServer": round(counted.server, 2) if counted.alone else None,
        "operator": round(counted.own, 2),
        "refused": round(counted.refused, 2),
        "events": round(counted.events, 2),
        **deleted,
    }
