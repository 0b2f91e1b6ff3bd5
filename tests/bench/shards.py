"""What limits 100,000, and what several operators would change: the costs of one Sandbox, measured, and a model."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from bench import counters, machine
from bench.figures import Json, Section, Table, milliseconds
from bench.kube import Kube, Watch, pods, sandboxes
from bench.ready import is_running
from bench.sharding import Costs, Load, Work, by_label, by_range, heaviest, load, sizes, wait
from bench.stage import PODS, Stage
from support.operator import OperatorProcess
from support.pods import POD_IMAGE
from testbed import progress

__all__ = ["measure"]

_LIMIT = 300.0
_POLICY: Final = "shards"
_QUIET = 1.5
_PAUSE = 0.2
_AT_ONCE: Final = 32
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_WORKS: Final = (
    Work(sandboxes=10_000, new_per_second=5, touches_per_second=50),
    Work(sandboxes=100_000, new_per_second=50, touches_per_second=500),
)
"""A twentieth is used at a time, and touched every ten seconds; each is made anew about once in half an hour."""
_SHARDS: Final = (1, 2, 4, 8, 16)
_NAMESPACES: Final = 200
_SIMULATED: Final = 200_000
"""Arrivals of which the waits are drawn."""


async def measure(stage: Stage, *, count: int, nodes: int) -> Section:
    """Measure with ``count`` Sandboxes, as Pods on nodes that nothing runs on."""
    async with stage.fake_nodes(nodes) as fake, Watch(stage.kube, stage.namespace, pods) as watch:
        await stage.policy(_POLICY, backend="pod", container={"image": POD_IMAGE}, pod=fake.placement)
        async with stage.operator(**PODS) as operator:
            costs = await _Probe(stage, watch, operator).costs(count)
    progress.say(f"Of one Sandbox: {costs}")
    return _section(costs, count=count)


@dataclass(frozen=True)
class _Probe:
    """Measures the operator from outside."""

    stage: Stage
    pods: Watch
    operator: OperatorProcess

    async def costs(self, count: int) -> Costs:
        """Make that many, use each, and look at what it took."""
        few = max(1, count // 10)
        stage, pid = self.stage, self.operator.process.pid
        names = [f"shards-{number}" for number in range(count)]
        await self._quiet()
        base = machine.memory(pid)
        await self._processor(self._make, names[:few])
        some = machine.memory(pid)
        arrived = self._arrived
        new_seconds = await self._processor(self._make, names[few:])
        new_events = (self._arrived - arrived) / (count - few)
        held = (machine.memory(pid) - some) / (count - few)
        touch_seconds = await self._processor(self._touch, names)
        whole = await self._weights(count, "application/json")
        metadata = await self._weights(count, _METADATA)
        foreign = await self._processor(self._annotate_namespace, names) + await self._decoding()
        await asyncio.gather(*(stage.delete(name, limit=_LIMIT) for name in names))
        return Costs(
            new_seconds=new_seconds,
            touch_seconds=touch_seconds,
            foreign_seconds=foreign,
            new_events=new_events,
            object_bytes=whole,
            metadata_bytes=metadata,
            memory_bytes=held * 2**20,
            base_memory_bytes=base * 2**20,
        )

    @property
    def _arrived(self) -> int:
        namespace = self.stage.namespace
        return self.stage.watch.arrived.get(namespace, 0) + self.pods.arrived.get(namespace, 0)

    async def _make(self, names: Sequence[str]) -> None:
        await asyncio.gather(*(self.stage.create(name, policyRef={"name": _POLICY}) for name in names))
        watch = self.stage.watch
        await asyncio.gather(*(watch.until(name, is_running, limit=_LIMIT) for name in names))

    async def _touch(self, names: Sequence[str]) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        await _in_turns(lambda name: self.stage.annotate(name, last_used=now), names)

    async def _annotate_namespace(self, names: Sequence[str]) -> None:
        """Have events that the operator reads and then has nothing to do for: its Namespace is as it was to it."""
        path = f"/api/v1/namespaces/{self.stage.namespace}"

        async def annotate(name: str) -> None:
            body = {"metadata": {"annotations": {"example.com/seen": name}}}
            await self.stage.kube.request("PATCH", path, body=body)

        await _in_turns(annotate, names)

    async def _decoding(self) -> float:
        """Return the seconds that the text of an average event takes to become objects: a Namespace's is short."""
        bodies = [await _body(self.stage.kube, path(self.stage.namespace)) for path in (sandboxes, pods)]
        one = [json.dumps(body["items"][0]) for body in bodies]
        calls, began = 500, time.process_time()
        for _ in range(calls):
            for text in one:
                json.loads(text)
        return (time.process_time() - began) / calls / len(one)

    async def _weights(self, count: int, accept: str) -> float:
        paths = [path(self.stage.namespace) for path in (sandboxes, pods)]
        return sum([len(await self.stage.kube.text(path, accept=accept)) for path in paths]) / count

    async def _processor(
        self, act: Callable[[Sequence[str]], Awaitable[None]], names: Sequence[str]
    ) -> float:
        pid = self.operator.process.pid
        used = machine.processor_time(pid)
        await act(names)
        await self._quiet()
        return (machine.processor_time(pid) - used) / len(names)

    async def _quiet(self) -> None:
        quiet, passes = 0.0, -1.0
        async with asyncio.timeout(_LIMIT):
            while quiet < _QUIET:
                await asyncio.sleep(_PAUSE)
                now = await asyncio.to_thread(counters.passes, self.operator)
                quiet = quiet + _PAUSE if now == passes else 0.0
                passes = now


