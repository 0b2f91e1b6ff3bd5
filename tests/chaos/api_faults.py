"""What may happen between the operator and the API server, or to the API server itself."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from chaos.faults import Fault, MissedError
from chaos.scene import Scene
from support.cluster import OwnCluster
from support.trouble import PASS, Asked, Fate, Judge, Refusal

__all__ = ["api_faults", "lasting_faults", "server_faults"]

_SHORT: Final = (0.5, 4.0)
_EVENT_SECONDS: Final = 4.0
_GONE_SECONDS: Final = 15.0
"""How long at most it is waited for somebody to notice."""
_BROKEN: Final = (
    Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError"),
    Refusal(HTTPStatus.BAD_GATEWAY),
    Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    Refusal(HTTPStatus.GATEWAY_TIMEOUT, "Timeout"),
)
_CONFLICT: Final = Refusal(HTTPStatus.CONFLICT, "Conflict")


def api_faults() -> list[Fault]:
    """Return one of each that needs no API server of one's own."""
    return [
        Cut(),
        *(Judged(name, make) for name, make in _JUDGES.items()),
        TornWatch(),
        SilentWatch(),
        RepeatedEvents(),
        ExpiredToken(),
    ]


def server_faults() -> list[Fault]:
    """Return those that only an API server takes that nobody else uses."""
    return [Crashed(), Forgetful()]


def lasting_faults() -> list[Fault]:
    """Return those of which the operator finds out only after a minute: for storms that last longer."""
    return [DeadWatch()]


@dataclass(frozen=True)
class Cut:
    """The API server is not there: all connections end, and new ones are refused."""

    name: str = "API server not reached"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Cut the way for some seconds."""
        open_before = await asyncio.to_thread(scene.api.open_watches)
        await asyncio.to_thread(scene.api.cut)
        try:
            await asyncio.sleep(chance.uniform(*_SHORT))
        finally:
            await asyncio.to_thread(scene.api.heal)
        if not open_before:
            raise MissedError("nobody was connected")


def _slow(chance: random.Random) -> Judge:
    return lambda _: Fate(delay=chance.uniform(0.05, 1.5))


def _too_many(chance: random.Random) -> Judge:
    """Turn most away, as an API server does that has more than enough to do."""
    refusal = Refusal(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", {"Retry-After": "1"})
    return lambda _: Fate(refusal=refusal) if chance.random() < 0.7 else PASS


def _conflict(chance: random.Random) -> Judge:
    """Say to every n-th write that somebody was quicker."""
    every, counts = chance.randint(1, 5), Counter[str]()

    def judge(asked: Asked) -> Fate:
        if asked.verb not in {"patch", "update"}:
            return PASS
        counts["writes"] += 1
        return PASS if counts["writes"] % every else Fate(refusal=_CONFLICT)

    return judge


def _broken(chance: random.Random) -> Judge:
    return lambda _: Fate(refusal=chance.choice(_BROKEN)) if chance.random() < 0.5 else PASS


def _lost(chance: random.Random) -> Judge:
    return lambda asked: Fate(lost=asked.writes and chance.random() < 0.5)


_JUDGES: Final[dict[str, Callable[[random.Random], Judge]]] = {
    "API server slow": _slow,
    "429 with Retry-After": _too_many,
    "409 on the n-th write": _conflict,
    "5xx": _broken,
    "answer to a write lost": _lost,
}


@dataclass(frozen=True)
class Judged:
    """For some seconds requests are not simply passed on."""

    name: str
    make: Callable[[random.Random], Judge]

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Judge them; it hit if at least one was struck."""
        # It is asked in another thread, at moments that nobody chose: so it has a chance of its own.
        own = random.Random(chance.random())  # noqa: S311 - to be repeated
        with scene.api.judged_by(self.make(own)) as struck:
            await asyncio.sleep(chance.uniform(*_SHORT))
        if not struck:
            raise MissedError("nobody asked for anything")


