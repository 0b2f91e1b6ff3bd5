"""What may go wrong with a Docker engine: itself, the way to it, and what people do to containers behind our back."""

import asyncio
import random
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from docker import APIClient

from chaos.containers import LOST, DockerSide, inspected
from chaos.engine_proxy import Asked, Fate
from chaos.faults import Fault, MissedError
from chaos.scene import Scene, now

__all__ = ["ENGINE", "PEOPLE", "WAY"]

_AWAY: Final = (0.0, 3.0)
_HUNG: Final = (2.0, 6.0)
"""Around the operator's time-out for a call."""
_TROUBLED: Final = (1.0, 4.0)
_SLOW: Final = (0.2, 2.0)
_PAUSED: Final = (1.0, 5.0)
_LOST: Final = 0.5
_FAILED: Final = 0.4


def _side(scene: Scene) -> DockerSide:
    if not isinstance(scene.side, DockerSide):
        raise MissedError("there is no Docker engine in this storm")
    return scene.side


# --- the engine itself ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Killed:
    """SIGKILL, and a start after a while; the engine then stops all containers that were left running."""

    name: str = "engine killed"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Kill it, and start it again."""
        side = _side(scene)
        before = side.engine.pid
        for runtime in await side.runtimes():
            scene.history.excuse(runtime.id, now())
        try:
            await asyncio.to_thread(side.engine.kill)
            dead = side.engine.pid is None
            await asyncio.sleep(chance.uniform(*_AWAY))
        finally:
            await asyncio.to_thread(side.engine.start)
            await asyncio.to_thread(side.engine.wait_ready)
        if before is None or not dead:
            raise MissedError("it did not run")


@dataclass(frozen=True)
class Frozen:
    """SIGSTOP: it takes connections, and answers none until it goes on; then it carries out what it was asked for."""

    name: str = "engine frozen"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Stop it for some seconds."""
        engine = _side(scene).engine
        engine.pause()
        try:
            await asyncio.sleep(chance.uniform(*_HUNG))
            problem = await asyncio.to_thread(engine.check)
        finally:
            engine.resume()
        if "timed out" not in str(problem):
            raise MissedError(f"it did not hang: {problem}")


# --- the way to it ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Every connection closed, and none taken."""

    name: str = "engine refuses connections"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Cut the way for some seconds."""
        proxy = _side(scene).proxy
        had = proxy.open_connections
        async with proxy.cut():
            await asyncio.sleep(chance.uniform(*_TROUBLED))
        if not had:
            raise MissedError("nobody was connected")


@dataclass(frozen=True)
class Judged:
    """For some seconds a share of the calls has another fate."""

    name: str
    fate: Fate
    share: float
    seconds: tuple[float, float]
    changes_alone: bool = False

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Judge them; it hit if at least one was struck."""
        proxy = _side(scene).proxy
        before = proxy.struck[self.fate]

        def judge(asked: Asked) -> Fate:
            concerned = asked.changes or not self.changes_alone
            return self.fate if concerned and chance.random() < self.share else Fate.NORMAL

        async with proxy.judged(judge):
            await asyncio.sleep(chance.uniform(*self.seconds))
        if proxy.struck[self.fate] == before:
            raise MissedError("nothing was asked meanwhile")


HUNG: Final = Judged("engine hung", Fate.HANG, share=1, seconds=_HUNG)
"""Calls are taken, never answered, and never carried out."""
LOSSY: Final = Judged("engine's answer lost", Fate.LOSE, share=_LOST, seconds=_TROUBLED, changes_alone=True)
"""Changes are carried out, and the answer is lost."""
FAILING: Final = Judged("engine answers 500", Fate.FAIL, share=_FAILED, seconds=_TROUBLED)
"""Calls are answered by 500."""


