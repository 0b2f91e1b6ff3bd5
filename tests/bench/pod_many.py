"""Many Sandboxes as Pods, on nodes that nothing runs on: none lost, none double, and nothing written at a restart."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from bench import counters, machine
from bench.figures import Json, Section, Series, Table, milliseconds, ratio, seconds
from bench.kube import Kube, Watch, pods, sandboxes
from bench.pod_bare import BarePods
from bench.ready import is_running
from bench.stage import PODS, Stage
from support.operator import OperatorProcess
from support.pods import POD_IMAGE
from testbed import progress

__all__ = ["measure"]

_LIMIT = 300.0
_POLICY = "pods-fake"
_PAUSE = 0.2
_QUIET = 2.0
"""Seconds without a pass after which an operator that was started again has looked at everything."""


@dataclass
class _Found:
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    """Until the first Sandbox of each round was Ready."""
    work: list[float] = field(default_factory=list)
    """Seconds of processor time for each Sandbox made, by round."""
    memory: dict[str, float] = field(default_factory=dict)
    """Resident, in MiB."""
    writes: float = 0.0
    """Of the operator that was started again."""
    passes: float = 0.0
    """Of the operator that was started again."""
    restart: float = 0.0
    """Seconds from SIGKILL until the next one had looked at everything."""


async def measure(stage: Stage, *, count: int, rounds: int, nodes: int) -> Section:
    """Apply ``count`` Sandboxes at once, ``rounds`` times, in turns with as many bare Pods."""
    found = _Found()
    async with stage.fake_nodes(nodes) as fake, Watch(stage.kube, stage.namespace, pods) as watch:
        policy: Json = {"backend": "pod", "container": {"image": POD_IMAGE}, "pod": fake.placement}
        await stage.policy(_POLICY, **policy)
        bare = BarePods(stage.kube, watch, namespace=stage.namespace, policy=policy)
        async with stage.operator(**PODS) as operator:
            await asyncio.sleep(2)
            found.memory["none"] = machine.memory(operator.process.pid)
            for number in range(rounds):
                names = [f"pod-many-{number}-{one}" for one in range(count)]
                found.theirs.append(await _by_hand(stage, bare, f"bare-many-{number}", count))
                await _apply(stage, operator, watch, names, found)
                progress.say(f"{count} Pods: {found.ours[-1]:.1f} s, and by hand {found.theirs[-1]:.1f} s")
                if number < rounds - 1:
                    await _remove(stage, names)
            await asyncio.sleep(3)
            found.memory["all"] = machine.memory(operator.process.pid)
            before = await _versions(stage.kube, stage.namespace)
            killed = time.monotonic()
            operator.kill()
        async with stage.operator(**PODS) as operator:
            await _look(operator, found)
            found.restart = time.monotonic() - killed - _QUIET
            found.memory["restarted"] = machine.memory(operator.process.pid)
            reading = await counters.read(stage.kube, operator)
            found.writes = reading.own + reading.own_pods + reading.own_deletions + reading.own_networks
            after = await _versions(stage.kube, stage.namespace)
            assert after == before, f"not as before the restart: {set(before.items()) ^ set(after.items())}"
            await _remove(stage, names)
    return _section(found, count=count, nodes=nodes)


async def _apply(
    stage: Stage, operator: OperatorProcess, watch: Watch, names: list[str], found: _Found
) -> None:
    watch.uids.clear()
    used = machine.processor_time(operator.process.pid)
    began = time.monotonic()
    await asyncio.gather(*(stage.create(name, policyRef={"name": _POLICY}) for name in names))
    seen = await asyncio.gather(*(stage.watch.until(name, is_running, limit=_LIMIT) for name in names))
    found.first.append(min(each.at for each in seen) - began)
    found.ours.append(max(each.at for each in seen) - began)
    found.work.append((machine.processor_time(operator.process.pid) - used) / len(names))
    ids = {each.object["status"]["runtime"]["id"] for each in seen}
    listed = (await stage.kube.request("GET", pods(stage.namespace)))["items"]
    owners = Counter(owner["name"] for pod in listed for owner in pod["metadata"]["ownerReferences"])
    assert owners == Counter(names), f"not one for each: {owners - Counter(names)}, {Counter(names) - owners}"
    assert ids == {pod["metadata"]["uid"] for pod in listed}, "a status names a Pod that is not there"
    assert watch.uids == ids, f"{len(watch.uids)} Pods were made for {len(names)} Sandboxes"


async def _by_hand(stage: Stage, bare: BarePods, prefix: str, count: int) -> float:
    names = [f"{prefix}-{one}" for one in range(count)]
    began = time.monotonic()
    await asyncio.gather(*map(bare.make, names))
    seen = await asyncio.gather(*(bare.ready(name, limit=_LIMIT) for name in names))
    await _clear(stage)
    return max(each.at for each in seen) - began


async def _remove(stage: Stage, names: list[str]) -> None:
    await asyncio.gather(*(stage.delete(name, limit=_LIMIT) for name in names))
    await _clear(stage)


async def _clear(stage: Stage) -> None:
    """Remove all Pods at once: what the garbage collector takes its time for is not measured."""
    path = pods(stage.namespace)
    async with asyncio.timeout(_LIMIT):
        while (await stage.kube.request("GET", path, query="?limit=1"))["items"]:
            await stage.kube.request("DELETE", path, query="?gracePeriodSeconds=0")
            await asyncio.sleep(_PAUSE)


async def _versions(kube: Kube, namespace: str) -> dict[tuple[str, str], str]:
    """Return UID and version of every Sandbox and every Pod: whoever writes one changes it."""
    listed: list[Json] = []
    for path in (sandboxes(namespace), pods(namespace)):
        listed += (await kube.request("GET", path))["items"]
    metadata = [found["metadata"] for found in listed]
    return {(each["name"], each["uid"]): each["resourceVersion"] for each in metadata}


async def _look(operator: OperatorProcess, found: _Found) -> None:
    """Wait until the operator leads, which may take until the lease has expired, and has nothing left to do."""
    quiet = 0.0
    async with asyncio.timeout(_LIMIT):
        while quiet < _QUIET:
            await asyncio.sleep(_PAUSE)
            now = await asyncio.to_thread(counters.passes, operator)
            quiet = quiet + _PAUSE if now == found.passes and now else 0.0
            found.passes = now


def _section(found: _Found, *, count: int, nodes: int) -> Section:
    ours, theirs = Series.of(found.ours), Series.of(found.theirs)
    rounds = str(len(found.ours))
    speed = (
        (f"{count} Sandboxes, all Ready", seconds(ours.p50), f"{count / ours.p50:.1f}", rounds),
        (f"{count} Pods by hand, all Ready", seconds(theirs.p50), f"{count / theirs.p50:.1f}", rounds),
        ("ratio", f"{ratio(ours.p50, theirs.p50):.2f}", "", ""),
    )
    upkeep = (
        ("resident memory, no Sandbox", f"{found.memory['none']:.0f} MiB"),
        (f"resident memory, {count} Sandboxes", f"{found.memory['all']:.0f} MiB"),
        (f"resident memory, started again with {count} Sandboxes", f"{found.memory['restarted']:.0f} MiB"),
        ("processor, for each Sandbox made", milliseconds(Series.of(found.work).p50)),
        ("writes of the one that was started again", f"{found.writes:g}"),
        ("its passes", f"{found.passes:g}"),
        ("from SIGKILL until it had looked at everything", seconds(found.restart)),
    )
    return Section(
        name="podMany",
        title=f"{count} at once, as Pods",
        method=f"On {nodes} nodes whose kubelets are played by kwok, so that Pods are Ready at once; scheduler, "
        "controllers and API server are real. All are applied at once, each with a POST of its own; each has to be "
        "Ready, and there has to be exactly one Pod for each, now and at any time before. By hand: as many Pods of the "
        "same spec, each with a POST of its own. The figures are medians of the rounds. Then the operator is killed "
        "(SIGKILL) and started again, waits for the lease to expire, and looks at everything: every Sandbox and every "
        "Pod has to be the same afterwards, to its resourceVersion.",
        tables=(Table(("", "time", "per second", "rounds"), speed), Table(("the operator", ""), upkeep)),
        headline=f"{count} applied at once as Pods: {ratio(ours.p50, theirs.p50):.2f} times as long as {count} Pods "
        f"by hand; the operator then holds {found.memory['all']:.0f} MiB, and a restart writes {found.writes:g} times.",
        verdict=f"None was lost and none made twice. The first was Ready after "
        f"{seconds(Series.of(found.first).p50)}.",
        data={
            "count": count,
            "nodes": nodes,
            "seconds": [round(each, 2) for each in found.ours],
            "secondsByHand": [round(each, 2) for each in found.theirs],
            "ratio": round(ratio(ours.p50, theirs.p50), 3),
            "residentMiB": {when: round(size, 1) for when, size in found.memory.items()},
            "processorSecondsEach": [round(each, 4) for each in found.work],
            "restart": {
                "writes": found.writes,
                "passes": found.passes,
                "seconds": round(found.restart, 2),
            },
        },
    )
