"""What should be, by what the users of the Sandboxes did: pure, so that it can be tried on bad worlds made by hand.

The model knows nothing of how the operator works. It has the promises that users are given: each Sandbox has a runtime
of its policy's present configuration, one for all who share a key; or it is stopped, or pruned for it was not used, or
gone; and what others made is as they left it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

__all__ = ["Key", "Model", "Policy", "SeenRuntime", "SeenSandbox", "Wish", "World", "violations"]

_LATE = timedelta(seconds=10)
"""How long after its time something may still be pruned: the operator may have heard of the last use late."""

Key = tuple[str, str]
"""A policy's name and a scope key: what a runtime is for."""


@dataclass
class Policy:
    """A policy as it was written last."""

    mark: str
    """Goes into the environment of every runtime, and changes with each edit."""
    hot: timedelta
    idle: timedelta | None = None
    """Unused for longer than this: pruned."""


@dataclass
class Wish:
    """A Sandbox as its user left it."""

    name: str
    uid: str
    agent: str
    policy: str
    used_at: datetime
    """The last use of which the API server said that it has it."""
    stopped: bool = False
    held_until: datetime | None = None
    recreate: str | None = None

    @property
    def key(self) -> Key:
        """The key of its runtime."""
        return self.policy, f"agent:{self.agent}"


@dataclass
class Model:
    """Everything that the users did, as the API server acknowledged it."""

    policies: dict[str, Policy] = field(default_factory=dict)
    wishes: dict[str, Wish] = field(default_factory=dict)
    """By name."""
    bystanders: dict[str, str] = field(default_factory=dict)
    """What belongs to others: what it was like when it was made."""

    def rests_at(self) -> datetime | None:
        """Tell after which moment nothing is due any more: no hot window ends, no hold, no idle time."""
        moments = []
        for wish in self.wishes.values():
            policy = self.policies[wish.policy]
            moments.append(wish.used_at + policy.hot)
            moments += [wish.used_at + policy.idle + _LATE] if policy.idle else []
            moments += [wish.held_until] if wish.held_until else []
        return max(moments, default=None)


@dataclass(frozen=True, kw_only=True)
class SeenSandbox:
    """What the API server has of a Sandbox."""

    name: str
    uid: str
    deleting: bool = False
    ready: str = ""
    """The status of the condition: True, False, Unknown; empty where it is not there."""
    reason: str = ""
    is_current: bool = True
    """The status is about the spec that is there."""
    runtime_id: str | None = None
    config_hash: str | None = None
    desired_config_hash: str | None = None
    recreate: str | None = None
    """The request that was honoured last."""


