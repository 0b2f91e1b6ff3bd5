"""A very small world for :func:`decide` to live in: Sandboxes, runtimes, a clock, and a process that may die.

The world enforces nothing. A pass is a generator that stops between any two steps (observe, decide, announce, act,
report), so that a test can let anything happen there: a touch, a crash, a passing week. Whatever a step must never do
is asserted where it is done.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from lifecycle.situations import DAY, HOT, HOUR, IDLE, MINUTE, NOW, OLD, POLICY_GONE, SECOND
from sandkeeper.api.conditions import Reason
from sandkeeper.config.windows import Windows
from sandkeeper.lifecycle import (
    Claimant,
    Create,
    DeleteClaimants,
    Desire,
    Failure,
    Moved,
    Observed,
    Plan,
    Preflight,
    PreflightCheck,
    Record,
    Removal,
    Remove,
    Report,
    RuntimeState,
    Setup,
    Situation,
    Start,
    Stop,
    Unreachable,
    Wanted,
    bound_key,
    decide,
    next_failure,
    rebound,
    relies,
)

MAX_HOLD = 6 * HOUR
WINDOWS = Windows(hot=HOT, idle=IDLE, max_age=OLD, delete_after=4 * DAY, max_hold=MAX_HOLD)
CONFIGS = ("v1-plain0", "v1-plain1", "v1-setup0", "v1-setup1")
MOST_STEPS = 14
"""Steps that one pass takes at most; more is a loop."""


@dataclass
class Box:
    """A Sandbox as the API server has it. ``version`` is its resourceVersion."""

    uid: str
    created_at: datetime
    home: str | None
    """The key that it resolves to; None: mode off."""
    config: str
    stopped: bool = False
    paused: bool = False
    resolvable: bool = True
    last_used: str | None = None
    hold_until: str | None = None
    recreate: str | None = None
    wipe: str | None = None
    wiped_for: dict[str, str] = field(default_factory=dict)
    """The values for which there was a fresh copy in truth, and the key whose copy that was."""
    had: set[str] = field(default_factory=set)
    """Those of them with which it was Ready: what is in the copy since is worth something."""
    record: Record = field(default_factory=Record)
    recorded_key: str | None = None
    report: Report | None = None
    version: int = 0
    promises: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    """What a client may rely on: by what it did, which runtime, until when."""

    @property
    def resolved(self) -> str:
        return self.home or f"off-{self.uid}"

    @property
    def ready(self) -> bool:
        return self.report is not None and self.report.readiness.ready is True


@dataclass
class Memory:
    """What a process knows and loses when it dies."""

    setup_done: set[str] = field(default_factory=set)
    fresh: set[str] = field(default_factory=set)
    failures: dict[str, Failure] = field(default_factory=dict)
    preflights: dict[str, PreflightCheck] = field(default_factory=dict)


class World:
    """Everything there is."""

    def __init__(self) -> None:
        self.time = NOW
        """What clients and the API server take for the time."""
        self.error = timedelta()
        """By how much the operator's clock is ahead of it."""
        self.boxes: dict[str, Box] = {}
        self.numbers = count()
        self.runtimes: dict[str, list[Observed]] = {}
        self.memory = Memory()
        self.image_missing = False
        self.engine_down = False
        self.slow = False
        """Runtimes take their time to come up and to go."""
        self.made = 0
        self.preparing: dict[str, Mapping[str, str | None]] = {}
        """By id, runtimes that are to make a copy afresh before they run, as Pods do, and for whom."""
        self.writes = 0
        self.effects = 0
        self.setups: dict[str, int] = {}
        self.set_up: set[str] = set()

    @property
    def now(self) -> datetime:
        return self.time + self.error

    # --- what clients and users do ------------------------------------------------------------------------

    def add(self, home: str | None = "k1", config: str = CONFIGS[0], **given: Any) -> Box:
        uid = f"box{next(self.numbers)}"  # like a UID it never comes again
        box = self.boxes[uid] = Box(uid=uid, created_at=self.time, home=home, config=config, **given)
        return box

    def touch(self, box: Box, *, behind: timedelta = timedelta()) -> None:
        """Say that it is used. Who gets Ready=True in the answer relies on the runtime for the hot window."""
        value = (self.time - behind).isoformat()
        if value != box.last_used:
            box.last_used = value
            box.version += 1
            box.promises.pop("touch", None)  # the last one who writes is the one who is heard
        if self.is_promised(box) and not behind:
            box.promises["touch"] = (box.record.runtime_id or "", self.time + HOT)

    def hold(self, box: Box, length: timedelta | None) -> None:
        box.promises.pop("hold", None)
        box.hold_until = None if length is None else (self.time + length).isoformat()
        box.version += 1
        if length is not None and self.is_promised(box):
            box.promises["hold"] = (box.record.runtime_id or "", self.time + min(length, MAX_HOLD))

    def stop(self, box: Box, *, stopped: bool) -> None:
        """Order it to be stopped, or to run again. Who has it stopped relies on nothing."""
        box.stopped = stopped
        box.version += 1
        box.promises.clear()

    def ask_for_a_fresh_copy(self, box: Box) -> None:
        box.wipe = f"{box.uid}.{box.version}"
        box.version += 1

    @staticmethod
    def is_promised(box: Box) -> bool:
        """Whether the answer to a write says Ready, and nobody ordered otherwise."""
        return box.ready and not box.stopped and box.record.runtime_id is not None

    # --- one pass -----------------------------------------------------------------------------------------

    def run(self, key: str) -> Iterator[str]:
        """Go through one pass for a key, stopping between any two steps."""
        for _ in range(MOST_STEPS):
            situation, seen = self.observe(key)
            plan = decide(situation)
            self.check(plan, situation)
            yield "decided"
            if plan.effect is None:
                yield from self.report(key, plan, seen)
                return
            if isinstance(plan.effect, Remove) and plan.effect.announced:
                done = True
                for uid in plan.reports:
                    if not self.write(key, uid, plan.reports[uid], seen):
                        done = False
                        break
                    yield "announced"
                if not done:
                    return  # somebody used it, or changed it: think again
            self.effects += 1
            yield from self.act(key, plan, situation)
            if key in self.memory.failures and self.memory.failures[key].retry_at > self.now:
                self.memory.preflights.pop(key, None)
        message = f"a pass that does not end: {plan}"
        raise AssertionError(message)

    def observe(self, key: str) -> tuple[Situation, dict[str, int]]:
        observed = self.look(key)
        if isinstance(observed, Observed) and observed.state in {RuntimeState.CREATED, RuntimeState.STARTING}:
            self.memory.fresh.add(observed.id)
        there = observed.id if isinstance(observed, Observed) else None
        bound = [box for box in self.boxes.values() if self.bound(box) == key]
        situation = Situation(
            claimants=tuple(self.claimant(box, key) for box in bound),
            observed=observed,
            now=self.now,
            clock_trusted=abs(self.error) <= 30 * SECOND,
            setup_done=there if there in self.memory.setup_done else None,
            fresh=there if there in self.memory.fresh else None,
            failure=self.memory.failures.get(key),
            preflight=self.memory.preflights.get(key),
        )
        return situation, {box.uid: box.version for box in bound}

    def look(self, key: str) -> Observed | Unreachable | None:
        if self.engine_down:
            return Unreachable(reason=Reason.ENGINE_UNREACHABLE, message="No answer.")
        return self.runtime_at(key)

    def runtime_at(self, key: str | None) -> Observed | None:
        return next(iter(self.runtimes.get(key or "", [])), None)

    def bound(self, box: Box) -> str:
        recorded = box.recorded_key
        if not box.resolvable:
            return recorded or box.resolved
        there = self.runtime_at(recorded) is not None
        return bound_key(resolved=box.resolved, recorded=recorded, runtime_known=there and relies(box.record))

    def claimant(self, box: Box, key: str) -> Claimant:
        desire: Desire
        if not box.resolvable:
            desire = POLICY_GONE
        elif box.home is None or box.resolved != key:
            desire = Moved(to=box.home, windows=WINDOWS)
        else:
            desire = Wanted(
                backend="docker", config_hash=box.config, has_setup="setup" in box.config, windows=WINDOWS
            )
        return Claimant(
            uid=box.uid,
            name=box.uid,
            created_at=box.created_at,
            desire=desire,
            stopped=box.stopped,
            paused=box.paused,
            last_used=box.last_used,
            hold_until=box.hold_until,
            recreate=box.recreate,
            wipe=box.wipe,
            record=box.record if box.recorded_key in {None, key} else rebound(box.record),
            has_status=box.report is not None,
        )

    def report(self, key: str, plan: Plan, seen: dict[str, int]) -> Iterator[str]:
        for uid, report in plan.reports.items():
            if not self.write(key, uid, report, seen):
                return
            yield "reported"

    def write(self, key: str, uid: str, report: Report, seen: dict[str, int]) -> bool:
        """Write one status with its resourceVersion; False: somebody else was faster."""
        box = self.boxes.get(uid)
        if box is None or box.version != seen[uid]:
            return False
        if (box.report, box.record, box.recorded_key) != (report, report.record, key):
            self.writes += 1
            box.version += 1
            seen[uid] = box.version
            if report.record.wipe != box.record.wipe:
                assert report.record.wipe in box.wiped_for, "recorded, but never done"
            box.report, box.record, box.recorded_key = report, report.record, key
        if report.readiness.ready and report.record.runtime_id is not None:
            box.had |= {value for value, where in box.wiped_for.items() if where == key}
        return True

    # --- what effects do ----------------------------------------------------------------------------------

    def act(self, key: str, plan: Plan, situation: Situation) -> Iterator[str]:
        match plan.effect:
            case Create() as creation:
                asking = {each.uid: each.wipe for each in situation.claimants if each.uid in plan.sharers}
                yield from self.create(key, creation, asking)
            case Start(id=runtime_id):
                self.change(key, runtime_id, state=RuntimeState.RUNNING)
            case Stop(id=runtime_id):
                never_ran = runtime_id in self.preparing
                state = RuntimeState.TERMINATING if never_ran else RuntimeState.STOPPED
                self.change(key, runtime_id, state=state, in_use=False)
            case Setup(id=runtime_id):
                yield from self.set_it_up(runtime_id)
            case Preflight(ruler=ruler):
                self.preflight(key, self.boxes.get(ruler))
            case Remove() as removal:
                self.remove(key, removal)
            case DeleteClaimants(uids=uids):
                for uid in uids:
                    self.boxes.pop(uid, None)
            case _:
                raise AssertionError(plan)
        yield "acted"

    def create(self, key: str, effect: Create, asking: Mapping[str, str | None]) -> Iterator[str]:
        """Make a runtime. Whoever asks for a fresh copy does so by what ``asking`` has of each."""
        ruler = self.boxes.get(effect.ruler)
        if ruler is None:
            return
        if effect.wipe and not self.slow:
            self.wipe(key, asking)
            yield "wiped"
        if self.image_missing:
            self.memory.failures[key] = next_failure(
                self.memory.failures.get(key),
                reason=Reason.IMAGE_MISSING,
                message="No such image.",
                now=self.now,
                ran_for=None,
                jitter=1.0,
            )
            return
        self.made += 1
        made = Observed(
            backend="docker",
            id=f"r{self.made}",
            name=key,
            node="engine",
            state=RuntimeState.CREATED,
            created_at=self.time,
            config_hash=ruler.config,
            image="image",
            has_setup="setup" in ruler.config,
            wiped_for=frozenset(effect.wiped_for),
        )
        self.runtimes.setdefault(key, []).append(made)
        assert len(self.runtimes[key]) == 1, "two runtimes for one key"
        if effect.wipe and self.slow:
            self.preparing[made.id] = asking
        self.memory.fresh.add(made.id)
        self.memory.failures.pop(key, None)
        yield "made"
        self.change(key, made.id, state=RuntimeState.STARTING if self.slow else RuntimeState.RUNNING)

    def wipe(self, key: str, asking: Mapping[str, str | None]) -> None:
        for uid, value in asking.items():
            if uid in self.boxes and value is not None:
                self.boxes[uid].wiped_for[value] = key

    def set_it_up(self, runtime_id: str) -> Iterator[str]:
        self.setups[runtime_id] = self.setups.get(runtime_id, 0) + 1
        assert self.setups[runtime_id] == 1, "set up twice"
        self.memory.fresh.discard(runtime_id)
        yield "setting up"
        self.set_up.add(runtime_id)
        self.memory.setup_done.add(runtime_id)

    def preflight(self, key: str, ruler: Box | None) -> None:
        if ruler is None:
            return
        check = PreflightCheck(config_hash=ruler.config)
        if self.image_missing:
            check = replace(
                check, problem=Reason.IMAGE_MISSING, message="No such image.", retry_at=self.now + MINUTE
            )
        self.memory.preflights[key] = check

    def remove(self, key: str, removal: Remove) -> None:
        self.memory.preflights.pop(key, None)
        there = self.runtime_at(key)
        died = there is not None and there.state is RuntimeState.FAILED  # and is of use to nobody
        if removal.removal is not Removal.DEAD and not died:
            self.check_promises(removal.id)
        if self.slow:
            self.change(key, removal.id, state=RuntimeState.TERMINATING, in_use=False)
        else:
            self.runtimes[key] = [each for each in self.runtimes.get(key, []) if each.id != removal.id]

    def change(self, key: str, runtime_id: str, **changes: object) -> None:
        """Change a runtime, if it is still there: an effect always names the one it means."""
        self.runtimes[key] = [
            replace(each, **changes) if each.id == runtime_id else each  # type: ignore[arg-type]
            for each in self.runtimes.get(key, [])
        ]
        self.prepare(key)

    def prepare(self, key: str) -> None:
        """Let what runs have done what it does first."""
        for each in self.runtimes[key]:
            if each.state is RuntimeState.RUNNING and each.id in self.preparing:
                self.wipe(key, self.preparing.pop(each.id))

    # --- what must hold -----------------------------------------------------------------------------------

    def check(self, plan: Plan, situation: Situation) -> None:
        assert plan.wake_at is None or plan.wake_at > situation.now, "a busy loop"
        observed = situation.observed if isinstance(situation.observed, Observed) else None
        assert decide(situation) == plan
        for claimant in situation.claimants:
            assert (claimant.uid in plan.reports) is not claimant.paused
        for report in plan.reports.values():
            if report.readiness.ready and report.readiness.reason is Reason.RUNNING:
                assert observed is not None
                assert observed.state is RuntimeState.RUNNING
                assert not observed.has_setup or observed.id in self.set_up, "ready before it was set up"
        if isinstance(plan.effect, Remove) and plan.effect.announced:
            assert observed is not None
            assert not observed.in_use, "a command of a user was running"
            assert set(plan.reports) == {each.uid for each in situation.claimants if not each.paused}
        if isinstance(plan.effect, DeleteClaimants):
            assert observed is None
        if isinstance(plan.effect, Create):
            self.check_wipe(plan.effect, [each for each in situation.claimants if each.uid in plan.sharers])

    def check_wipe(self, effect: Create, sharers: Sequence[Claimant]) -> None:
        """A copy is made afresh if all who share it ask, each for the first time."""
        asks = {each.uid: each.wipe for each in sharers if each.wipe is not None}
        if effect.wipe:
            assert len(asks) == len(sharers), "somebody shares it who did not ask"
            assert not any(value in self.boxes[uid].had for uid, value in asks.items()), "wiped twice"
        else:
            fresh = [uid for uid, value in asks.items() if value not in self.boxes[uid].wiped_for]
            assert len(fresh) < len(sharers), "asked for by all, and forgotten"

    def check_promises(self, runtime_id: str) -> None:
        """Nothing hot or held goes, but on the order of those who rely on it."""
        for box in self.boxes.values():
            for what, (promised, until) in box.promises.items():
                kept = promised != runtime_id or until <= self.time or box.stopped or not self.counts(box)
                assert kept, f"{box.uid} relied on {runtime_id}: {what} until {until}, now {self.time}"

    def counts(self, box: Box) -> bool:
        """Whether its word counts: it agrees with the oldest that belongs where it is, or is on its way."""
        key = self.bound(box)
        resident = [
            other
            for other in self.boxes.values()
            if self.bound(other) == key and (not other.resolvable or other.resolved == key)
        ]
        if not resident or (box.resolvable and box.resolved != key):
            return True
        ruler = min(resident, key=lambda other: (other.created_at, other.uid))
        return box is ruler or not ruler.resolvable or (box.resolvable and box.config == ruler.config)

    # --- crashes and peace --------------------------------------------------------------------------------

    def crash(self) -> None:
        self.memory = Memory()

    def keys(self) -> list[str]:
        """Every key that somebody would queue: where runtimes are, and where Sandboxes are bound."""
        there = {key for key, runtimes in self.runtimes.items() if runtimes}
        recorded = {box.recorded_key for box in self.boxes.values() if box.recorded_key is not None}
        return sorted(there | recorded | {self.bound(box) for box in self.boxes.values()})

    def nature(self) -> bool:
        """Let what is on its way arrive. Whether anything was."""
        changed = False
        for key, there in self.runtimes.items():
            after = [
                replace(each, state=RuntimeState.RUNNING) if each.state is RuntimeState.STARTING else each
                for each in there
                if each.state is not RuntimeState.TERMINATING
            ]
            changed = changed or after != there
            self.runtimes[key] = after
            self.prepare(key)
        return changed

    def journey(self) -> Iterator[str]:
        """Make passes until a whole round changes nothing, stopping between any two steps."""
        for _ in range(20):
            before = (self.writes, self.effects)
            for key in self.keys():
                yield from self.run(key)
            if not self.nature() and (self.writes, self.effects) == before:
                return
        message = "it does not come to rest"
        raise AssertionError(message)

    def settle(self) -> None:
        for _ in self.journey():
            pass

    def mend(self) -> None:
        """Take away whatever hinders."""
        self.image_missing = self.engine_down = self.slow = False
        self.error = timedelta()
        self.memory.failures.clear()
        self.memory.preflights.clear()


def outcome(world: World) -> dict[str, tuple[object, ...]]:
    """Tell where each Sandbox has come to, leaving out ids."""
    found: dict[str, tuple[object, ...]] = {}
    for box in world.boxes.values():
        report = box.report
        assert report is not None or box.paused
        if report is not None:
            found[box.uid] = (
                report.phase,
                report.readiness,
                report.drift,
                report.next,
                report.wipe_pending,
                box.recorded_key,
                replace(box.record, runtime_id=box.record.runtime_id is not None),  # type: ignore[arg-type]
            )
    return found