@dataclass(frozen=True)
class TornWatch:
    """A watch ends in the middle of a line."""

    name: str = "watch cut in the middle of a line"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Tear every watch at its next event, and wait for the first that is."""
        del chance
        before = scene.api.torn
        await asyncio.to_thread(scene.api.tear_watches)
        try:
            await _until(lambda: scene.api.torn > before, "there was no event")
        finally:
            await asyncio.to_thread(lambda: scene.api.tear_watches(anyway=False))


@dataclass(frozen=True)
class SilentWatch:
    """The watches say nothing for a while, as when packets get lost; then their connections end."""

    name: str = "watch silent"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Silence all that are open."""
        silent = await asyncio.to_thread(scene.api.freeze_watches)
        try:
            await asyncio.sleep(chance.uniform(*_SHORT))
        finally:
            await asyncio.to_thread(scene.api.end_frozen)
        if not silent:
            raise MissedError("there was no watch")


@dataclass(frozen=True)
class DeadWatch:
    """The watches say nothing any more, for good: it is up to the operator to notice."""

    name: str = "watch silent for good"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Silence all that are open, and leave it at that."""
        del chance
        if not await asyncio.to_thread(scene.api.freeze_watches):
            raise MissedError("there was no watch")


@dataclass(frozen=True)
class RepeatedEvents:
    """Events come once more, older than what is known, in any order."""

    name: str = "stale and repeated events"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Let every watch say some of what it said before."""
        if not await asyncio.to_thread(scene.api.repeat_events, chance):
            raise MissedError("nothing had been said yet")


@dataclass(frozen=True)
class ExpiredToken:
    """The operator's token expires, and there is a new one where it had that from."""

    name: str = "token expired"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Renew it, and wait until the operator was told so."""
        del chance
        before = scene.api.count(status=HTTPStatus.UNAUTHORIZED)
        await asyncio.to_thread(scene.api.renew_token)
        await _until(
            lambda: scene.api.count(status=HTTPStatus.UNAUTHORIZED) > before, "nobody came with the old one"
        )


@dataclass(frozen=True)
class Crashed:
    """The API server is killed, and started again."""

    name: str = "API server killed"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Kill it, and start it again a while later; it hit if somebody was connected."""
        cluster = _own(scene)
        watched = await asyncio.to_thread(scene.api.open_watches)
        await asyncio.to_thread(cluster.kill_api_server)
        try:
            await asyncio.sleep(chance.uniform(*_SHORT))
            left = await asyncio.to_thread(scene.api.open_watches)
        finally:
            await asyncio.to_thread(cluster.start_api_server)
        if not watched or left:
            raise MissedError("nobody was connected, or still is")


@dataclass(frozen=True)
class Forgetful:
    """The operator is cut off, and what happens meanwhile is gone from history when it is back: a real 410."""

    name: str = "history lost (410)"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Cut it off, let things happen, let etcd and the API server forget them; it hit if somebody was told 410."""
        cluster, before = _own(scene), scene.api.gone
        await asyncio.to_thread(scene.api.cut)
        try:
            await asyncio.sleep(chance.uniform(*_SHORT))
            await asyncio.to_thread(cluster.stop_api_server)
            try:
                await asyncio.to_thread(cluster.compact_etcd)
            finally:
                await asyncio.to_thread(cluster.start_api_server)
        finally:
            await asyncio.to_thread(scene.api.heal)
        await _until(
            lambda: scene.api.gone > before, "nobody was told that history is gone", seconds=_GONE_SECONDS
        )


def _own(scene: Scene) -> OwnCluster:
    if not isinstance(scene.cluster, OwnCluster):
        raise TypeError("the API server is everybody's")
    return scene.cluster


async def _until(condition: Callable[[], bool], otherwise: str, *, seconds: float = _EVENT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise MissedError(otherwise)
        await asyncio.sleep(0.1)
