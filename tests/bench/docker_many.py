"""Many containers on the real engine, from the first to the last day of their lives, in turns with bare calls."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bench import counters, machine
from bench.docker_sockets import Sockets
from bench.figures import Json, Section, Series, Table, milliseconds, ratio, seconds
from bench.kube import Seen
from bench.ready import is_running
from bench.stage import WORKERS, Stage
from sandkeeper.api.names import GROUP, VERSION
from sandkeeper.config.operator import DockerSettings
from support.operator import OperatorProcess
from testbed import progress

__all__ = ["measure"]

_LIMIT = 600.0
_POLICY: Final = "docker-many"
_HOT_SECONDS: Final = 1
_DAY: Final = 86400
_COMMAND: Final = ("true",)
_PHASES: Final = ("created", "used", "drifted and replaced", "pruned")

_SETTINGS: Final = DockerSettings()
_MOST_SOCKETS: Final = _SETTINGS.workers + _SETTINGS.setup_workers + 3
"""A thread has one call at a time: those for calls and setups, two that ask whether the engine is there, the events."""

T = TypeVar("T")
V = TypeVar("V")


@dataclass
class _Found:
    """Seconds by phase, one for each round, and what it took."""

    ours: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in _PHASES})
    theirs: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in _PHASES})
    work: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in _PHASES})
    """Seconds of the operator's processor time for each Sandbox."""
    writes: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in _PHASES})
    """Of the operator to Sandboxes, for each Sandbox."""
    sockets: int = 0
    threads: int = 0
    memory: dict[str, float] = field(default_factory=dict)
    """Resident, in MiB."""


