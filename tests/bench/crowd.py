"""Many at once, or at a fixed rate: what came of it, for one contender."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench import counters, machine
from bench.contenders import BARE, OURS, Contender, Field
from bench.counters import Reading
from bench.kube import pods
from support.operator import OperatorProcess

__all__ = ["Round", "arrive", "calm", "round_of", "told", "warm_up"]

_LIMIT = 120.0
_WARM_UP = 20
_PAUSE = 0.5
_CALM = 0.02
"""Seconds of processor time in a pause: less, and a process has nothing left to do but to post Events."""
_TOLD = 1.5
"""Seconds without an Event after which none is left."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One go of one contender."""

    latencies: tuple[float, ...]
    """From when the arrival was due until an independent watch showed it Ready, by arrival."""
    seconds: float
    """From the first arrival until the last was Ready."""
    processor: float
    """Seconds of processor time of its process, for each."""
    client: float
    """Seconds of processor time of the client and the observer, which are this process, for each."""
    memory: float
    """Resident at the end, in MiB."""
    server_writes: float | None
    """For each, as the API server counts, without the client's; None: others wrote meanwhile."""
    seen_writes: float
    """For each, as the observer saw: Pods made, and changes of Sandboxes after the client's."""
    own_writes: float | None
    """For each, as the operator counts; None: it does not."""
    events: float
    """Events for each, as the operator counts."""
    shares: dict[str, float]
    """Seconds of processor time until the last was Ready, for each, by who used it: the cluster's programs too."""

    @property
    def throughput(self) -> float:
        """Of Ready ones a second."""
        return len(self.latencies) / self.seconds


async def warm_up(field: Field) -> None:
    """Have a few of each, so that connections are open and what is made once for all is made."""
    for contender in field.contenders:
        await round_of(field, contender, prefix="warm", count=_WARM_UP)


async def round_of(
    field: Field, contender: Contender, *, prefix: str, count: int, rate: float = 0, keep: bool = False
) -> Round:
    """Have ``count``, ``rate`` a second (0: all at once), and remove them again unless they are to be kept."""
    names = [f"{prefix}-{number}" for number in range(count)]
    before, others = await _reading(field), field.elsewhere.seen
    used, mine, shared = contender.processor_time(), time.process_time(), machine.processor_times()
    due = await arrive(field, contender, names, rate)
    await contender.observer.all_ready(names, limit=_LIMIT)
    ready = contender.observer.ready_at
    client = time.process_time() - mine
    shares = {name: (now - shared.get(name, 0)) / count for name, now in machine.processor_times().items()}
    shares |= {"client": client / count, contender.name: (contender.processor_time() - used) / count}
    await calm(contender)
    if contender.operator is not None:
        await told(contender.operator)
    processor = contender.processor_time() - used
    added = (await _reading(field)).since(before)
    is_alone = field.elsewhere.seen == others
    await _check(field, contender, names)
    # The client's write of a Sandbox is not counted, but the Pod's, of which there is one.
    seen = sum(contender.observer.events[name] for name in names) / count
    # The client's own write is one for each: of a Pod where Pods are bare, else of a Sandbox.
    server = (added.server + added.server_pods) / count - 1
    result = Round(
        latencies=tuple(ready[name] - due[name] for name in names),
        seconds=max(ready[name] for name in names) - min(due.values()),
        processor=processor / count,
        client=client / count,
        memory=contender.memory(),
        server_writes=server if is_alone else None,
        seen_writes=0.0 if contender.name == BARE else seen,
        own_writes=(added.own + added.own_pods + added.own_deletions + added.own_networks) / count
        if contender.name == OURS
        else None,
        events=added.events / count if contender.name == OURS else 0.0,
        shares=shares,
    )
    if not keep:
        await field.clear(contender)
    return result


async def arrive(field: Field, contender: Contender, names: Sequence[str], rate: float) -> dict[str, float]:
    """Let each arrive when it is due, whatever became of those before it; return when that was."""
    began = time.monotonic()
    due = {name: began + (number / rate if rate else 0) for number, name in enumerate(names)}
    async with asyncio.TaskGroup() as group:
        for name, at in due.items():
            if (left := at - time.monotonic()) > 0:
                await asyncio.sleep(left)
            group.create_task(contender.make(field.kube, name))
    return due


async def calm(contender: Contender, *, limit: float = _LIMIT) -> None:
    """Wait until it has nothing left to do."""
    used = -1.0
    async with asyncio.timeout(limit):
        while contender.processor_time() - used > _CALM:
            used = contender.processor_time()
            await asyncio.sleep(_PAUSE)


async def told(operator: OperatorProcess, *, limit: float = _LIMIT) -> None:
    """Wait until it has posted its Events, too, which it does a few at a time and with rests."""
    known, since = -1.0, time.monotonic()
    async with asyncio.timeout(limit):
        while time.monotonic() - since < _TOLD:
            await asyncio.sleep(_PAUSE)
            now = await asyncio.to_thread(counters.events, operator)
            if now != known:
                known, since = now, time.monotonic()


async def _reading(field: Field) -> Reading:
    operator = next((each.operator for each in field.contenders if each.operator is not None), None)
    return await counters.read(field.kube, operator)


async def _check(field: Field, contender: Contender, names: Sequence[str]) -> None:
    """See to it that there is exactly one Pod for each."""
    listed = (await field.kube.request("GET", pods(contender.namespace)))["items"]
    if contender.name == BARE:
        assert len(listed) >= len(names), f"{len(listed)} Pods for {len(names)}"
        return
    owned = Counter(owner["name"] for pod in listed for owner in pod["metadata"].get("ownerReferences", ()))
    wrong = {name: owned[name] for name in names if owned[name] != 1}
    assert not wrong, f"{contender.name}: not one Pod for each: {wrong}"
