"""Words in which a test states a situation: everything has the most ordinary value unless the test says otherwise."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.config.windows import Windows
from sandkeeper.lifecycle import (
    Claimant,
    Effect,
    Moved,
    Observed,
    Plan,
    Record,
    RuntimeState,
    Situation,
    Unresolved,
    Wanted,
    decide,
)

NOW = datetime(2026, 1, 10, 12, 0, 0, tzinfo=UTC)
TICK = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ZERO = timedelta()

HOT = 5 * MINUTE
IDLE = 24 * HOUR
OLD = 7 * DAY

WINDOWS = Windows(hot=HOT, idle=IDLE, max_age=OLD, delete_after=ZERO, max_hold=DAY)
HASH = "v1-aaaaaaaaaaaaaaaa"
OTHER_HASH = "v1-bbbbbbbbbbbbbbbb"
NEWER_HASH = "v2-cccccccccccccccc"


def ago(length: timedelta) -> datetime:
    return NOW - length


def raw(at: datetime) -> str:
    return at.isoformat()


def windows(**changes: Any) -> Windows:
    return replace(WINDOWS, **changes)


def wanted(
    config_hash: str = HASH, *, backend: str = "docker", setup: bool = False, **changes: Any
) -> Wanted:
    return Wanted(backend=backend, config_hash=config_hash, has_setup=setup, windows=windows(**changes))


def moved(to: str | None = "ns/default/agent:b", **changes: Any) -> Moved:
    return Moved(to=to, windows=windows(**changes))


POLICY_GONE = Unresolved(reason=Reason.POLICY_NOT_FOUND, message="The policy is gone.")


def known(runtime_id: str | None = "r1", **changes: Any) -> Record:
    """The record of a Sandbox that is Ready, used an hour ago: cold, but not idle."""
    ready = Record(
        runtime_id=runtime_id,
        backend="docker",
        node="engine",
        config_hash=HASH,
        last_used_at=ago(HOUR),
    )
    return replace(ready, **changes)


def sandbox(uid: str = "a", **changes: Any) -> Claimant:
    """A Sandbox created two days ago, with a record unless told otherwise."""
    ordinary = Claimant(
        uid=uid,
        name=f"sandbox-{uid}",
        created_at=ago(2 * DAY),
        desire=wanted(),
        record=known(),
        has_status=True,
    )
    return replace(ordinary, **changes)


def newcomer(uid: str = "a", **changes: Any) -> Claimant:
    """A Sandbox that was created a second ago, and of which nothing is recorded."""
    values = {"created_at": ago(SECOND), "record": Record(), "has_status": False, **changes}
    return sandbox(uid, **values)


def runtime(
    runtime_id: str = "r1", *, state: RuntimeState = RuntimeState.RUNNING, **changes: Any
) -> Observed:
    """A runtime that was made two days ago."""
    ordinary = Observed(
        backend="docker",
        id=runtime_id,
        name="sandbox",
        node="engine",
        state=state,
        created_at=ago(2 * DAY),
        config_hash=HASH,
        image="image",
        has_setup=False,
    )
    return replace(ordinary, **changes)


def situation(*claimants: Claimant, **changes: Any) -> Situation:
    """The claimants, with a runtime as wanted unless ``observed`` says otherwise."""
    ordinary = Situation(claimants=claimants, observed=runtime(), now=NOW)
    return replace(ordinary, **changes)


def recorded(before: Situation, plan: Plan, **changes: Any) -> Situation:
    """The situation once the plan's reports were written."""
    claimants = tuple(
        replace(each, record=plan.reports[each.uid].record, has_status=True)
        if each.uid in plan.reports
        else each
        for each in before.claimants
    )
    return replace(before, claimants=claimants, **changes)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of a table: in this situation, this rule matches, and this is done and said of the first claimant."""

    sentence: str
    given: Situation
    rule: str
    effect: Effect | None = None
    phase: Phase | None = None
    ready: bool | None = False
    reason: Reason | None = None
    drift: Reason | None = None

    def check(self) -> Plan:
        plan = decide(self.given)
        assert (plan.rule, plan.effect) == (self.rule, self.effect)
        assert plan.wake_at is None or plan.wake_at > self.given.now
        if self.phase is not None:
            report = plan.reports[self.given.claimants[0].uid]
            said = (report.phase, report.readiness.ready, report.readiness.reason)
            assert said == (self.phase, self.ready, self.reason)
            assert (report.drift.reason if report.drift else None) == self.drift
        # Whether the process dies before the effect or the reports were written already, the same comes of it.
        again = decide(recorded(self.given, plan))
        assert again.effect == plan.effect
        assert again.reports == plan.reports
        return plan


def sentence(case: Case) -> str:
    return case.sentence