async def _in_turns(act: Callable[[str], Awaitable[object]], names: Sequence[str]) -> None:
    """Do it for each, some at a time."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> None:
        async with places:
            await act(name)

    await asyncio.gather(*map(one, names))


async def _body(kube: Kube, path: str) -> Json:
    return await kube.request("GET", path, query="?limit=1")


def _section(costs: Costs, *, count: int) -> Section:
    loads = {
        (work.sandboxes, shards, selected): load(costs, work, shards=shards, selected=selected)
        for work in _WORKS
        for shards in _SHARDS
        for selected in (False, True)
        if shards > 1 or not selected
    }
    most = _WORKS[-1]
    enough = next(
        (each for each in _SHARDS if _is_borne(loads.get((most.sandboxes, each, True)))), _SHARDS[-1]
    )
    alone = loads[most.sandboxes, 1, False]
    skews = _skews(most)
    return Section(
        name="shards",
        title="What limits 100,000",
        method=f"The costs of one Sandbox are measured with {count} of them, as Pods on nodes that nothing runs on. "
        "The rest is a model (`tests/bench/sharding.py`), not a measurement: one operator is one core, and n of them "
        "divide the Sandboxes among them. Without a selector, which is how sharding is today, each is sent every "
        "event, keeps what it is about, and works on its own; with one the API server sends it its own. Work: a "
        "twentieth of the Sandboxes is used at a time "
        "and touched every ten seconds, and each is made anew about once in half an hour. The wait is that for the "
        "event loop, simulated; a new Sandbox counts as one piece of work there, which it is not, so waits are rather "
        "shorter. What it means is said in [scale](explanation/scale.md).",
        tables=(
            _costs_table(costs),
            *(_work_table(costs, work, loads) for work in _WORKS),
            _skew_table(skews),
        ),
        headline=f"One operator with {most.sandboxes:,} Sandboxes would need {alone.processor:.0%} of a core and "
        f"{alone.memory_bytes / 2**20:.0f} MiB, by a model; {enough} that are sent their own have room.",
        data={
            "costs": {name: round(value, 7) for name, value in asdict(costs).items()},
            "model": [
                {"sandboxes": key[0], "shards": key[1], "selected": key[2], **_rounded(each)}
                for key, each in loads.items()
            ],
            "heaviest": {str(shards): [round(each, 2) for each in found] for shards, found in skews.items()},
        },
    )


def _is_borne(found: Load | None) -> bool:
    """Whether half of a core is enough, so that there is room for a busy hour."""
    return found is not None and found.processor <= 0.5


def _costs_table(costs: Costs) -> Table:
    rows = (
        ("processor, until it is Ready", f"{costs.new_seconds * 1000:.2f} ms"),
        ("processor, a touch", f"{costs.touch_seconds * 1000:.2f} ms"),
        ("processor, an event that is dropped", f"{costs.foreign_seconds * 1000:.2f} ms"),
        ("events until it is Ready, its Pod's included", f"{costs.new_events:.1f}"),
        ("in a list, with its Pod", f"{costs.object_bytes / 1024:.1f} KiB"),
        ("in a list of metadata, with its Pod", f"{costs.metadata_bytes / 1024:.1f} KiB"),
        ("memory of the operator", f"{costs.memory_bytes / 1024:.1f} KiB"),
        ("memory of the operator without any", f"{costs.base_memory_bytes / 2**20:.0f} MiB"),
    )
    return Table(("one Sandbox", "measured"), rows)


def _work_table(costs: Costs, work: Work, loads: dict[tuple[int, int, bool], Load]) -> Table:
    rows = []
    for shards in _SHARDS:
        everything = loads[work.sandboxes, shards, False]
        own = loads.get((work.sandboxes, shards, True), everything)
        rows.append(
            (
                str(shards),
                f"{everything.events_per_second:,.0f} / {own.events_per_second:,.0f}",
                f"{everything.processor:.0%} / {own.processor:.0%}",
                f"{_waited(costs, work, shards, selected=False)} / {_waited(costs, work, shards, selected=True)}",
                f"{everything.memory_bytes / 2**20:,.0f} / {own.memory_bytes / 2**20:,.0f} MiB",
                f"{everything.start_bytes / 2**20:,.0f} / {own.start_bytes / 2**20:,.0f} MiB",
                f"{everything.resync_bytes / 2**20:,.0f} / {own.resync_bytes / 2**20:,.0f} MiB",
            )
        )
    header = f"{work.sandboxes:,}: shards"
    return Table(
        (header, "events a second", "of a core", "wait, p99", "memory", "lists at the start", "resync"),
        tuple(rows),
    )


def _waited(costs: Costs, work: Work, shards: int, *, selected: bool) -> str:
    jobs = [
        (work.new_per_second / shards, costs.new_seconds),
        (work.touches_per_second / shards, costs.touch_seconds),
    ]
    events = work.new_per_second * costs.new_events + work.touches_per_second
    if not selected and shards > 1:
        jobs.append((events * (1 - 1 / shards), costs.foreign_seconds))
    found = wait(jobs, count=_SIMULATED)
    return "grows" if found is None else milliseconds(found.p99)


def _skews(work: Work) -> dict[int, tuple[float, ...]]:
    """By how many shards: how much more than its share the fullest has, by what stays in one piece, and the hash."""
    namespaces = [(f"team-{rank}", size) for rank, size in enumerate(sizes(work.sandboxes, _NAMESPACES))]
    each = [(f"{name}/{number}", 1) for name, size in namespaces for number in range(size)]
    return {
        shards: (
            heaviest(namespaces, shards, divide=by_range),
            heaviest(namespaces, shards, divide=by_label),
            heaviest(each, shards, divide=by_label),
        )
        for shards in _SHARDS
    }


def _skew_table(skews: dict[int, tuple[float, ...]]) -> Table:
    rows = tuple((str(shards), *(f"{each:.2f}" for each in found)) for shards, found in skews.items())
    return Table(
        (
            "the fullest of so many shards has so many times its share",
            "namespaces, the API server's hash",
            "namespaces, a label of ours",
            "keys, a label of ours",
        ),
        rows,
    )


def _rounded(found: Load) -> Json:
    return {name: round(value, 4) for name, value in asdict(found).items()}
