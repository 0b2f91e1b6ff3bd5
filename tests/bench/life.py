"""The steps in the life of a Docker sandbox whose writes are counted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.kube import Seen
from bench.ready import is_running
from bench.stage import Stage

__all__ = ["SUFFIXES", "Step", "steps"]

HOT, IDLE, COLD = "", "-idle", "-cold"
SUFFIXES = (HOT, IDLE, COLD)
"""Three kinds of Sandboxes: with the built-in windows, pruned soon, and cold at once. Each policy is called so."""


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


def steps(stage: Stage) -> tuple[Step, ...]:
    """Return the steps in order."""

    def create(**spec: object) -> Callable[[str], Awaitable[object]]:
        return lambda name: stage.create(name, **spec)

    def share(name: str) -> Awaitable[object]:
        return stage.create(name, agentId=name.removesuffix("-second"), sessionKey="second")

    def touch(name: str) -> Awaitable[object]:
        return stage.annotate(name, last_used=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def mark(name: str) -> Awaitable[object]:
        return stage.patch(name, {"metadata": {"annotations": {"example.com/seen": "yes"}}})

    def recreate(name: str) -> Awaitable[object]:
        return stage.annotate(name, recreate="please")

    def set_state(state: str) -> Callable[[str], Awaitable[object]]:
        return lambda name: stage.patch(name, {"spec": {"state": state}})

    async def kill(name: str) -> None:
        seen = await stage.watch.until(name, is_running)
        await asyncio.to_thread(stage.engine.kill, seen.object["status"]["runtime"]["id"])

    async def nothing(name: str) -> None:
        del name

    def step(
        title: str,
        act: Callable[[str], Awaitable[object]],
        reached: Callable[[Seen], bool] = is_running,
        *,
        about: str = HOT,
        promised: int | None = None,
        by_client: int = 1,
    ) -> Step:
        return Step(
            title=title, about=about, promised=promised, act=act, reached=reached, by_client=by_client
        )

    second = "-second"
    idle, cold = ({"policyRef": {"name": kind.removeprefix("-")}} for kind in (IDLE, COLD))
    return (
        step("a new Sandbox", create(), promised=2),
        step("a pass that changes nothing", mark, promised=0),
        step("a touch", touch, promised=0),
        step("a second Sandbox of the same agent", share, about=second, promised=2),
        step("the second one deleted", stage.delete, _is_gone, about=second, promised=1),
        step("the container killed, and made again", kill, _with("recoveries", 1), by_client=0),
        step("stopped", set_state("Stopped"), _for_reason("Stopped")),
        step("started again", set_state("Running")),
        step("deleted", stage.delete, _is_gone, promised=1),
        step("a new Sandbox, cold at once", create(**cold), about=COLD, promised=2),
        step("a touch when cold, within a minute", touch, about=COLD, promised=0),
        step("replaced", recreate, _with("recreate", "please"), about=COLD),
        # Last, for what is idle once more is pruned once more.
        step("a new Sandbox, pruned soon", create(**idle), about=IDLE, promised=2),
        step("idle and pruned", nothing, _for_reason("Idle"), about=IDLE, by_client=0),
        step("a touch brings it back", touch, about=IDLE),
    )