@dataclass(frozen=True, kw_only=True)
class SeenRuntime:
    """A Pod or a container that is marked as ours."""

    id: str
    name: str
    key: Key
    running: bool
    """It runs and can be used."""
    ending: bool = False
    """It is on its way out."""
    mark: str | None = None
    """What its environment has of its policy's mark."""

    def __str__(self) -> str:
        return f"{self.name} ({'going' if self.ending else 'running' if self.running else 'not running'})"


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything, read at about the same time."""

    now: datetime
    sandboxes: Sequence[SeenSandbox]
    runtimes: Sequence[SeenRuntime]
    bystanders: Mapping[str, str]


def violations(model: Model, world: World) -> list[str]:
    """Tell everything that is not as it should be, once there was time enough."""
    return [
        *_presence(model, world),
        *_each_key(model, world),
        *_orphans(model, world),
        *_bystanders(model, world),
    ]


def _presence(model: Model, world: World) -> Iterator[str]:
    seen = {sandbox.name: sandbox for sandbox in world.sandboxes}
    for name, wish in model.wishes.items():
        if name not in seen:
            yield f"{name} is lost: nobody deleted it"
        elif seen[name].uid != wish.uid:
            yield f"{name} is another one than was made"
    for name, sandbox in seen.items():
        if name not in model.wishes:
            yield f"{name} is still there, though it was deleted" + (" (going)" if sandbox.deleting else "")


def _each_key(model: Model, world: World) -> Iterator[str]:
    seen = {sandbox.name: sandbox for sandbox in world.sandboxes}
    sharing: dict[Key, list[Wish]] = {}
    for wish in model.wishes.values():
        sharing.setdefault(wish.key, []).append(wish)
    for key, wishes in sharing.items():
        runtimes = [runtime for runtime in world.runtimes if runtime.key == key]
        sandboxes = [(wish, seen[wish.name]) for wish in wishes if wish.name in seen]
        if all(wish.stopped for wish in wishes):
            yield from _at_rest(key, runtimes)
            yield from _told(sandboxes, "False", {"Stopped"})
        else:
            yield from _running_or_pruned(model.policies[key[0]], key, sandboxes, runtimes, world.now)


def _running_or_pruned(
    policy: Policy,
    key: Key,
    sandboxes: Sequence[tuple[Wish, SeenSandbox]],
    runtimes: Sequence[SeenRuntime],
    now: datetime,
) -> Iterator[str]:
    """Tell what is wrong with what is wanted: that it runs, or, some time after it was used last, that it does not."""
    served = list(_served(policy, key, sandboxes, runtimes))
    pruned = [f"{key}: pruned, but {runtime} is there" for runtime in runtimes]
    pruned += _told(sandboxes, "False", {"Idle"})
    overdue = _overdue(policy, [wish for wish, _ in sandboxes], now)
    if overdue <= timedelta():
        yield from served
    elif served or overdue > _LATE:
        yield from pruned


def _overdue(policy: Policy, wishes: Sequence[Wish], now: datetime) -> timedelta:
    """Tell for how long nobody has used it longer than it is kept; not positive: it has to run."""
    held = any(wish.held_until and wish.held_until > now for wish in wishes)
    if policy.idle is None or held or not wishes:
        return timedelta()
    return now - max(wish.used_at for wish in wishes) - policy.idle


def _at_rest(key: Key, runtimes: Sequence[SeenRuntime]) -> Iterator[str]:
    for runtime in runtimes:
        if runtime.running or runtime.ending:
            yield f"{key}: stopped, but {runtime} runs"
    if len(runtimes) > 1:
        yield f"{key}: {len(runtimes)} runtimes"


def _told(
    sandboxes: Sequence[tuple[Wish, SeenSandbox]], ready: str, reasons: frozenset[str] | set[str]
) -> Iterator[str]:
    for wish, sandbox in sandboxes:
        if sandbox.ready != ready or sandbox.reason not in reasons:
            wanted = f"{ready}/{'|'.join(sorted(reasons))}"
            yield f"{wish.name}: Ready is {sandbox.ready}/{sandbox.reason}, and should be {wanted}"
        elif not sandbox.is_current:
            yield f"{wish.name}: its status is about an older spec"


def _served(
    policy: Policy, key: Key, sandboxes: Sequence[tuple[Wish, SeenSandbox]], runtimes: Sequence[SeenRuntime]
) -> Iterator[str]:
    yield from _told(sandboxes, "True", {"Running"})
    if len(runtimes) != 1:
        yield f"{key}: {len(runtimes)} runtimes where there should be one: {[str(one) for one in runtimes]}"
    for runtime in runtimes:
        if not runtime.running or runtime.ending:
            yield f"{key}: {runtime.name} does not run"
        if runtime.mark != policy.mark:
            yield f"{key}: {runtime.name} was made from edit {runtime.mark}, and the policy is at {policy.mark}"
    there = {runtime.id for runtime in runtimes}
    for wish, sandbox in sandboxes:
        if sandbox.runtime_id not in there:
            yield f"{wish.name}: its status names {sandbox.runtime_id}, and there is {sorted(there)}"
        if sandbox.config_hash != sandbox.desired_config_hash:
            yield f"{wish.name}: {sandbox.config_hash} runs, {sandbox.desired_config_hash} is wanted"
        if wish.recreate is not None and sandbox.recreate != wish.recreate:
            yield f"{wish.name}: recreate={wish.recreate} was not honoured"


def _orphans(model: Model, world: World) -> Iterator[str]:
    wanted = {wish.key for wish in model.wishes.values()}
    for runtime in world.runtimes:
        if runtime.key not in wanted:
            yield f"{runtime} is an orphan: no Sandbox has the key {runtime.key}"
    for name, count in Counter(runtime.id for runtime in world.runtimes).items():
        if count > 1:
            yield f"{name} is there {count} times"


def _bystanders(model: Model, world: World) -> Iterator[str]:
    for name, was in model.bystanders.items():
        found = world.bystanders.get(name)
        if found is None:
            yield f"{name} is somebody else's, and it is gone"
        elif found != was:
            yield f"{name} is somebody else's, and it was touched: {was} before, {found} now"
