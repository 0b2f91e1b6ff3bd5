"""A change reaches the runtimes of a policy a few at a time, the coldest first, and stops at one that fails."""

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.cluster import Cluster
from support.nodes import FakeNodesFactory
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.pods import serving_pods
from support.waiting import wait_for
from support.watching import History, watched

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

Json = dict[str, Any]
NAMES = [f"s{number:02}" for number in range(20)]
QUICK = {"perMinute": 6000, "burst": 100}


class Fleet:
    """Twenty Sandboxes as Pods on fake nodes, the first of them the coldest."""

    def __init__(
        self, user: Sandboxes, placement: Json, start: Callable[..., OperatorProcess], **rollout: Any
    ) -> None:
        self.user = user
        self.placement = placement
        self.rollout = rollout
        self.operator = start()
        self.env = "red"
        self.apply()
        user.apply(*(user.sandbox(name) for name in NAMES))
        wait_for(lambda: self.ready() == 20, what="all are Ready", tell=self.tell, timeout=120, pause=0.5)
        # Creation is a use, so each has to be used after it, one after the other; and then get cold.
        first = datetime.now(UTC)
        for number, name in enumerate(NAMES):
            user.annotate(name, last_used=(first + timedelta(seconds=number)).isoformat())
        time.sleep(max(0.0, (first + timedelta(seconds=23) - datetime.now(UTC)).total_seconds()))

    def apply(self, *, pod: Json | None = None, **rollout: Any) -> None:
        """Apply the policy, with another budget or placement if need be."""
        self.rollout |= rollout
        self.user.apply(
            self.user.policy(
                container={"env": {"COLOUR": self.env}},
                pod={**self.placement, **(pod or {})},
                hotWindowSeconds=1,
                rollout=self.rollout,
            )
        )

    def statuses(self) -> dict[str, Json]:
        found = json.loads(self.user.kubectl("get", "sandboxes", "-o", "json"))["items"]
        return {one["metadata"]["name"]: one.get("status", {}) for one in found}

    def ready(self) -> int:
        return sum(has(status, "Ready", "True") for status in self.statuses().values())

    def running(self) -> dict[str, str]:
        return {name: status["runtime"]["id"] for name, status in self.statuses().items()}

    def policy(self) -> Json:
        found: Json = json.loads(self.user.kubectl("get", "asp", "default", "-o", "json"))
        return found

    def wait_policy(self, kind: str, value: str, reason: str, *, timeout: float = 120) -> Json:
        """Wait until a condition of the policy says so of its newest generation, and return the status."""

        def status() -> Json | None:
            policy = self.policy()
            for each in policy.get("status", {}).get("conditions", []):
                said = each["type"], each["status"], each["reason"], each.get("observedGeneration")
                if said == (kind, value, reason, policy["metadata"]["generation"]):
                    found: Json = policy["status"]
                    return found
            return None

        found: list[Json] = []

        def is_so() -> bool:
            if (now := status()) is not None:
                found.append(now)
            return bool(found)

        wait_for(is_so, what=f"{kind}={value} {reason}", timeout=timeout, tell=self.tell, pause=0.5)
        return found[0]

    def tell(self) -> str:
        return self.user.kubectl("get", "asp,sandboxes", "-o", "yaml")


def has(status: Json, kind: str, value: str, reason: str | None = None) -> bool:
    return any(
        each["type"] == kind and each["status"] == value and reason in {None, each["reason"]}
        for each in status.get("conditions", [])
    )


def message(status: Json, kind: str) -> str:
    return "".join(each["message"] for each in status.get("conditions", []) if each["type"] == kind)


def assert_coldest_first(order: list[str], *, at_once: int) -> None:
    """Who has leave at the same time may begin in any order."""
    left = sorted(order)
    for name in order:
        assert name in left[:at_once], order
        left.remove(name)


@pytest.fixture
def start(operator_factory: OperatorFactory) -> Callable[..., OperatorProcess]:
    def begin(**settings: Any) -> OperatorProcess:
        return operator_factory(**serving_pods(replacements=QUICK), lease=False, **settings).wait_ready()

    return begin


@pytest.fixture
def make(
    pod_sandboxes: Sandboxes, fake_nodes: FakeNodesFactory, start: Callable[..., OperatorProcess]
) -> Callable[..., Fleet]:
    def begin(**rollout: Any) -> Fleet:
        return Fleet(pod_sandboxes, fake_nodes(2).placement, start, **rollout)

    return begin


