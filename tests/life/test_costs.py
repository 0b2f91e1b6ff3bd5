"""What each step in the life of a Sandbox costs: requests to the API server and to the engine, and passes.

Figures of time depend on the machine, and are for the benchmark, whose steps these are; these figures do not. What is
written has to be just so. What is read, and how often a key is looked at, has a limit: two events that arrive together
are one reason to look.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from bench import counters, life
from bench.kube import Seen, Watch, pods
from bench.life import COLD, Kind, Step
from bench.ready import is_running
from bench.stage import Stage
from bench.staging import staged
from sandkeeper.api.names import GROUP, VERSION
from support.engine_calls import EngineCalls
from support.operator import OperatorProcess
from support.proxy import ApiProxy

pytestmark = [pytest.mark.cluster, pytest.mark.engine, pytest.mark.timeout(600)]

ALL_AT_ONCE: Final = {"maxUnavailable": "100%"}
"""So that nobody waits for a turn, which would be told."""
AT_ONCE: Final = 3
"""Sandboxes that each step is done to; the figures are for one."""
IDLE_SECONDS: Final = 40
"""Enough for what comes before, however slow the machine is."""
EVENTS_OF_POLICIES: Final = 2
"""That a rollout begins, and that it is complete, may be told in any step: fewer than one for each Sandbox."""
LONG_SECONDS: Final = 2.0
"""What takes longer is told in statuses and looked into, which costs more: it cannot be counted."""
QUIET_SECONDS: Final = 1.5
"""After which a step counts as done; and more after a long one, of which Events may still wait to be posted."""
QUIET_AFTER_LONG_SECONDS: Final = 10.0

CLOCK: Final = frozenset({"get leases", "update leases", "GET /_ping"})
"""What is asked as time passes, whatever Sandboxes there are."""
OF_POLICIES: Final = frozenset(
    {
        "namespaces",
        "agentsandboxpolicies",
        "agentsandboxpolicies/status",
        "networkpolicies",
        "persistentvolumeclaims",
    }
)
"""Few, and listed every minute; what is written of policies has tests of its own."""


@dataclass(frozen=True)
class Cost:
    """Of one step, for each Sandbox. What is named nowhere is not asked at all."""

    exactly: dict[str, int]
    at_most: dict[str, int]
    passes: int
    """At most."""

    def fits(self, found: Counter[str], passes: int) -> bool:
        """Whether it is what was found of several Sandboxes."""
        exactly = Counter({call: each * AT_ONCE for call, each in self.exactly.items()})
        at_most = Counter({call: each * AT_ONCE for call, each in self.at_most.items()})
        at_most["create events"] += EVENTS_OF_POLICIES
        return exactly <= found and found - exactly <= at_most and passes <= self.passes * AT_ONCE


def looks(count: int) -> dict[str, int]:
    """At a container."""
    return {"GET /containers/*/json": count}


STATUS = {"patch sandboxes/status": 1, "create events": 1}
TWICE = {"patch sandboxes/status": 2, "create events": 2}
"""What is announced first, and what came of it."""
FINALIZER = {"patch sandboxes": 1}

MADE = {"POST /containers/create": 1, "POST /containers/*/start": 1}
REMOVED = {"DELETE /containers/*": 1}
USER = {"GET /containers/*/archive": 1}
"""Who the user of an image is: asked once for each image, or by all who come before it is known."""
WHO = {"GET /info": 1}
"""Before a container is called missing, the engine is asked whether it is the one that had it."""
IMAGE = {"GET /images/*/json": 1}
SEEN_CONTAINER = Cost({}, looks(1), passes=1)
REPLACED_CONTAINER = Cost(TWICE | REMOVED | MADE, looks(6) | WHO | IMAGE, passes=2)

AS_CONTAINERS = {
    "a new Sandbox": Cost(FINALIZER | STATUS | MADE, looks(3) | USER, passes=2),
    "a pass that changes nothing": SEEN_CONTAINER,
    "a touch": SEEN_CONTAINER,
    "a second Sandbox of the same agent": Cost(FINALIZER | STATUS, looks(2), passes=2),
    "the second one deleted": Cost(FINALIZER, looks(2), passes=2),
    "the container killed, and made again": Cost(TWICE | REMOVED | MADE, looks(5) | WHO, passes=2),
    "stopped": Cost(STATUS | {"POST /containers/*/stop": 1}, looks(4), passes=2),
    "started again": Cost(STATUS | {"POST /containers/*/start": 1}, looks(4), passes=2),
    "deleted": Cost(FINALIZER | REMOVED, looks(2) | WHO, passes=2),
    "a new Sandbox, cold at once": Cost(FINALIZER | STATUS | MADE, looks(3), passes=2),
    "a touch when cold, within a minute": SEEN_CONTAINER,
    "replaced": REPLACED_CONTAINER,
    "drifted and replaced": REPLACED_CONTAINER,
    "a new Sandbox, pruned soon": Cost(FINALIZER | STATUS | MADE, looks(3), passes=2),
    "idle and pruned": Cost(TWICE | REMOVED, looks(2) | WHO, passes=2),
    "a touch brings it back": Cost(STATUS | MADE, looks(3), passes=2),
}

POD = {"create pods": 1}
GONE = {"get pods": 1}
"""Before a Pod is called missing, the API server is asked."""
ASKED = {"create pods 409": 1}
"""Whether another would be admitted: a dry run, while the former Pod still has the name."""
NEW_POD = Cost(STATUS | POD, {}, passes=4)
SEEN_POD = Cost({}, {}, passes=1)
REPLACED_POD = Cost(TWICE | ASKED | {"delete pods": 1} | POD, GONE, passes=6)

AS_PODS = {
    "a new Sandbox": NEW_POD,
    "a pass that changes nothing": SEEN_POD,
    "a touch": SEEN_POD,
    "a second Sandbox of the same agent": Cost(STATUS | {"patch pods": 1}, {}, passes=2),
    # The garbage collector takes owners that are gone from a Pod, too, and may come first or in between.
    "the second one deleted": Cost({}, {"patch pods": 1, "patch pods 409": 1} | GONE, passes=3),
    "the Pod deleted, and made again": Cost(STATUS | POD, GONE, passes=6),
    "stopped": Cost(STATUS | {"delete pods": 1}, GONE, passes=5),
    "started again": NEW_POD,
    "deleted": Cost({}, {}, passes=4),
    "a new Sandbox, cold at once": NEW_POD,
    "a touch when cold, within a minute": SEEN_POD,
    "replaced": REPLACED_POD,
    "drifted and replaced": REPLACED_POD,
    "a new Sandbox, pruned soon": NEW_POD,
    "idle and pruned": Cost(TWICE | {"delete pods": 1}, GONE, passes=4),
    "a touch brings it back": NEW_POD,
}


@dataclass(frozen=True)
class Meter:
    """Counts on the way to the API server and to the engine, and asks the operator for its passes."""

    operator: OperatorProcess
    api: ApiProxy
    engine: EngineCalls

    async def settled(self, *, events: int = 0, quiet: float = QUIET_SECONDS) -> tuple[Counter[str], int]:
        """Wait until nothing was asked and no pass was made for a while, and return what was counted so far.

        Events follow each other the more slowly the busier the API server is; so many are waited for some longer.
        """
        before, since = await self._now(), time.monotonic()
        async with asyncio.timeout(120):
            while (waited := time.monotonic() - since) < QUIET_AFTER_LONG_SECONDS:
                if waited > quiet and before[0]["create events"] >= events:
                    break
                await asyncio.sleep(0.1)
                now = await self._now()
                if now != before:
                    before, since = now, time.monotonic()
        return before

    async def _now(self) -> tuple[Counter[str], int]:
        passes = int(await asyncio.to_thread(counters.passes, self.operator))
        return Counter(call for call in self._calls() if call not in CLOCK), passes

    @property
    def networks(self) -> int:
        """How many NetworkPolicies were made: one for each policy, whatever Sandboxes there are."""
        return self.api.count(verb="create", resource="networkpolicies", status=201)

    def _calls(self) -> Iterable[str]:
        yield from self.engine.counts.elements()
        for one in self.api.requests:
            if one.verb != "watch" and one.resource not in OF_POLICIES:
                refused = one.verb != "get" and one.status >= 400
                yield f"{one.verb} {one.resource}" + (f" {one.status}" if refused else "")


@asynccontextmanager
async def metered(kind: Kind, folder: Path) -> AsyncIterator[tuple[Stage, Meter]]:
    """An operator that nobody else comes through the two ways with; Pods of it are Ready at once."""
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(staged())
        api = stack.enter_context(ApiProxy(Path(stage.environ["KUBECONFIG"]), folder))
        engine = stack.enter_context(EngineCalls(stage.environ["DOCKER_HOST"]))
        template = kind.template
        if kind.are_pods:
            template = {**template, "pod": (await stack.enter_async_context(stage.fake_nodes(1))).placement}
        for suffix, windows in life.policies(IDLE_SECONDS).items():
            if kind.policy + suffix != "default":  # which is there already
                await stage.policy(kind.policy + suffix, **windows, **template, rollout=ALL_AT_ONCE)
        ways = {"KUBECONFIG": str(api.kubeconfig), "DOCKER_HOST": engine.url}
        listened_to = replace(stage, environ=stage.environ | ways)
        operator = await stack.enter_async_context(listened_to.operator(**kind.settings))
        yield stage, Meter(operator, api, engine)


def drifted(stage: Stage, kind: Kind) -> Step:
    """One edit of the policy for all."""
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{stage.namespace}/agentsandboxpolicies/{kind.policy}{COLD}"
    edit = {"spec": {"container": {"env": {"COLOUR": "blue"}}}}
    hashes: dict[str, str] = {}

    async def act(name: str) -> None:
        hashes[name] = (await stage.watch.until(name, is_running)).object["status"]["configHash"]
        if len(hashes) == AT_ONCE:
            await stage.kube.request("PATCH", path, body=edit)

    def reached(seen: Seen) -> bool:
        return is_running(seen) and seen.object["status"]["configHash"] not in hashes.values()

    title = "drifted and replaced"
    return Step(title=title, about=COLD, promised=None, act=act, reached=reached, by_client=0)


def is_pruned(seen: Seen) -> bool:
    return bool(seen.object.get("status", {}).get("phase") == "Pruned")


async def no_pods(stage: Stage) -> None:
    """Wait until the garbage collector has taken the Pods."""
    async with Watch(stage.kube, stage.namespace, pods) as watch:
        listed = await stage.kube.request("GET", pods(stage.namespace))
        names = [pod["metadata"]["name"] for pod in listed["items"]]
        await asyncio.gather(*(watch.until(name, lambda seen: seen.kind == "DELETED") for name in names))


@pytest.mark.parametrize(
    ("kind", "costs"),
    [
        pytest.param(life.AS_CONTAINERS, AS_CONTAINERS, id="containers"),
        pytest.param(life.AS_PODS, AS_PODS, id="pods"),
    ],
)
async def test_no_step_costs_more_than_it_has_to(kind: Kind, costs: dict[str, Cost], tmp_path: Path) -> None:
    wrong, uncounted, deaths = list[str](), list[str](), Counter[str]()
    async with metered(kind, tmp_path) as (stage, meter):
        steps = list(life.steps(stage, kind))
        steps.insert([step.title for step in steps].index("replaced") + 1, drifted(stage, kind))
        assert [step.title for step in steps] == list(costs)
        calls, passes = await meter.settled()
        for step in steps:
            cost, names = costs[step.title], [f"s{number}{step.about}" for number in range(AT_ONCE)]
            events = calls["create events"] + AT_ONCE * cost.exactly.get("create events", 0)
            began = time.monotonic()
            await asyncio.gather(*map(step.act, names))
            await asyncio.gather(*(stage.watch.until(name, step.reached) for name in names))
            if step.title == "deleted":
                await no_pods(stage)
            limit = LONG_SECONDS + (IDLE_SECONDS if step.title == "idle and pruned" else 0)
            long = time.monotonic() - began > limit
            (calls_before, passes_before) = calls, passes
            calls, passes = await meter.settled(
                events=events, quiet=QUIET_AFTER_LONG_SECONDS if long else QUIET_SECONDS
            )
            deaths[step.about] += step.title.endswith("and made again")
            # What plays the kubelets deletes Pods by name, and on a busy machine the next one that has it.
            latest = [await stage.watch.until(name, lambda _: True) for name in names]
            died = any(each.object["status"].get("recoveries", 0) > deaths[step.about] for each in latest)
            asked, looked = calls - calls_before, passes - passes_before
            if long or died:
                uncounted.append(step.title)
            elif not cost.fits(asked, looked):
                wrong.append(f"{step.title}: {dict(asked)} in {looked} passes")
        assert meter.networks == (len(life.policies(IDLE_SECONDS)) if kind.are_pods else 0)
    assert not wrong, "\n".join([f"for {AT_ONCE} Sandboxes:", *wrong])
    if len(uncounted) > len(costs) / 2:
        pytest.skip(f"the machine is too slow to count {len(uncounted)} of {len(costs)} steps")


async def test_who_waits_for_a_turn_is_not_looked_at_in_vain(tmp_path: Path) -> None:
    # Ten seconds for all: long enough for many a needless look, were there any.
    slowly = {"prunes": {"perMinute": 240, "burst": 2}}
    kind = replace(life.AS_PODS, settings={**life.AS_PODS.settings, **slowly})
    names = [f"s{number}{COLD}" for number in range(42)]
    async with metered(kind, tmp_path) as (stage, meter):
        policy = kind.policy + COLD
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{stage.namespace}/agentsandboxpolicies/{policy}"
        await asyncio.gather(*(stage.create(name, policyRef={"name": policy}) for name in names))
        await asyncio.gather(*(stage.watch.until(name, is_running) for name in names))
        calls_before, before = await meter.settled()

        await stage.kube.request("PATCH", path, body={"spec": {"prune": {"idleSeconds": 1}}})
        await asyncio.gather(*(stage.watch.until(name, is_pruned) for name in names))
        calls, after = await meter.settled()

    # Whoever waits for less than a minute says nothing of it: only that it goes, and that it went.
    assert (calls - calls_before)["patch sandboxes/status"] == 2 * len(names)
    # One for the edit and one for the turn, and what a prune takes, whose Pods tell of their ends in several events.
    assert after - before <= 7 * len(names)


async def test_the_status_of_a_policy_is_written_a_few_times_whatever_its_sandboxes_do(
    tmp_path: Path,
) -> None:
    names = [f"s{number}" for number in range(300)]
    async with metered(life.AS_PODS, tmp_path) as (stage, meter):
        await meter.settled()
        before, began = policy_writes(meter), time.monotonic()
        assert before <= len(life.policies(IDLE_SECONDS)) + 2, "each is told that it was accepted"
        await asyncio.gather(*(stage.create(name, policyRef={"name": life.AS_PODS.policy}) for name in names))
        await asyncio.gather(*(stage.watch.until(name, is_running) for name in names))
        await meter.settled()
        # Where nothing but their number changes, once a minute.
        assert policy_writes(meter) - before <= 1 + (time.monotonic() - began) / 60


def policy_writes(meter: Meter) -> int:
    return meter.api.count(verb="patch", resource="agentsandboxpolicies/status")


async def test_who_waits_for_a_rollout_says_so_once_and_is_not_looked_at_in_vain(tmp_path: Path) -> None:
    kind = replace(life.AS_PODS, settings={**life.AS_PODS.settings, "replacements": {"perMinute": 6000}})
    names = [f"s{number}{COLD}" for number in range(24)]
    async with metered(kind, tmp_path) as (stage, meter):
        policy = kind.policy + COLD
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{stage.namespace}/agentsandboxpolicies/{policy}"
        await asyncio.gather(*(stage.create(name, policyRef={"name": policy}) for name in names))
        seen = await asyncio.gather(*(stage.watch.until(name, is_running) for name in names))
        hashes = {one.object["status"]["configHash"] for one in seen}
        await stage.kube.request("PATCH", path, body={"spec": {"rollout": {"maxUnavailable": 2}}})
        calls_before, before = await meter.settled()
        policy_before, began = policy_writes(meter), time.monotonic()

        def is_new(seen: Seen) -> bool:
            return is_running(seen) and seen.object["status"]["configHash"] not in hashes

        await stage.kube.request("PATCH", path, body={"spec": {"container": {"env": {"COLOUR": "blue"}}}})
        await asyncio.gather(*(stage.watch.until(name, is_new, limit=120) for name in names))
        took = time.monotonic() - began
        calls, after = await meter.settled()

    # That it waits, that it goes, and what came of it; of one that takes more than two seconds, that too.
    assert (calls - calls_before)["patch sandboxes/status"] <= 3 * len(names) + (
        len(names) if took > 40 else 0
    )
    assert (calls - calls_before)["create pods 409"] == len(names), (
        "each is checked once, when it is its turn"
    )
    assert after - before <= 9 * len(names)
    assert policy_writes(meter) - policy_before <= 3 + took / 5
