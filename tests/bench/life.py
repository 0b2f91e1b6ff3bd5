"""The steps in the life of a sandbox whose writes are counted."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.figures import Json
from bench.kube import Seen, pods
from bench.ready import is_running
from bench.stage import PODS, Stage
from support.pods import POD_IMAGE

__all__ = ["AS_CONTAINERS", "AS_PODS", "COLD", "IDLE", "Kind", "Step", "policies", "steps"]

HOT, IDLE, COLD = "", "-idle", "-cold"
"""Three kinds of Sandboxes: with the built-in windows, pruned soon, and cold at once. Each policy is called so."""


def policies(idle: int) -> dict[str, Json]:
    """Return what the three policies say of times, by suffix; ``idle`` is after how many seconds is soon."""
    return {
        HOT: {},
        IDLE: {"hotWindowSeconds": 1, "prune": {"idleSeconds": idle}},
        COLD: {"hotWindowSeconds": 1},
    }


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What differs between backends."""

    name: str
    """The key in the JSON."""
    policy: str
    """The policy with the built-in windows; the others are called like it, with a suffix."""
    settings: Mapping[str, Any]
    """Of the operator."""
    template: Json = field(default_factory=dict)
    """What policies of this backend say besides."""
    promised: Mapping[str, int]
    """Most writes of ours for each Sandbox, by step, where the design gives a number."""

    @property
    def are_pods(self) -> bool:
        """Whether the runtimes are Pods, which the API server counts too."""
        return "pod" in self.settings.get("backends", ())


_NEW: Final = ("a new Sandbox", "a new Sandbox, cold at once", "a new Sandbox, pruned soon")
_SECOND: Final = "a second Sandbox of the same agent"
_FREE: Final = ("a pass that changes nothing", "a touch", "a touch when cold, within a minute")

AS_CONTAINERS: Final = Kind(
    name="writes",
    policy="default",
    settings={},
    promised={
        **dict.fromkeys((*_NEW, _SECOND), 2),
        **dict.fromkeys(_FREE, 0),
        **dict.fromkeys(("the second one deleted", "deleted"), 1),
    },
)
AS_PODS: Final = Kind(
    name="podWrites",
    policy="fake-pods",
    settings=PODS,
    template={"backend": "pod", "container": {"image": POD_IMAGE}},
    promised={**dict.fromkeys((*_NEW, _SECOND), 2), **dict.fromkeys((*_FREE, "deleted"), 0)},
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step, done to several Sandboxes at once."""

    title: str
    about: str
    """Which kind of Sandboxes: a suffix of their names."""
    promised: int | None
    """Most writes of ours for each Sandbox; None: the design gives no number."""
    act: Callable[[str], Awaitable[object]]
    reached: Callable[[Seen], bool]
    by_client: int = 1
    """Writes of the client for each, which are not ours."""


def _is_gone(seen: Seen) -> bool:
    return seen.kind == "DELETED"


def _for_reason(reason: str) -> Callable[[Seen], bool]:
    def check(seen: Seen) -> bool:
        status = seen.object.get("status") or {}
        return reason in [c["reason"] for c in status.get("conditions", ()) if c["type"] == "Ready"]

    return check


def _with(field: str, value: object) -> Callable[[Seen], bool]:
    return lambda seen: is_running(seen) and seen.object["status"].get(field) == value


@dataclass(frozen=True)
class _Acts:
    """What a client does to a Sandbox of this name."""

    stage: Stage
    kind: Kind

    def create(self, about: str) -> Callable[[str], Awaitable[object]]:
        return lambda name: self.stage.create(name, **self._policy(about))

    def share(self, name: str) -> Awaitable[object]:
        agent = name.removesuffix("-second")
        return self.stage.create(name, agentId=agent, sessionKey="second", **self._policy(HOT))

    def touch(self, name: str) -> Awaitable[object]:
        return self.stage.annotate(name, last_used=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def mark(self, name: str) -> Awaitable[object]:
        return self.stage.patch(name, {"metadata": {"annotations": {"example.com/seen": "yes"}}})

    def recreate(self, name: str) -> Awaitable[object]:
        return self.stage.annotate(name, recreate="please")

    def set_state(self, state: str) -> Callable[[str], Awaitable[object]]:
        return lambda name: self.stage.patch(name, {"spec": {"state": state}})

    async def kill(self, name: str) -> None:
        runtime = (await self.stage.watch.until(name, is_running)).object["status"]["runtime"]
        if self.kind.are_pods:
            await self.stage.kube.request("DELETE", pods(self.stage.namespace, runtime["name"]))
        else:
            await asyncio.to_thread(self.stage.engine.kill, runtime["id"])

    async def nothing(self, name: str) -> None:
        del name

    def _policy(self, about: str) -> Json:
        return {"policyRef": {"name": self.kind.policy + about}}


def steps(stage: Stage, kind: Kind) -> tuple[Step, ...]:
    """Return the steps in order."""
    do = _Acts(stage, kind)

    def step(
        title: str,
        act: Callable[[str], Awaitable[object]],
        reached: Callable[[Seen], bool] = is_running,
        *,
        about: str = HOT,
        by_client: int = 1,
    ) -> Step:
        promised = kind.promised.get(title)
        return Step(
            title=title, about=about, promised=promised, act=act, reached=reached, by_client=by_client
        )

    second = "-second"
    killed = "the Pod deleted, and made again" if kind.are_pods else "the container killed, and made again"
    return (
        step(_NEW[0], do.create(HOT)),
        step(_FREE[0], do.mark),
        step(_FREE[1], do.touch),
        step(_SECOND, do.share, about=second),
        step("the second one deleted", stage.delete, _is_gone, about=second),
        step(killed, do.kill, _with("recoveries", 1), by_client=0),
        step("stopped", do.set_state("Stopped"), _for_reason("Stopped")),
        step("started again", do.set_state("Running")),
        step("deleted", stage.delete, _is_gone),
        step(_NEW[1], do.create(COLD), about=COLD),
        step(_FREE[2], do.touch, about=COLD),
        step("replaced", do.recreate, _with("recreate", "please"), about=COLD),
        # Last, for what is idle once more is pruned once more.
        step(_NEW[2], do.create(IDLE), about=IDLE),
        step("idle and pruned", do.nothing, _for_reason("Idle"), about=IDLE, by_client=0),
        step("a touch brings it back", do.touch, about=IDLE),
    )
