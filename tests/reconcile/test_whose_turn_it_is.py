"""Who is replaced next: the coldest, so many at once, at the policy's pace, and nobody after one that failed."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sandkeeper.api.conditions import Reason
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import OperatorConfig, RemovalRate
from sandkeeper.reconcile.claims import Claims
from sandkeeper.reconcile.removals import RemovalBudget
from sandkeeper.reconcile.rollouts import Progress, Rollouts

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
MADE = "2026-01-09T12:00:00Z"
POLICY = "team/default"
QUICK = RemovalRate(per_minute=60_000, burst=10_000)


def shown(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


class Scene:
    """Sandboxes as the API server has them, each with a runtime of its own, and the rollouts over them."""

    def __init__(self, *, rate: RemovalRate = QUICK, forbidden: bool = False, **policy: Any) -> None:
        self.now = NOW
        self.version = 0
        self.asked: list[str] = []
        """Whose keys were put into the queue, in that order."""
        self.told_later: list[str] = []
        self.claims = Claims(OperatorConfig(), enqueue=lambda _: None)
        self.rate: RemovalBudget[RuntimeKey] = RemovalBudget(rate)
        self.forbidden = forbidden
        self.rollouts = self.begin()
        self.claims.namespaces.put(self.object("team", None))
        self.spec: dict[str, Any] = {}
        self.policy(**policy)

    def begin(self) -> Rollouts:
        """Begin anew, as a process does that knows nothing but what statuses say."""
        self.rollouts = Rollouts(
            self.claims,
            rate=self.rate,
            enqueue=lambda key: self.asked.append(key.scope.removeprefix("agent:")),
            enqueue_later=lambda key: self.told_later.append(key.scope.removeprefix("agent:")),
            now=lambda: self.now,
            epoch=2,
            forbidden=self.forbidden,
        )
        for key in self.claims.keys():  # noqa: SIM118 - not a mapping
            self.rollouts.mark(key)
        self.rollouts.lead(leading=True)
        return self.rollouts

    def object(self, name: str, namespace: str | None = "team", **rest: Any) -> dict[str, Any]:
        self.version += 1
        metadata = {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(self.version),
            "creationTimestamp": MADE,
            "annotations": rest.pop("annotations", {}),
        }
        return {"metadata": metadata | ({"namespace": namespace} if namespace else {}), **rest}

    def policy(self, **spec: Any) -> None:
        self.spec = spec
        self.claims.policies.put(self.object("default", spec=spec))

    def change(self, value: str) -> None:
        """Edit the policy, so that every runtime is out of date."""
        self.policy(**{**self.spec, "container": {"env": {"A": value}}})

    def put(self, name: str, status: dict[str, Any], **rest: Any) -> None:
        self.claims.sandboxes.put(self.object(name, spec={"agentId": name}, status=status, **rest))

    def key(self, name: str) -> RuntimeKey:
        return RuntimeKey("team", "uid-team", "default", f"agent:{name}")

    def wanted(self, name: str) -> str:
        (claim,) = self.claims.of(self.key(name))
        return claim.resolution.config_hash or ""

    def ready(
        self, name: str, *, idle: timedelta = timedelta(hours=1), made: str = MADE, **rest: Any
    ) -> None:
        """It runs, made from what is wanted now."""
        if not self.claims.of(self.key(name)):
            self.put(name, {})
        runtime = {"backend": "docker", "name": name, "id": f"id-{name}", "createdAt": made}
        status = {
            "policy": POLICY,
            "key": f"agent:{name}",
            "runtime": runtime,
            "configHash": self.wanted(name),
        }
        last = {"lastUsedAt": shown(self.now - idle), "desiredConfigHash": self.wanted(name)}
        self.put(name, {**status, **last}, **rest)

    def status(self, name: str) -> dict[str, Any]:
        found = self.claims.sandboxes.get(("team", name))
        assert found is not None
        return found.status.model_dump(mode="json", by_alias=True, exclude_none=True)

    def away(self, name: str, reason: str = "", **rest: Any) -> None:
        """Its removal was announced, and the new one is not ready; or it failed, for that reason."""
        said = {"removing": f"id-{name}", "desiredConfigHash": self.wanted(name), **rest}
        conditions = [] if not reason else [condition("ReplacementFailed", reason)]
        self.put(name, {**self.status(name), **said, "conditions": conditions})

    def kept(self, name: str) -> None:
        """Another cannot be made for it."""
        said = {"desiredConfigHash": self.wanted(name)}
        conditions = [condition("Drifted", Reason.REPLACEMENT_BLOCKED)]
        self.put(name, {**self.status(name), **said, "conditions": conditions})

    def ask(self, name: str, *, removing: bool = True) -> Any:
        assert self.rollouts.plans(self.key(name))
        return self.rollouts.ask(self.key(name), removing=removing)

    def new_ones(self) -> list[str]:
        """Who has been given leave since this was last asked."""
        self.rollouts.advance()
        found, self.asked = self.asked, []
        return found

    @property
    def progress(self) -> Progress:
        self.rollouts.advance()
        return self.rollouts.progress(POLICY)


def condition(kind: str, reason: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": MADE}


def crowd(count: int, **given: Any) -> Scene:
    """Have so many, s0 the coldest, of which the policy was changed since they were made."""
    scene = Scene(**given)
    for number in range(count):
        scene.ready(f"s{number}", idle=timedelta(hours=count - number))
    scene.change("b")
    return scene


def test_the_coldest_go_first_and_the_next_when_one_is_ready() -> None:
    scene = crowd(5, rollout={"maxUnavailable": 2})

    assert scene.new_ones() == ["s0", "s1"]
    assert scene.ask("s0") is None
    waiting = scene.ask("s4")
    assert (waiting.reason, "turn" in waiting.message) == (None, True)
    scene.away("s0")
    assert scene.new_ones() == []
    scene.ready("s0", made=shown(NOW))
    assert scene.new_ones() == ["s2"]
    scene.away("s1")
    scene.away("s2")
    assert scene.new_ones() == []
    counts = scene.progress.counts
    assert (counts.total, counts.current, counts.drifted, counts.replacing) == (5, 1, 2, 2)
    assert scene.progress.replaced == 1


def test_one_that_asks_is_given_leave_at_once_where_it_is_the_coldest() -> None:
    scene = crowd(4)

    assert scene.ask("s0") is None
    assert scene.asked == ["s0"]
    assert scene.ask("s1") is not None
    assert scene.asked == ["s0"]


def test_who_does_not_want_to_go_lets_the_next_one() -> None:
    scene = crowd(4)

    assert scene.new_ones() == ["s0"]
    scene.rollouts.settled(scene.key("s0"), waits=False)  # somebody holds it
    assert scene.new_ones() == ["s1"]
    scene.rollouts.settled(scene.key("s1"), waits=False)
    assert scene.new_ones() == ["s2"]
    # It asks when nobody holds it any more, and goes before those that are warmer.
    assert scene.ask("s0") is not None
    scene.rollouts.settled(scene.key("s2"), waits=False)
    assert scene.new_ones() == ["s0"]


def test_who_waits_stays_in_the_line() -> None:
    scene = crowd(2)
    assert scene.new_ones() == ["s0"]
    assert scene.ask("s1") is not None
    scene.rollouts.settled(scene.key("s1"), waits=True)
    scene.away("s0")
    scene.ready("s0")
    assert scene.new_ones() == ["s1"]


@pytest.mark.parametrize(
    "kind", ["hot", "paused", "stopped", "current", "held back", "pruned", "unresolved", "newer"]
)
def test_who_is_not_to_go_is_not_asked(kind: str) -> None:
    scene = crowd(0, rollout={"maxUnavailable": 9})
    scene.change("a")
    scene.ready("one", idle=timedelta(seconds=30) if kind == "hot" else timedelta(hours=1))
    drifted = scene.status("one")
    if kind != "current":
        scene.change("b")
    match kind:
        case "paused":
            scene.put("one", drifted, annotations={"sandkeeper.dev/paused": "yes"})
        case "stopped":
            stopped = scene.object("one", spec={"agentId": "one", "state": "Stopped"}, status=drifted)
            scene.claims.sandboxes.put(stopped)
        case "held back":
            scene.policy(**{**scene.spec, "rollout": {"paused": True}})
        case "pruned":
            scene.put("one", {**drifted, "pruned": {"at": MADE, "reason": "Idle"}})
        case "unresolved":
            scene.policy(**scene.spec, backend="pod")
        case "newer":
            scene.put("one", {**drifted, "configHash": "v9-0123456789abcdef"})
    assert scene.new_ones() == []
    counts = scene.progress.counts
    counted = (counts.total, counts.current, counts.drifted)
    expected = {"current": (1, 1, 0), "newer": (1, 1, 0), "unresolved": (1, 0, 0)}
    gone = dict.fromkeys(("stopped", "pruned"), (0, 0, 0))
    assert counted == {**expected, **gone}.get(kind, (1, 0, 1))


@pytest.mark.parametrize("how", ["away", "kept"])
def test_one_that_fails_stops_it_and_takes_leave_back_and_all_hear_of_it(how: str) -> None:
    scene = crowd(5, rollout={"maxUnavailable": 2})
    assert scene.new_ones() == ["s0", "s1"]
    if how == "away":
        scene.away("s0", Reason.SETUP_FAILED)
    else:
        scene.kept("s0")
        scene.rollouts.settled(scene.key("s0"), waits=False)

    assert scene.new_ones() == []
    assert sorted(scene.told_later) == ["s1", "s2", "s3", "s4"]
    waiting = scene.ask("s1")
    assert waiting.reason is Reason.ROLLOUT_BLOCKED
    reason = "SetupFailed" if how == "away" else "ReplacementBlocked"
    assert f": s0 ({reason})." in waiting.message
    assert scene.progress.stopped
    assert scene.ask("s0", removing=False) is None, "what failed may try again"
    scene.told_later.clear()

    if how == "away":
        scene.ready("s0")
    else:
        assert scene.ask("s0") is None, "it can be made by now"
        scene.away("s0")
    assert scene.new_ones() == (["s1", "s2"] if how == "away" else ["s1"])
    assert {"s3", "s4"} <= set(scene.told_later)


def test_another_edit_lets_it_go_on() -> None:
    scene = crowd(3)
    scene.new_ones()
    scene.away("s0", Reason.SETUP_FAILED)
    assert scene.new_ones() == []
    scene.change("c")
    assert not scene.progress.stopped
    assert scene.new_ones() == [], "one may be away, and is"
    scene.ready("s0")
    assert scene.new_ones() == ["s1"]


def test_of_two_that_failed_and_can_be_made_by_now_one_goes_after_the_other() -> None:
    scene = crowd(3, rollout={"maxUnavailable": 2})
    assert scene.new_ones() == ["s0", "s1"]
    for name in ("s0", "s1"):
        scene.kept(name)
        scene.rollouts.settled(scene.key(name), waits=False)
    assert scene.new_ones() == []
    waiting = scene.ask("s0")
    assert waiting.reason is Reason.ROLLOUT_BLOCKED
    assert "s1" in waiting.message
    # It says so now, and is no longer one that failed.
    scene.put("s0", {**scene.status("s0"), "conditions": [condition("Drifted", Reason.ROLLOUT_BLOCKED)]})
    assert scene.ask("s1") is None
    scene.away("s1")
    assert scene.new_ones() == ["s0"]


def test_so_many_failures_are_put_up_with_as_the_policy_says() -> None:
    scene = crowd(5, rollout={"maxUnavailable": 1, "maxFailed": 1})
    scene.new_ones()
    scene.away("s0", Reason.SETUP_FAILED)
    assert scene.new_ones() == ["s1"]
    scene.away("s1")
    assert scene.new_ones() == []
    scene.away("s1", Reason.SETUP_FAILED)
    assert scene.new_ones() == []
    assert scene.progress.stopped
    scene.policy(**{**scene.spec, "rollout": {"maxUnavailable": 1, "maxFailed": 2}})
    assert scene.new_ones() == ["s2"]


def test_the_policys_own_pace_is_even_and_below_the_operators() -> None:
    scene = crowd(5, rollout={"maxUnavailable": 5, "perMinute": 6})
    assert scene.new_ones() == ["s0"]
    scene.now += timedelta(seconds=9.9)
    assert scene.new_ones() == []
    scene.now += timedelta(seconds=0.2)
    assert scene.new_ones() == ["s1"]
    scene.rollouts.settled(scene.key("s1"), waits=False)  # it did not want to
    assert scene.new_ones() == ["s2"]

    slow = crowd(3, rate=RemovalRate(per_minute=6, burst=1), rollout={"maxUnavailable": 3, "perMinute": 600})
    assert slow.new_ones() == ["s0"]
    slow.now += timedelta(seconds=9.9)
    assert slow.new_ones() == []
    slow.now += timedelta(seconds=0.2)
    assert slow.new_ones() == ["s1"]


def test_nobody_goes_where_removals_are_forbidden() -> None:
    scene = crowd(3, forbidden=True)
    assert scene.new_ones() == []
    assert scene.progress.counts.drifted == 3


def test_who_begins_anew_counts_who_is_away_by_the_statuses() -> None:
    scene = crowd(5, rollout={"maxUnavailable": 2})
    assert scene.new_ones() == ["s0", "s1"]
    scene.away("s0")
    scene.begin()  # s1 had leave, and had not begun
    assert scene.new_ones() == ["s1"]
    scene.away("s1", Reason.SETUP_FAILED)
    scene.begin()
    assert scene.new_ones() == []
    assert scene.progress.stopped


def test_a_rollout_begins_when_something_is_out_of_date_and_nothing_was() -> None:
    scene = crowd(2)
    assert scene.progress.started_at == NOW
    scene.now += timedelta(hours=1)
    scene.change("c")
    assert scene.progress.started_at == NOW, "it goes on"
    for name in ("s0", "s1"):
        scene.ready(name, made=shown(scene.now))
    assert scene.progress.replaced == 2
    scene.change("d")
    assert scene.progress.started_at == scene.now
    assert scene.progress.replaced == 0


@pytest.mark.parametrize("current", ["s0", "s1"], ids=["counted first", "counted last"])
def test_when_it_began_is_read_from_the_policys_status(current: str) -> None:
    scene = crowd(2)
    scene.ready(current, made=shown(NOW))
    began = NOW - timedelta(minutes=5)
    told = {"total": 2, "current": 1, "drifted": 1, "startedAt": shown(began)}
    scene.claims.policies.put(scene.object("default", spec=scene.spec, status={"rollout": told}))
    scene.now += timedelta(hours=1)
    scene.begin()
    assert scene.progress.started_at == began
    assert scene.progress.replaced == 1


def test_the_counts_are_told_by_who_leads() -> None:
    scene = crowd(2)
    expected = {"total": 2, "current": 0, "drifted": 2, "replacing": 0, "replaced": 0, "blocked": 0}
    scene.rollouts.advance()
    assert list(scene.rollouts.by_state()) == [("default", expected)]
    scene.rollouts.lead(leading=False)
    assert list(scene.rollouts.by_state()) == []
    assert scene.rollouts.touched == {POLICY}


class Rolling(RuleBasedStateMachine):
    """Whatever happens, the next ones are the coldest of those that may go, never more than may be away."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(rollout={"maxUnavailable": 2})
        self.edits = 0
        self.names: list[str] = []
        self.has_leave: set[str] = set()
        """As the model has it."""

    @rule(idle=st.integers(0, 600))
    def one_comes(self, idle: int) -> None:
        self.names.append(f"s{len(self.names)}")
        self.scene.ready(self.names[-1], idle=timedelta(minutes=idle))

    @rule()
    def the_policy_is_edited(self) -> None:
        self.edits += 1
        self.scene.change(str(self.edits))

    @rule(amount=st.sampled_from([1, 2, 5, "10%", "50%", "100%"]), failed=st.integers(0, 2))
    def its_budget_is_edited(self, amount: int | str, failed: int) -> None:
        rollout = {"maxUnavailable": amount, "maxFailed": failed}
        self.scene.policy(**{**self.scene.spec, "rollout": rollout})

    @rule(seconds=st.sampled_from([1, 60, 400]))
    def time_passes(self, seconds: int) -> None:
        self.scene.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), idle=st.integers(0, 600))
    def one_is_used(self, data: st.DataObject, idle: int) -> None:
        name = data.draw(st.sampled_from(self.names))
        used = {**self.scene.status(name), "lastUsedAt": shown(self.scene.now - timedelta(minutes=idle))}
        self.scene.put(name, used)

    @precondition(lambda self: self.has_leave)
    @rule(data=st.data(), how=st.sampled_from(["goes", "stays", "cannot be made"]))
    def one_with_leave_is_looked_at(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.has_leave)))
        self.has_leave.discard(name)
        if how == "goes":
            self.scene.away(name)
        else:
            if how == "cannot be made":
                self.scene.kept(name)
            self.scene.rollouts.settled(self.scene.key(name), waits=False)

    @precondition(lambda self: self.gone)
    @rule(data=st.data(), fails=st.booleans())
    def a_new_one_is_ready_or_fails(self, data: st.DataObject, *, fails: bool) -> None:
        name = data.draw(st.sampled_from(self.gone))
        if fails:
            self.scene.away(name, Reason.SETUP_FAILED)
        else:
            self.scene.ready(name, idle=timedelta(hours=2), made=shown(self.scene.now))

    @rule()
    def it_begins_anew(self) -> None:
        self.scene.begin()
        self.has_leave.clear()

    @property
    def gone(self) -> list[str]:
        return [name for name in self.names if "removing" in self.scene.status(name)]

    @invariant()
    def the_coldest_have_leave(self) -> None:
        before = set(self.has_leave)
        new = self.scene.new_ones()
        limits, statuses = self.scene.spec["rollout"], {name: self.scene.status(name) for name in self.names}
        failed = {name for name in self.names if self.is_failed(statuses[name], self.scene.wanted(name))}
        self.has_leave |= set(new)
        if len(failed) > limits["maxFailed"] if "maxFailed" in limits else failed:
            assert new == []
            self.has_leave -= {name for name in before if name not in failed}
            return
        away = [name for name in self.gone if name not in failed]
        excused = len([name for name in self.gone if name in failed])
        assert len(away) + excused + len(self.has_leave) <= max(
            self.most(limits["maxUnavailable"]) + excused, len(away) + excused + len(before)
        )
        uses = [statuses[name]["lastUsedAt"] for name in new]
        assert uses == sorted(uses)
        assert not {*new} & {*failed, *self.gone}
        assert all(statuses[name]["configHash"] != self.scene.wanted(name) for name in new)

    def most(self, amount: int | str) -> int:
        if isinstance(amount, int):
            return amount
        return max(1, -(-len(self.names) * int(amount[:-1]) // 100))

    @staticmethod
    def is_failed(status: dict[str, Any], wanted: str) -> bool:
        if status.get("desiredConfigHash") != wanted:
            return False
        kinds = {(each["type"], each["reason"]) for each in status.get("conditions", [])}
        if "removing" in status:
            return any(kind == "ReplacementFailed" for kind, _ in kinds)
        drifted = status["configHash"] != wanted
        return drifted and ("Drifted", str(Reason.REPLACEMENT_BLOCKED)) in kinds


TestRolling = Rolling.TestCase
TestRolling.settings = settings(deadline=None, stateful_step_count=30)


def test_ten_thousand_are_planned_within_a_second() -> None:
    """Only the order of magnitude: a look at all of them for each that goes would take minutes."""
    scene = Scene(rollout={"maxUnavailable": 10})
    for number in range(10_000):
        scene.ready(f"s{number}", idle=timedelta(hours=1, seconds=number))
    scene.rollouts.advance()
    scene.change("b")
    began = time.monotonic()
    assert len(scene.new_ones()) == 10
    planned = time.monotonic() - began
    began = time.monotonic()
    for name in reversed([f"s{number}" for number in range(9_000, 9_990)]):
        scene.rollouts.settled(scene.key(name), waits=False)
        scene.rollouts.advance()
    steps = time.monotonic() - began
    assert planned < 5, "ten thousand statuses are looked at, once"
    assert steps < 5, "a thousand steps"