@dataclass(frozen=True)
class Slow:
    """Every answer takes its time."""

    name: str = "engine slow"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Delay all answers, for some seconds."""
        proxy = _side(scene).proxy
        before = proxy.delayed
        async with proxy.slow(chance.uniform(*_SLOW)):
            await asyncio.sleep(chance.uniform(*_TROUBLED))
        if proxy.delayed == before:
            raise MissedError("nothing was asked meanwhile")


@dataclass(frozen=True)
class SilentEvents:
    """The stream of events stays open and tells nothing."""

    name: str = "engine's events silent"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Swallow all events, for some seconds."""
        proxy = _side(scene).proxy
        before = proxy.swallowed
        async with proxy.silent():
            await asyncio.sleep(chance.uniform(*_HUNG))
        if proxy.swallowed == before:
            raise MissedError("there was nothing to tell")


@dataclass(frozen=True)
class BrokenEvents:
    """The stream of events breaks in the middle of a line."""

    name: str = "engine's events cut mid-line"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Break it."""
        if not await _side(scene).proxy.break_streams():
            raise MissedError("nobody follows the events")


# --- people -----------------------------------------------------------------------------------------------------------


async def _victim(scene: Scene, chance: random.Random) -> str:
    """Choose a container that runs. What happens to it is not the operator's doing."""
    running = sorted(runtime.id for runtime in await _side(scene).runtimes() if runtime.running)
    if not running:
        raise MissedError("no container runs")
    return chance.choice(running)


def _remove(client: APIClient, container: str) -> bool:
    client.remove_container(container, force=True)
    return inspected(client, container) is None


def _kill(client: APIClient, container: str) -> bool:
    before = inspected(client, container)
    client.kill(container)
    after = inspected(client, container)
    # The operator may have been quick.
    return after is None or before is None or after["State"] != before["State"]


def _stop(client: APIClient, container: str) -> bool:
    before = inspected(client, container)
    client.stop(container, timeout=1)
    after = inspected(client, container)
    return after is None or before is None or after["State"] != before["State"]


def _rename(client: APIClient, container: str) -> bool:
    name = f"somebody-was-here-{secrets.token_hex(4)}"
    client.rename(container, name)
    found = inspected(client, container)
    return found is not None and found["Name"] == f"/{name}"


_MEDDLINGS: Final[dict[str, Callable[[APIClient, str], bool]]] = {
    "container removed by somebody": _remove,
    "container killed by somebody": _kill,
    "container stopped by somebody": _stop,
    "container renamed by somebody": _rename,
}


@dataclass(frozen=True)
class Meddling:
    """Somebody does something to a container that is ours."""

    name: str
    do: Callable[[APIClient, str], bool]
    """Does it, and tells whether it took place."""

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Do it to a container that runs."""
        container = await _victim(scene, chance)
        scene.history.excuse(container, now())
        try:
            took_place = await asyncio.to_thread(self.do, _side(scene).client, container)
        except LOST as error:
            raise MissedError(str(error)) from error
        if not took_place:
            raise MissedError("the container is as it was")


@dataclass(frozen=True)
class Paused:
    """Somebody pauses a container, and lets it go on some time later."""

    name: str = "container paused by somebody"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Pause a container that runs."""
        client, container = _side(scene).client, await _victim(scene, chance)
        try:
            await asyncio.to_thread(client.pause, container)
            found = await asyncio.to_thread(inspected, client, container)
            await asyncio.sleep(chance.uniform(*_PAUSED))
        except LOST as error:
            raise MissedError(str(error)) from error
        finally:
            with suppress(*LOST):  # it may be gone, or go on already
                await asyncio.to_thread(client.unpause, container)
        if found is None or not found["State"]["Paused"]:
            raise MissedError("it did not pause")


ENGINE: Final[Sequence[Fault]] = (Killed(), Frozen())
"""The engine itself."""
WAY: Final[Sequence[Fault]] = (Cut(), HUNG, LOSSY, FAILING, Slow(), SilentEvents(), BrokenEvents())
"""The way to it."""
PEOPLE: Final[Sequence[Fault]] = (*(Meddling(name, do) for name, do in _MEDDLINGS.items()), Paused())
"""What others do to our containers."""