def metrics(operator: OperatorProcess) -> dict[str, float]:
    found = re.findall(
        r'^sandkeeper_rollout_runtimes\{policy="default",state="(\w+)"\} (\S+)$',
        operator.read("/metrics"),
        re.MULTILINE,
    )
    return {state: float(count) for state, count in found}


def test_an_edit_reaches_all_the_coldest_first_and_never_more_at_once_than_may(
    cluster: Cluster, namespace: str, make: Callable[..., Fleet]
) -> None:
    fleet = make(maxUnavailable=3)
    before = fleet.running()
    hold = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    fleet.user.annotate("s02", hold_until=hold)
    with watched(cluster, namespace) as history:
        fleet.env = "blue"
        fleet.apply()
        status = fleet.wait_policy("Progressing", "True", "RollingOut")
        assert status["rollout"]["total"] == 20
        wait_for(
            lambda: metrics(fleet.operator).get("current") == 19, what="all but one are replaced", timeout=120
        )
        # It is held, and all others went past it.
        assert has(fleet.statuses()["s02"], "Drifted", "True", "ConfigChanged")
        fleet.user.kubectl("annotate", "sandbox", "s02", "sandkeeper.dev/hold-until-")
        status = fleet.wait_policy("Current", "True", "UpToDate")
        wait_for(reached(history, 20), what="all are told")
    order = history.replaced()
    assert sorted(order) == NAMES
    assert order[-1] == "s02"
    assert_coldest_first(order[:-1], at_once=3)
    assert 1 <= history.most_away() <= 3
    assert not before.items() & fleet.running().items()
    counts = {key: value for key, value in status["rollout"].items() if key != "startedAt"}
    assert counts == {"total": 20, "current": 20, "drifted": 0, "replacing": 0, "replaced": 20, "blocked": 0}
    assert metrics(fleet.operator) == counts
    fleet.user.kubectl("wait", "--for=condition=Current", "asp/default", "--timeout=5s")


def test_it_stops_at_one_that_does_not_come_up_and_goes_on_when_that_is_mended(
    cluster: Cluster, namespace: str, make: Callable[..., Fleet], start: Callable[..., OperatorProcess]
) -> None:
    fleet = make(maxUnavailable=2)
    with watched(cluster, namespace) as history:
        nowhere = {
            "nodeSelector": {**fleet.placement.get("nodeSelector", {}), "example.com/there": "is-none"}
        }
        fleet.apply(pod=nowhere)
        status = fleet.wait_policy("Ready", "False", "RolloutBlocked")
        assert message(status, "Ready").startswith("The replacement failed of s0")
        wait_for(lambda: sum(waits_for_one_that_failed(fleet)) >= 18, what="all others say so")
        wait_for(
            lambda: (
                metrics(fleet.operator).get("blocked") == fleet.policy()["status"]["rollout"]["blocked"] >= 1
            ),
            what="the metrics say of how many",
        )

        fleet.operator.kill()  # whoever comes next knows by the statuses
        fleet.operator = start()
        time.sleep(5)
        gone = history.replaced()
        assert set(gone) <= {"s00", "s01"}
        assert fleet.ready() == 20 - len(gone)

        fleet.apply()  # as it was: what waited is current again, and what failed is tried again
        fleet.wait_policy("Current", "True", "UpToDate")
        assert fleet.ready() == 20
        assert history.replaced()[: len(gone)] == gone
        assert history.most_away() <= 2
        reasons = fleet.user.kubectl(
            "get", "events", "--field-selector", "involvedObject.kind=AgentSandboxPolicy", "-o", "name"
        )
        assert reasons.count("event/") >= 2


def waits_for_one_that_failed(fleet: Fleet) -> list[bool]:
    return [has(status, "Drifted", "True", "RolloutBlocked") for status in fleet.statuses().values()]


def test_so_many_may_fail_as_the_policy_says(
    cluster: Cluster, namespace: str, make: Callable[..., Fleet]
) -> None:
    fleet = make(maxUnavailable=1, maxFailed=2)
    with watched(cluster, namespace) as history:
        nowhere = {
            "nodeSelector": {**fleet.placement.get("nodeSelector", {}), "example.com/there": "is-none"}
        }
        fleet.apply(pod=nowhere)
        fleet.wait_policy("Ready", "False", "RolloutBlocked")
        time.sleep(3)
        assert history.replaced() == ["s00", "s01", "s02"]
        fleet.apply(pod=nowhere, maxFailed=3)
        wait_for(lambda: len(history.replaced()) == 4, what="one more goes", timeout=60)
        fleet.wait_policy("Ready", "False", "RolloutBlocked")
        time.sleep(3)
        assert history.replaced() == ["s00", "s01", "s02", "s03"]


