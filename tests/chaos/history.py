"""What must not be seen at any moment on the way, storm or not: pure, fed with everything that was seen.

That is what a look at the end cannot find: a runtime that went while somebody could rely on it, a second one that was
gone again, a status that went back. Moments are compared with a second to spare, for that is how exactly Kubernetes
tells them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from chaos.model import Key

__all__ = ["History", "ready_of"]

_EXACT = timedelta(seconds=1)
_AHEAD = timedelta(seconds=60)
_FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Promise:
    """A use was answered with Ready=True: the runtime stays until then, unless its own user wants otherwise."""

    uid: str
    name: str
    runtime_id: str
    made: datetime
    until: datetime


@dataclass
class _End:
    """Somebody asked for the end of a runtime; what was only stopped lives again from ``over`` on."""

    at: datetime
    over: datetime = _FOR_EVER


@dataclass
class History:
    """Everything that was seen."""

    complaints: list[str] = field(default_factory=list)
    """What was wrong as soon as it was seen."""
    promises: list[_Promise] = field(default_factory=list)
    _withdrawn: list[tuple[str, datetime]] = field(default_factory=list)
    _excused: dict[str, datetime] = field(default_factory=dict)
    _ends: dict[str, list[_End]] = field(default_factory=dict)
    _statuses: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _living: dict[Key, set[str]] = field(default_factory=dict)
    versions: int = 0
    """How many versions of Sandboxes were looked at."""

    # What users do.

    def promise(self, sandbox: Mapping[str, Any], *, made: datetime, until: datetime) -> None:
        """Take what a use was answered with, if that was that it is ready.

        Whoever has stopped it relies on nothing: it says that it is ready for as long as others share its runtime.
        """
        status, metadata = sandbox.get("status", {}), sandbox["metadata"]
        if sandbox.get("spec", {}).get("state") == "Stopped":
            return
        ready = ready_of(status)
        runtime = (status.get("runtime") or {}).get("id")
        current = ready.get("observedGeneration") == metadata["generation"]
        if ready.get("status") == "True" and runtime is not None and current:
            self.promises.append(_Promise(metadata["uid"], metadata["name"], runtime, made, until))

    def withdraw(self, uid: str, at: datetime) -> None:
        """From now on its user no longer wants it: it is about to be stopped or deleted."""
        self._withdrawn.append((uid, at))

    # What faults do.

    def excuse(self, runtime_id: str, at: datetime) -> None:
        """From now on the end of this runtime is not the operator's doing: a fault is about to take it."""
        self._excused.setdefault(runtime_id, at)

    # What is seen.

    def see_status(self, uid: str, name: str, status: Mapping[str, Any], at: datetime) -> None:
        """Take one more version of a Sandbox's status, seen at this moment.

        A last use that was written by a clock that was ahead has to go back, once that clock is right.
        """
        self.versions += 1
        before = self._statuses.get(uid, {})
        self.complaints += [f"{name}: {what}" for what in _setbacks(before, status)]
        was_ahead = _time(status.get("lastUsedAt")) > at + _AHEAD
        self._statuses[uid] = {**status, "lastUsedAt": before.get("lastUsedAt")} if was_ahead else status

    def see_runtime(self, key: Key, runtime_id: str, *, lives: bool) -> None:
        """Take that a runtime is there and could be used, or no longer."""
        living = self._living.setdefault(key, set())
        if not lives:
            living.discard(runtime_id)
            return
        living.add(runtime_id)
        if len(living) > 1:
            self.complaints.append(f"{key}: {len(living)} runtimes at the same time: {sorted(living)}")

    def see_all(self, there: Iterable[tuple[Key, str]]) -> None:
        """Take that these runtimes, and no others, are there: what became of others was missed."""
        self._living = {}
        for key, runtime_id in there:
            self.see_runtime(key, runtime_id, lives=True)

    def see_removal(self, runtime_id: str, at: datetime) -> None:
        """Take that somebody asked for the end of a runtime at this moment."""
        ends = self._ends.setdefault(runtime_id, [])
        if not ends or ends[-1].over != _FOR_EVER:
            ends.append(_End(at))

    def see_start(self, runtime_id: str, at: datetime) -> None:
        """Take that a runtime was started at this moment: whoever is told of it later was not told too late."""
        for end in self._ends.get(runtime_id, [])[-1:]:
            end.over = min(end.over, at)

    # What comes of it.

    def violations(self) -> list[str]:
        """Tell everything that should never have been."""
        return [*self.complaints, *self._broken()]

    def _broken(self) -> Iterator[str]:
        for promise in self.promises:
            given_up = [at for uid, at in self._withdrawn if uid == promise.uid and at >= promise.made]
            until = min([promise.until, self._excused.get(promise.runtime_id, _FOR_EVER), *given_up])
            for end in self._ends.get(promise.runtime_id, ()):
                if end.at + _EXACT >= promise.made and end.over > promise.made and end.at + _EXACT <= until:
                    yield (
                        f"{promise.runtime_id} was stopped or removed at {_clock(end.at)}, though {promise.name} was "
                        f"told at {_clock(promise.made)} that it is ready, and could rely on it until {_clock(until)}"
                    )


def ready_of(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition Ready; empty where it is not there."""
    for condition in status.get("conditions", []):
        if condition["type"] == "Ready":
            found: Mapping[str, Any] = condition
            return found
    return {}


def _setbacks(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Tell what of a status went back, or got lost."""
    if before.get("recoveries", 0) > after.get("recoveries", 0):
        yield f"recoveries went from {before['recoveries']} to {after.get('recoveries', 0)}"
    for what in ("lastUsedAt", "recreate", "key", "policy"):
        if before.get(what) is not None and what not in after:
            yield f"{what} got lost: it was {before[what]}"
    if _time(before.get("lastUsedAt")) > _time(after.get("lastUsedAt", before.get("lastUsedAt"))):
        yield f"lastUsedAt went from {before['lastUsedAt']} to {after['lastUsedAt']}"
    old, new = before.get("runtime") or {}, after.get("runtime") or {}
    if new and _time(old.get("createdAt")) > _time(new.get("createdAt")):
        yield f"runtime.createdAt went from {old['createdAt']} to {new.get('createdAt')}"


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S.%f}"[:-3]


def _time(text: str | None) -> datetime:
    return datetime.min.replace(tzinfo=UTC) if text is None else datetime.fromisoformat(text)
