"""A few busy minutes for an operator: every kind of change that there is, on both backends, over and over."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from aiohttp import ClientResponseError
from docker.errors import APIError

from bench.figures import Json
from bench.kube import pods, policies, sandboxes
from bench.stage import Stage
from support.pods import POD_IMAGE
from testbed.fake_nodes import FakeNodes

__all__ = ["POLICIES", "Churn", "setting"]

_HOT: Final = 3
_IDLE: Final = 9
_NO_IMAGE: Final = "sandkeeper-no-such-image:none"

POLICIES: Final = ("containers", "pods-fake", "short-lived", "imageless", "imageless-pods", "unset", "stuck")
"""Which have runtimes in a run."""

_NODES: Final = 2
_CONTAINERS: Final = 8
"""So many that come and go."""
_PODS: Final = 30

_PATIENCE: Final = 120
"""Seconds; on a busy machine everything takes longer."""

_FAST: Final = {"perMinute": 6000, "burst": 100}


@asynccontextmanager
async def setting(stage: Stage) -> AsyncIterator[None]:
    """Have the policies, and nodes for Pods that cost nothing."""
    quick: Json = {"hotWindowSeconds": _HOT, "prune": {"idleSeconds": _IDLE}}
    async with stage.fake_nodes(_NODES) as nodes:
        await stage.policy("containers", **quick)
        await stage.policy("pods-fake", **quick, **_as_pods(nodes))
        await stage.policy("short-lived", hotWindowSeconds=1, prune={"maxAgeSeconds": 6})
        await stage.policy("imageless", container={"image": _NO_IMAGE})
        await stage.policy("unset", container={"image": stage.image, "setupCommand": "exit 3"})
        # On the node that is real: others do not mind.
        await stage.policy(
            "imageless-pods", backend="pod", container={"image": f"docker.io/library/{_NO_IMAGE}"}
        )
        await stage.policy("stuck", hotWindowSeconds=1)
        yield


def _as_pods(nodes: FakeNodes) -> Json:
    return {"backend": "pod", "container": {"image": POD_IMAGE}, "pod": nodes.placement}


class Churn:
    """What users, authors of policies and accidents do until it is enough; and how often each did it."""

    OPERATOR: Final[Json] = {
        "backends": ["docker", "pod"],
        "defaultBackend": "docker",
        "replacements": _FAST,
        "prunes": _FAST,
    }
    """The operator's settings: nothing waits for its turn longer than a run takes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_enough = asyncio.Event()
        self._random = random.Random(7)  # noqa: S311 - for variety
        self._numbers = itertools.count()
        self._alive: dict[str, list[str]] = {"containers": [], "pods-fake": []}
        self.done: Counter[str] = Counter()

    def end(self) -> None:
        """Say that it is enough."""
        self._is_enough.set()

    async def run(self) -> None:
        """Let everybody do what they do until :meth:`end`, and what must not be left to chance happen in any case."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._once())
            for every, act in (
                (1.0, self._a_container_is_asked_for),
                (0.4, self._a_pod_is_asked_for),
                (0.2, self._somebody_uses_one),
                (4.0, self._a_container_dies),
                (3.0, self._a_pod_is_deleted),
                (9.0, self._a_policy_is_edited),
                (5.0, self._one_is_held),
                (7.0, self._one_is_stopped_and_started),
                (6.0, self._a_new_one_is_asked_for),
                (8.0, self._a_short_life_begins),
            ):
                group.create_task(self._again(every, act))

    async def _again(self, every: float, act: Callable[[], Awaitable[object]]) -> None:
        """Do it over and over; who comes too late for a Sandbox or a container does nothing."""
        while not self._is_enough.is_set():
            with suppress(ClientResponseError, APIError):
                await act()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_enough.wait(), every * self._random.uniform(0.7, 1.3))

    async def _once(self) -> None:
        """What goes wrong for good, and what must not be left to chance."""
        for name in ("imageless", "imageless-pods", "unset", "stuck"):
            await self._stage.create(name, policyRef={"name": name})
        await self._stage.create("resting")
        await self._reaches("resting", "Ready")
        for state, phase in (("Stopped", "Stopped"), ("Running", "Ready")):
            await self._stage.patch("resting", {"spec": {"state": state}})
            await self._reaches("resting", phase)
        self.done["stopped and started"] += 1
        await self._stage.annotate("resting", last_used=_moment(0))
        await self._reaches("stuck", "Ready")
        body = {"spec": {"container": {"image": _NO_IMAGE}}}
        await self._stage.kube.request("PATCH", policies(self._stage.namespace, "stuck"), body=body)
        self.done["policies edited to an image that is not there"] += 1
        for name, phase in (("imageless", "Failed"), ("imageless-pods", "Failed"), ("unset", "Failed")):
            await self._reaches(name, phase)

    async def _reaches(self, name: str, phase: str) -> None:
        """Wait until a Sandbox has a phase."""
        await self._stage.watch.until(
            name, lambda seen: bool(seen.object.get("status", {}).get("phase") == phase), limit=_PATIENCE
        )

    async def _a_container_is_asked_for(self) -> None:
        await self._ask("containers", most=_CONTAINERS)

    async def _a_pod_is_asked_for(self) -> None:
        await self._ask("pods-fake", most=_PODS)

    async def _ask(self, policy: str, *, most: int) -> None:
        """Have one more; beyond so many the oldest goes."""
        name = f"{policy}-{next(self._numbers)}"
        await self._stage.create(name, policyRef={"name": policy})
        self._alive[policy].append(name)
        self.done["Sandboxes created"] += 1
        if len(self._alive[policy]) > most:
            await self._stage.kube.request(
                "DELETE", sandboxes(self._stage.namespace, self._alive[policy].pop(0))
            )
            self.done["Sandboxes deleted"] += 1

    async def _somebody_uses_one(self) -> None:
        """Of the newest only, so that others become idle; now and then an old one is remembered."""
        names = self._any()
        recent = names[-max(3, len(names) // 3) :] if self._random.random() < 0.9 else names
        if recent:
            await self._stage.annotate(self._random.choice(recent), last_used=_moment(0))
            self.done["uses"] += 1

    async def _a_container_dies(self) -> None:
        running = [each for each in self._stage.containers() if each["State"] == "running"]
        if running:
            await asyncio.to_thread(self._stage.engine.kill, self._random.choice(running)["Id"])
            self.done["containers killed"] += 1

    async def _a_pod_is_deleted(self) -> None:
        listed = (await self._stage.kube.request("GET", pods(self._stage.namespace)))["items"]
        if listed:
            name = self._random.choice(listed)["metadata"]["name"]
            await self._stage.kube.request("DELETE", pods(self._stage.namespace, name))
            self.done["Pods deleted"] += 1

    async def _a_policy_is_edited(self) -> None:
        for policy in self._alive:
            body = {"spec": {"container": {"env": {"EDITION": str(next(self._numbers))}}}}
            await self._stage.kube.request("PATCH", policies(self._stage.namespace, policy), body=body)
            self.done["policies edited"] += 1

    async def _one_is_held(self) -> None:
        if names := self._any():
            await self._stage.annotate(self._random.choice(names), hold_until=_moment(20))
            self.done["holds"] += 1

    async def _one_is_stopped_and_started(self) -> None:
        for names in self._alive.values():
            if not names:
                continue
            name = self._random.choice(names)
            await self._stage.patch(name, {"spec": {"state": "Stopped"}})
            await asyncio.sleep(2)
            await self._stage.patch(name, {"spec": {"state": "Running"}})
            self.done["stopped and started"] += 1

    async def _a_new_one_is_asked_for(self) -> None:
        if names := self._any():
            await self._stage.annotate(self._random.choice(names), recreate=str(next(self._numbers)))
            self.done["new ones asked for"] += 1

    async def _a_short_life_begins(self) -> None:
        await self._stage.create(f"short-{next(self._numbers)}", policyRef={"name": "short-lived"})
        self.done["Sandboxes created"] += 1

    def _any(self) -> list[str]:
        return [name for names in self._alive.values() for name in names]


def _moment(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