def test_whoever_takes_over_in_the_middle_keeps_to_the_budget(
    cluster: Cluster, namespace: str, make: Callable[..., Fleet], start: Callable[..., OperatorProcess]
) -> None:
    fleet = make(maxUnavailable=2, perMinute=120)
    with watched(cluster, namespace) as history:
        fleet.env = "blue"
        fleet.apply()
        for count in (4, 9, 14):
            wait_for(reached(history, count), what=f"{count} are replaced", timeout=120)
            fleet.operator.kill()
            fleet.operator = start()
        status = fleet.wait_policy("Current", "True", "UpToDate")
        wait_for(reached(history, 20), what="all are told")
    assert sorted(history.replaced()) == NAMES
    assert_coldest_first(history.replaced(), at_once=2)
    assert history.most_away() <= 2
    assert status["rollout"]["replaced"] == 20, "when it began is known to all of them"


def reached(history: History, count: int) -> Callable[[], bool]:
    return lambda: len(history.replaced()) >= count


def test_a_raised_epoch_is_rolled_out_like_an_edit(
    cluster: Cluster, namespace: str, make: Callable[..., Fleet], start: Callable[..., OperatorProcess]
) -> None:
    fleet = make(maxUnavailable="10%")
    fleet.wait_policy("Current", "True", "UpToDate")
    fleet.operator.stop()
    with watched(cluster, namespace) as history:
        fleet.operator = start(newer=True)
        wait_for(reached(history, 20), what="all are replaced", timeout=120)
        status = fleet.wait_policy("Progressing", "False", "RolloutComplete")
    assert_coldest_first(history.replaced(), at_once=2)
    assert history.most_away() <= 2
    assert (status["rollout"]["current"], status["rollout"]["replaced"]) == (20, 20)
    hashes = {each["configHash"] for each in fleet.statuses().values()}
    assert all(value.startswith("v3-") for value in hashes)


def test_a_default_that_is_held_back_waits_and_what_is_asked_for_does_not(
    cluster: Cluster, namespace: str, make: Callable[..., Fleet]
) -> None:
    fleet = make(maxUnavailable=1, perMinute=1)
    with watched(cluster, namespace) as history:
        fleet.env = "blue"
        fleet.apply()
        wait_for(reached(history, 1), what="the first one goes")
        time.sleep(3)
        assert history.replaced() == ["s00"]
        for name in NAMES[10:13]:  # whoever asks waits for no rollout
            fleet.user.annotate(name, recreate="please")
        wait_for(reached(history, 4), what="so do those that were asked for", timeout=60)
        fleet.apply(paused=True)
        status = fleet.wait_policy("Progressing", "False", "RolloutPaused")
        assert status["rollout"]["drifted"] == 16
    assert sorted(history.replaced()[1:]) == NAMES[10:13]


@pytest.mark.engine
def test_it_stops_at_an_image_that_is_not_there_and_takes_nothing_away(
    sandboxes: Sandboxes, operator_factory: OperatorFactory, containers: Callable[[], list[Any]]
) -> None:
    names = [f"a{number}" for number in range(5)]
    operator_factory(replacements=QUICK, lease=False).wait_ready()
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, rollout={"maxUnavailable": "100%"}))
    sandboxes.apply(*(sandboxes.sandbox(name) for name in names))
    for name in names:
        sandboxes.wait(name, "Running")
    before = {one.id for one in containers()}
    missing = sandboxes.policy(
        container={"image": "no/such:image"}, hotWindowSeconds=1, rollout={"maxUnavailable": 1}
    )
    sandboxes.apply(missing)

    def reasons() -> list[str]:
        return sorted(sandboxes.condition(name, "Drifted")[1] for name in names)

    expected = ["ReplacementBlocked", *["RolloutBlocked"] * 4]
    wait_for(
        lambda: reasons() == expected, what="one is tried, and the others wait", tell=lambda: str(reasons())
    )
    (tried,) = [name for name in names if sandboxes.condition(name, "Drifted")[1] == expected[0]]
    for name in names:
        assert sandboxes.condition(name) == ("True", "Running")
        if name != tried:
            assert f": {tried} (ReplacementBlocked)." in message(sandboxes.status(name), "Drifted")
    assert {one.id for one in containers()} == before

    sandboxes.apply(sandboxes.policy(container={"env": {"A": "b"}}, hotWindowSeconds=1))
    for name in names:
        wait_for(lambda name=name: sandboxes.condition(name, "Drifted") == ("", ""), what=f"{name} is new")  # type: ignore[misc]
        sandboxes.wait(name, "Running")
    assert not before & {one.id for one in containers()}