class _Calls:
    """Calls to the engine by hand, as many at a time as the operator allows itself."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS)

    async def all(self, call: Callable[[V], T], over: Iterable[V]) -> list[T]:
        """Make one for each."""
        loop = asyncio.get_running_loop()
        return list(await asyncio.gather(*(loop.run_in_executor(self._pool, call, each) for each in over)))

    def close(self) -> None:
        """Wait for the calls that have begun: what they make is to be cleared away."""
        self._pool.shutdown(cancel_futures=True)


async def measure(stage: Stage, *, count: int, rounds: int) -> Section:
    """Let ``count`` Sandboxes live at once, ``rounds`` times, in turns with as many bare containers."""
    found, calls = _Found(), _Calls()
    removals = {"perMinute": 60 * count, "burst": count}
    await stage.policy(_POLICY, hotWindowSeconds=_HOT_SECONDS)
    try:
        async with stage.operator(replacements=removals, prunes=removals) as operator:
            await asyncio.sleep(2)
            found.memory["none"] = machine.memory(operator.process.pid)
            for number in range(rounds):
                await _by_hand(stage, calls, found, count)
                names = [f"docker-{number}-{one}" for one in range(count)]
                async with Sockets(operator.process.pid, stage.engine) as sockets:
                    await _Lives(stage, operator, calls, found, names).live()
                found.sockets = max(found.sockets, sockets.most)
                found.threads = max(found.threads, sockets.most_threads)
                await asyncio.gather(*(stage.delete(name, limit=_LIMIT) for name in names))
    finally:
        calls.close()
    return _section(found, count=count)


async def _by_hand(stage: Stage, calls: _Calls, found: _Found, count: int) -> None:
    """Make the calls that the phases come down to."""

    def run(container: str) -> None:
        _execute(stage, container)

    def replace(container: str) -> str:
        stage.bare.remove(container)
        return stage.bare.make()

    async def timed(phase: str, doing: Awaitable[T]) -> T:
        began = time.monotonic()
        result = await doing
        found.theirs[phase].append(time.monotonic() - began)
        progress.say(f"{count} containers {phase} by hand: {found.theirs[phase][-1]:.1f} s")
        return result

    made = await timed(_PHASES[0], calls.all(lambda _: stage.bare.make(), range(count)))
    await timed(_PHASES[1], calls.all(run, made))
    made = await timed(_PHASES[2], calls.all(replace, made))
    await timed(_PHASES[3], calls.all(stage.bare.remove, made))


def _execute(stage: Stage, container: str) -> None:
    """Run a command, as an agent does; and be sure that it ran."""
    made = stage.engine.exec_create(container, list(_COMMAND))
    stage.engine.exec_start(made["Id"])
    code = stage.engine.exec_inspect(made["Id"])["ExitCode"]
    assert code == 0, f"{_COMMAND} in {container} ended with {code}"


@dataclass(frozen=True)
class _Lives:
    """The same through the operator."""

    stage: Stage
    operator: OperatorProcess
    calls: _Calls
    found: _Found
    names: Sequence[str]

    async def live(self) -> None:
        """Go through the phases."""
        ids = await self._timed(_PHASES[0], self._create())
        assert len(ids) == len(self.stage.containers()) == len(self.names), "not one for each"
        self.found.memory["all"] = machine.memory(self.operator.process.pid)
        await self._timed(_PHASES[1], self._use(ids))
        await asyncio.sleep(_HOT_SECONDS + 1)
        others = await self._timed(_PHASES[2], self._drift(ids))
        assert len(others - ids) == len(self.stage.containers()) == len(self.names), "not one for each"
        await self._timed(_PHASES[3], self._prune())
        left = self.stage.containers()
        assert not left, f"{len(left)} containers were left by a prune"
        await self._edit(prune={"idleSeconds": _DAY}, container={"env": None})

    async def _timed(self, phase: str, doing: Awaitable[T]) -> T:
        found, count, pid = self.found, len(self.names), self.operator.process.pid
        before = await counters.read(self.stage.kube, self.operator)
        used, began = machine.processor_time(pid), time.monotonic()
        result = await doing
        found.ours[phase].append(time.monotonic() - began)
        found.work[phase].append((machine.processor_time(pid) - used) / count)
        after = await counters.read(self.stage.kube, self.operator)
        found.writes[phase].append(after.since(before).own / count)
        progress.say(f"{count} Sandboxes {phase}: {found.ours[phase][-1]:.1f} s")
        return result

    async def _create(self) -> set[str]:
        await asyncio.gather(*(self.stage.create(name, policyRef={"name": _POLICY}) for name in self.names))
        return _ids(await self._until(is_running))

    async def _use(self, ids: set[str]) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        await asyncio.gather(*(self.stage.annotate(name, last_used=now) for name in self.names))
        await self.calls.all(lambda each: _execute(self.stage, each), ids)

    async def _drift(self, ids: set[str]) -> set[str]:
        await self._edit(container={"env": {"COLOUR": "blue"}})
        return _ids(await self._until(lambda seen: is_running(seen) and not _ids([seen]) & ids))

    async def _prune(self) -> None:
        await self._edit(prune={"idleSeconds": 1})
        await self._until(lambda seen: (seen.object.get("status") or {}).get("phase") == "Pruned")

    async def _until(self, wanted: Callable[[Seen], bool]) -> list[Seen]:
        watch = self.stage.watch
        return await asyncio.gather(*(watch.until(name, wanted, limit=_LIMIT) for name in self.names))

    async def _edit(self, **spec: Json) -> None:
        """Edit the policy, once for all."""
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{self.stage.namespace}/agentsandboxpolicies/{_POLICY}"
        await self.stage.kube.request("PATCH", path, body={"spec": spec})


def _ids(seen: Iterable[Seen]) -> set[str]:
    return {each.object["status"]["runtime"]["id"] for each in seen}


def _section(found: _Found, *, count: int) -> Section:
    ours = {phase: Series.of(found.ours[phase]) for phase in _PHASES}
    theirs = {phase: Series.of(found.theirs[phase]) for phase in _PHASES}
    whole, by_hand = (sum(each[phase].p50 for phase in _PHASES) for each in (ours, theirs))
    share = max(0.0, 1 - ratio(by_hand, whole))
    rows = [
        (
            phase,
            seconds(ours[phase].p50),
            seconds(theirs[phase].p50),
            f"{ratio(ours[phase].p50, theirs[phase].p50):.2f}",
            milliseconds(Series.of(found.work[phase]).p50),
            f"{Series.of(found.writes[phase]).p50:.3g}",
        )
        for phase in _PHASES
    ]
    rows.append(("all of it", seconds(whole), seconds(by_hand), f"{ratio(whole, by_hand):.2f}", "", ""))
    upkeep = (
        ("connections to the engine, at most", f"{found.sockets} (bound: {_MOST_SOCKETS})"),
        ("threads, at most", f"{found.threads}"),
        ("resident memory, no Sandbox", f"{found.memory['none']:.0f} MiB"),
        (f"resident memory, {count} Sandboxes", f"{found.memory['all']:.0f} MiB"),
    )
    kept = "kept" if found.sockets <= _MOST_SOCKETS else "broken"
    return Section(
        name="dockerMany",
        title=f"{count} containers, used, drifted and pruned",
        method=f"{count} Sandboxes are applied at once, each with a POST of its own, until all are Ready; then each is "
        "touched and a command run in it; then, once all are cold, their policy is edited, until each has a container "
        "of the new configuration; then the policy says that they are idle, until all are pruned. By hand: the calls "
        f"that this comes down to, {WORKERS} at a time, which is what the operator allows itself: create and start; "
        "the command; remove, create and start; remove. Both run their commands from the benchmark. The budget for "
        "replacements is raised, for the default (60 a minute) would be all that is seen. The seconds are medians of "
        f"{len(found.ours[_PHASES[0]])} rounds, and the operator's processor time and writes are for one Sandbox; what "
        "takes more than two seconds is told in its status, which is a write more. "
        "Connections are those whose other end the engine's socket has, counted every quarter of a second.",
        tables=(
            Table(("", "Sandboxes", "by hand", "ratio", "processor", "writes"), tuple(rows)),
            Table(("the operator", ""), upkeep),
        ),
        headline=f"{count} containers created, used, replaced and pruned: {ratio(whole, by_hand):.2f} times as long as "
        f"by hand, so {share:.0%} of the time is the operator's; it has {found.sockets} connections at most.",
        verdict=f"None was made twice, and none was left. The bound on connections is {kept}: one for each thread.",
        data={
            "count": count,
            "seconds": {phase: [round(each, 2) for each in found.ours[phase]] for phase in _PHASES},
            "secondsByHand": {phase: [round(each, 2) for each in found.theirs[phase]] for phase in _PHASES},
            "ratio": round(ratio(whole, by_hand), 3),
            "operatorsShare": round(share, 3),
            "processorSecondsEach": {
                phase: [round(each, 4) for each in found.work[phase]] for phase in _PHASES
            },
            "writesEach": {phase: [round(each, 2) for each in found.writes[phase]] for phase in _PHASES},
            "connections": {"most": found.sockets, "bound": _MOST_SOCKETS},
            "threads": found.threads,
            "residentMiB": {when: round(size, 1) for when, size in found.memory.items()},
        },
    )
