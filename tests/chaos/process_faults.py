"""What may happen to the operator's process: killed, frozen, its clock set, its file descriptors used up."""

import asyncio
import email.utils
import random
import signal
import socket
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from chaos.clock import FakedClock
from chaos.descriptors import limited, spare
from chaos.faults import MissedError
from chaos.scene import Operated, Scene

__all__ = ["ClockStepped", "Frozen", "Killed", "OutOfDescriptors", "with_a_clock_of_its_own"]

_MOMENTS: Final = (0.0, 3.0)
"""Between its end and its next start."""
_FROZEN: Final = (1.0, 4.0)
_PAST_THE_LEASE: Final = 11.0
"""Longer than a lease lasts: whoever thaws after that must not believe that he still has it."""
_STEPS: Final = (-86400, -3600, -90, 90, 3600, 86400)
_STEPPED: Final = (2.0, 6.0)
_SHORT: Final = (1.0, 4.0)
_HOARDED: Final = 60
"""Connections that we open to the operator meanwhile, so that none of those that it closes is left to it."""
_ACCEPT_SECONDS: Final = 0.5
_NOTICED_SECONDS: Final = 3.0
_START_SECONDS: Final = 10.0
_LEAD_SECONDS: Final = 30.0
_AT_WORK: Final = 0.7
_PAUSE: Final = 0.3


SceneMaker = Callable[[], AbstractAsyncContextManager[Scene]]


def with_a_clock_of_its_own(scene: SceneMaker) -> SceneMaker:
    """Set a scene in which the operator's clock can be set."""

    @asynccontextmanager
    async def set_scene() -> AsyncIterator[Scene]:
        async with scene() as made:
            made.operator.env |= FakedClock(made.folder / "clock").environment
            yield made

    return set_scene


@dataclass(frozen=True)
class Killed:
    """SIGKILL, whatever it is about to do; and a new one after a while."""

    name: str = "operator killed"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Kill it, and start another: some at any moment, most when they have begun to work, or none ever would."""
        if chance.random() < _AT_WORK:
            await _until(lambda: _leads(scene.operator), seconds=_LEAD_SECONDS)
            await asyncio.sleep(chance.uniform(*_MOMENTS))
        try:
            code = await scene.operator.kill()
            await asyncio.sleep(chance.uniform(*_MOMENTS))
        finally:
            await scene.operator.start()
        if code != -signal.SIGKILL:
            raise MissedError("it did not run")


@dataclass(frozen=True)
class Frozen:
    """SIGSTOP: it does nothing, knows nothing of it, and goes on as if it were still the same moment."""

    name: str = "operator frozen"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Stop it for some seconds; now and then for longer than its lease lasts."""
        seconds = _PAST_THE_LEASE if chance.random() < 0.2 else chance.uniform(*_FROZEN)
        if not scene.operator.alive:
            raise MissedError("it does not run")
        process = scene.operator.process.process
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
            stopped = _state(process.pid) == "T"
        finally:
            process.send_signal(signal.SIGCONT)
        if not stopped:
            raise MissedError("it did not stop")


@dataclass(frozen=True)
class ClockStepped:
    """Its clock is set, ahead or back, and some seconds later it is right again."""

    name: str = "clock stepped"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Set the clock, and see by the Date of its answers that it was."""
        offset, clock = chance.choice(_STEPS), FakedClock.of(scene.operator.env)
        if clock is None:
            raise MissedError("its clock is everybody's")
        clock.step(offset)
        try:
            await asyncio.sleep(chance.uniform(*_STEPPED))
            struck = await _until(lambda: _is_off(scene.operator, offset), seconds=_START_SECONDS)
        finally:
            clock.step(0)
        if not struck:
            raise MissedError(f"its clock was not {offset} s off")


@dataclass(frozen=True)
class OutOfDescriptors:
    """It cannot open one more file or connection, and those that it gives up are taken from it."""

    name: str = "out of descriptors"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Leave it two to spare, and take these too. One that is only starting may end: whoever keeps it starts it."""
        operator = scene.operator
        if not await _until(operator.process.ready, seconds=_START_SECONDS) or not operator.alive:
            raise MissedError("it is not ready yet")
        with ExitStack() as stack:
            try:
                stack.enter_context(limited(operator.pid, to_spare=2))
            except OSError as error:
                raise MissedError("it was killed meanwhile") from error
            turned_away = await asyncio.to_thread(_hoard, stack, operator)
            # Else it would get on with the connections that it has; and those that it loses are ours.
            await asyncio.to_thread(scene.api.cut)
            await asyncio.to_thread(scene.api.heal)
            turned_away |= await asyncio.to_thread(_hoard, stack, operator)
            await asyncio.sleep(chance.uniform(*_SHORT))
            exhausted = _has_none_left(operator)
        if not exhausted and not turned_away:
            raise MissedError("it always had one to spare")


def _hoard(stack: ExitStack, operator: Operated) -> bool:
    """Connect to it as often as it takes connections; return whether it turned the last one away."""
    address = urlsplit(operator.process.url("/"))
    with suppress(OSError):
        for _ in range(_HOARDED):
            reached = socket.create_connection(
                (address.hostname or "", address.port or 0), timeout=_ACCEPT_SECONDS
            )
            stack.enter_context(reached)
        try:
            return not reached.recv(1)
        except ConnectionResetError:
            return True
    return False


def _has_none_left(operator: Operated) -> bool:
    with suppress(OSError):  # it may have been killed meanwhile
        return spare(operator.pid) == 0
    return False


def _state(pid: int) -> str:
    """Read what a process does: T where it was stopped."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    return ""


async def _until(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Ask in a thread until the answer is yes, or for so long; return the last answer."""
    deadline = time.monotonic() + seconds
    while True:
        answer = await asyncio.to_thread(condition)
        if answer or time.monotonic() > deadline:
            return answer
        await asyncio.sleep(_PAUSE)


def _leads(operator: Operated) -> bool:
    """Whether it holds the lease, by its own metrics."""
    with suppress(OSError, IndexError):
        return "sandkeeper_leader 1.0" in operator.process.read("/metrics")
    return False


def _is_off(operator: Operated, offset: int) -> bool:
    """Whether its clock is so far off, by the date that its server puts into every answer."""
    try:
        with urllib.request.urlopen(operator.process.url("/healthz"), timeout=2) as answer:
            date = answer.headers["Date"]
    except (OSError, IndexError):
        return False
    found = email.utils.parsedate_to_datetime(date).timestamp() - time.time()
    return abs(found - offset) <= _NOTICED_SECONDS
