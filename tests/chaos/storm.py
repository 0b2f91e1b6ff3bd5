"""One storm: users and faults at the same time, then calm; and a look at everything until it is as it should be."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Final

from chaos.faults import Fault, MissedError
from chaos.model import violations
from chaos.scene import Scene, now
from chaos.users import Users
from chaos.witness import witnessed
from testbed import progress

__all__ = ["Group", "Outcome", "Storm", "run"]

_PAUSE: Final = 1.0
_LASTING: Final = 180.0
_ROW: Final = 330.0
"""Seconds: the longest that is waited after many failures in a row, of which a storm of some minutes has made some."""
_FEW: Final = 8
_BEGIN_SECONDS: Final = 90.0
_MEMORY_FACTOR: Final = 1.5
_MEMORY_MORE: Final = 30.0
_MORE_DESCRIPTORS: Final = 25


@dataclass(frozen=True)
class Group:
    """Faults of which one is there at a time; those of another group may be there as well."""

    faults: Sequence[Fault]
    gap: tuple[float, float]
    """Seconds from one to the next."""


@dataclass(frozen=True, kw_only=True)
class Storm:
    """What is done to whom."""

    name: str
    title: str
    """One sentence: what is broken."""
    scene: Callable[[], AbstractAsyncContextManager[Scene]]
    groups: Sequence[Group]
    lasting: Sequence[Group] = ()
    """More of them, for a storm of some minutes: what the operator notices only after one."""
    patience: float = 120
    """Seconds after the last fault within which everything has to be as it should be; more in a storm of minutes."""
    crowd: float = 1
    """How many of the Sandboxes that are asked for there are; real containers cost more than Pods on fake nodes."""


@dataclass(kw_only=True)
class Outcome:
    """The figures of one storm."""

    storm: str
    seed: int
    seconds: float
    faults: Counter[str] = field(default_factory=Counter)
    """That hit."""
    missed: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    sandboxes: int = 0
    """That were ever made."""
    held: int = 0
    """That are there at the end."""
    versions: int = 0
    """Versions of Sandboxes that the witness looked at."""
    promises: int = 0
    """Uses that were answered with Ready, and so had to be kept."""
    violations: list[str] = field(default_factory=list)
    healed_seconds: float = 0
    """From the last fault until everything was as it should be."""
    memory_before: float = 0
    memory_after: float = 0
    descriptors_before: int = 0
    descriptors_after: int = 0
    errors: int = 0
    """Errors in the operator's log that nobody had thought of."""
    log: str = ""
    """Where the operator's log is kept, if there are violations."""


async def run(storm: Storm, *, seed: int, seconds: float, sandboxes: int) -> Outcome:
    """Let it storm for some seconds over about so many Sandboxes."""
    outcome = Outcome(storm=storm.name, seed=seed, seconds=seconds)
    async with storm.scene() as scene:
        most = max(_FEW, round(sandboxes * storm.crowd))
        users = Users(scene, random.Random(f"{seed}/users"), most=most)  # noqa: S311 - to be repeated
        scene.model.bystanders.update(await scene.side.make_bystanders())
        await scene.operator.start()
        async with witnessed(scene):
            await users.begin()
            await _settle(scene, outcome, within=_BEGIN_SECONDS)
            if outcome.violations:
                outcome.log = scene.keep_log(storm.name, seed)
                return outcome
            progress.say(
                f"{storm.name}: {len(scene.model.wishes)} Sandboxes are as they should be; the storm begins"
            )
            outcome.memory_before = scene.operator.memory
            outcome.descriptors_before = scene.operator.descriptors
            await _rage(storm, scene, users, outcome)
            progress.say(f"{storm.name}: calm after {sum(outcome.faults.values())} faults")
            await scene.operator.start()
            rows = _ROW if seconds >= _LASTING else 0
            await _settle(scene, outcome, within=storm.patience + rows)
            await _look_again(scene, outcome)
        _count(scene, users, outcome)
    return outcome


async def _rage(storm: Storm, scene: Scene, users: Users, outcome: Outcome) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(outcome.seconds, over.set)
    async with asyncio.TaskGroup() as group:
        group.create_task(users.run(over))
        lasting = storm.lasting if outcome.seconds >= _LASTING else ()
        for number, struck in enumerate((*storm.groups, *lasting)):
            chance = random.Random(f"{outcome.seed}/faults/{number}")  # noqa: S311 - to be repeated
            group.create_task(_strike(scene, struck, chance=chance, outcome=outcome, over=over))


async def _strike(
    scene: Scene,
    group: Group,
    *,
    chance: random.Random,
    outcome: Outcome,
    over: asyncio.Event,
) -> None:
    """Strike until it is over, each fault once before any comes again: so a short storm has all of them."""
    while not over.is_set():
        for fault in chance.sample(group.faults, len(group.faults)):
            with suppress(TimeoutError):
                async with asyncio.timeout(chance.uniform(*group.gap)):
                    await over.wait()
                return
            try:
                await fault.strike(scene, chance)
                outcome.faults[fault.name] += 1
            except MissedError:
                outcome.missed[fault.name] += 1


async def _settle(scene: Scene, outcome: Outcome, *, within: float) -> None:
    """Look until everything is as it should be; what is not by then stays in the outcome."""
    began = time.monotonic()
    while True:
        outcome.violations = violations(scene.model, await scene.snapshot())
        if not scene.operator.alive:
            outcome.violations.append("the operator does not run")
        outcome.healed_seconds = time.monotonic() - began
        if not outcome.violations or outcome.healed_seconds > within:
            return
        await asyncio.sleep(_PAUSE)


async def _look_again(scene: Scene, outcome: Outcome) -> None:
    """Look once more when nothing is due any more: what was hot is cold by then, and what is idle pruned."""
    rests_at = scene.model.rests_at()
    if outcome.violations or rests_at is None:
        return
    await asyncio.sleep(max(0.0, (rests_at - now()).total_seconds()) + _PAUSE)
    healed = outcome.healed_seconds
    await _settle(scene, outcome, within=_BEGIN_SECONDS)
    outcome.healed_seconds = healed


def _count(scene: Scene, users: Users, outcome: Outcome) -> None:
    outcome.actions, outcome.sandboxes = users.actions, users.made
    outcome.held, outcome.versions = len(scene.model.wishes), scene.history.versions
    outcome.promises, outcome.errors = len(scene.history.promises), scene.operator.errors
    outcome.violations += [*scene.history.violations(), *scene.operator.ends]
    if scene.operator.alive:
        outcome.memory_after = scene.operator.memory
        outcome.descriptors_after = scene.operator.descriptors
    if outcome.memory_after > outcome.memory_before * _MEMORY_FACTOR + _MEMORY_MORE:
        outcome.violations.append(
            f"memory is not back: {outcome.memory_before:.0f} MiB before, {outcome.memory_after:.0f} MiB after"
        )
    if outcome.descriptors_after > outcome.descriptors_before + _MORE_DESCRIPTORS:
        outcome.violations.append(
            f"descriptors are not back: {outcome.descriptors_before} before, {outcome.descriptors_after} after"
        )
    outcome.log = scene.keep_log(outcome.storm, outcome.seed) if outcome.violations else ""
