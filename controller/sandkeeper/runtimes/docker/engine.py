"""The connection to one Docker engine, which may be down, hang, come back, or be another one than yesterday.

Every call runs on a thread of our own and ends for its caller within the time-out. A few failures in a row open the
circuit: callers are refused at once, and those that wait are let go. :meth:`Engine.keep` then asks until the engine is
back, learns which engine it is, and closes the circuit.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import requests
import urllib3
from docker import APIClient
from docker.errors import APIError, DockerException

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Transient
from sandkeeper.config.operator import DockerSettings
from sandkeeper.runtimes.docker.failures import why_unreachable
from sandkeeper.runtimes.docker.operations import result_of
from sandkeeper.runtimes.docker.pool import DaemonPool
from sandkeeper.runtimes.docker.transport import Client, Connect, from_environment, socket_of
from sandkeeper.telemetry.metrics import EngineMetrics

__all__ = ["Backoff", "Engine"]

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

_FAILURES: Final = 3
"""In a row: the circuit opens."""
_BEAT: Final = 5.0
"""Seconds between two questions whether the engine is there, while all is well; and how long one may take."""
_SLACK: Final = 1.0
"""Seconds that the HTTP time-out has in advance of ours, whose message says less."""

_LOST: Final = (requests.RequestException, urllib3.exceptions.HTTPError, DockerException, OSError)
"""What docker-py raises where there was no answer, or none that makes sense."""


class _Barred(Exception):  # noqa: N818 - it only carries the error from the thread to the caller
    """We may not act at this moment; ``error`` says why."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True)
class _Told:
    """What an engine says of itself."""

    identity: str
    files: frozenset[str]
    """Paths of the host that are the engine's own: where it keeps its data, and the socket that we reach it by."""


class Backoff:
    """Growing pauses between attempts, no two operators' alike."""

    _FIRST: Final = 0.2
    _LONGEST: Final = 5.0

    def __init__(self) -> None:
        self._pause = self._FIRST

    def next(self) -> float:
        """Return how many seconds to wait now."""
        pause, self._pause = self._pause, min(self._LONGEST, self._pause * 2)
        return pause * random.uniform(0.75, 1)  # noqa: S311 - it spreads load, and keeps no secret

    def reset(self) -> None:
        """Begin again: it worked."""
        self._pause = self._FIRST


class Engine:
    """One engine. Nothing is asked of it before the first call."""

    def __init__(
        self,
        settings: DockerSettings,
        *,
        connect: Connect = from_environment,
        may_act: Callable[[str], None] = lambda _namespace: None,
        metrics: EngineMetrics | None = None,
    ) -> None:
        self._may_act = may_act
        self._metrics = metrics
        self._timeout = settings.timeout_seconds
        self._make_client = connect
        self._calls = DaemonPool(size=settings.workers, name="docker-call")
        self._setups = DaemonPool(size=settings.setup_workers, name="docker-setup")
        # Apart, so that the question whether the engine is back never queues behind calls that hang.
        self._beats = DaemonPool(size=2, name="docker-beat")
        self._client: APIClient | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: set[asyncio.Future[object]] = set()
        self._failures = 0
        self._problem: str | None = None
        self._why: str | None = None
        """What the first failure since the engine last answered said; others differ, and it is one trouble."""
        self._doubted = False
        """A call failed since the engine was last seen to be there."""
        self._suspect = asyncio.Event()
        self._told: _Told | None = None
        self.identified_at = float("-inf")
        """When it was last learnt which engine this is, by the monotonic clock."""
        self.reachable = asyncio.Event()
        """Set while the circuit is closed and it is known which engine this is."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when the engine comes, goes, turns out to be another one, or is there after all."""

    @property
    def identity(self) -> str | None:
        """The engine's own id, as of the last connection; None: there was none yet."""
        return None if self._told is None else self._told.identity

    @property
    def files(self) -> frozenset[str]:
        """Paths of the host that are the engine's own, as of the last connection."""
        return frozenset() if self._told is None else self._told.files

    @property
    def problem(self) -> Transient | None:
        """Why the circuit is open; None: it is closed."""
        return None if self._problem is None else self._unreachable(self._problem)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(self, call: Callable[[APIClient], T], *, extra: float = 0) -> T:
        """Carry out one call; ``extra`` is how many seconds more than usual it may take.

        Raises what the engine answers (:class:`docker.errors.APIError`), and Transient where it does not answer.
        """
        client = await self.client()
        return await self._run(self._calls, lambda: call(client), seconds=self._timeout + extra)

    async def change(self, call: Callable[[APIClient], T], *, namespace: str, extra: float = 0) -> T:
        """Carry out one call that changes something of a namespace, if :meth:`guard` lets it.

        Raises as :meth:`call` does, and what the guard's answer to "may we act?" is.
        """
        client = await self.client()

        def guarded() -> T:
            self.guard(namespace)
            return call(client)

        return await self._run(self._calls, guarded, seconds=self._timeout + extra)

    def guard(self, namespace: str) -> None:
        """Ask whether we may act on a namespace, on the thread that is about to: what went before may have taken long.

        What it raises reaches the caller as the error that was the answer.
        """
        try:
            self._may_act(namespace)
        except Exception as error:
            raise _Barred(error) from error

    async def setup_call(self, call: Callable[[APIClient], T]) -> T:
        """Carry out what belongs to a setupCommand, on threads apart. It has to watch its own time."""
        client = await self.client()
        return await self._run(self._setups, lambda: call(client), seconds=None)

    async def client(self) -> APIClient:
        """Return the client, connected; for calls that look after their own time."""
        if self._problem is not None:
            raise self._unreachable(self._problem)
        if self._client is None:
            await self._connect_once()
        if self._client is None:
            raise self._unreachable("it went away")
        return self._client

    async def identify(self) -> str:
        """Ask which engine answers at this moment, whatever the last connection said."""
        try:
            found = await self.call(_ask)
        except APIError as error:
            raise self._failed(error) from error
        if found.identity != self.identity:
            # Connections that are still open may be the former engine's.
            self.drop_client()
            self._identify_as(found)
        return found.identity

    def suspect(self) -> None:
        """Have the engine asked at once whether it is there; something made us doubt it."""
        self._suspect.set()

    async def _run(self, pool: DaemonPool, call: Callable[[], T], *, seconds: float | None) -> T:
        job = pool.submit(call)
        self._waiting.add(job)  # type: ignore[arg-type] # a future of any result
        try:
            async with asyncio.timeout(None if seconds is None else seconds + _SLACK):
                result = await job
        except APIError:
            self._answered()  # though not what we hoped for
            raise
        except _Barred as barred:
            raise barred.error from None
        except _LOST as error:
            raise self._failed(error) from error
        finally:
            self._waiting.discard(job)
        self._answered()
        return result

    def _answered(self) -> None:
        self._failures = 0
        self._why = None

    # --- the circuit --------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Keep asking whether the engine is there, until cancelled."""
        backoff = Backoff()
        while True:
            if await self._beat():
                backoff.reset()
                pause = _BEAT
                if self._doubted:
                    self._doubted = False
                    self.on_change()
            else:
                pause = backoff.next()
                # What failed just now says nothing new, and must not make us ask without a pause.
                self._suspect.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._suspect.wait()
            self._suspect.clear()

    async def _beat(self) -> bool:
        try:
            if self._client is None or self._problem is not None:
                await self._connect_once()
            else:
                client, seconds = self._client, min(_BEAT, self._timeout)
                ping = partial(client.get, f"{client.base_url}/_ping", timeout=seconds)
                await self._run(self._beats, ping, seconds=seconds)
        except (Transient, APIError):
            return False
        return True

    async def _connect_once(self) -> None:
        """Connect, together with all others who want to at this moment."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        await asyncio.shield(self._connecting)

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have

    async def _connect(self) -> None:
        job = self._beats.submit(self._open, discard=lambda opened: opened[0].close())
        try:
            async with asyncio.timeout(self._timeout + _SLACK):
                client, told = await job
        except _LOST as error:
            raise self._failed(error) from error
        self.drop_client()
        self._client = client
        self._answered()
        was, self._problem = self._problem, None
        if was is not None:
            _LOG.info("The Docker engine %s answers again", told.identity)
        self.reachable.set()
        self._identify_as(told)

    def _open(self) -> tuple[APIClient, _Told]:
        client = self._make_client(self._timeout)
        if self._metrics is not None and isinstance(client, Client):
            client.tell = partial(_count, self._metrics)
        try:
            return client, _ask(client)
        except BaseException:
            client.close()
            raise

    def _identify_as(self, told: _Told) -> None:
        if self.identity not in {None, told.identity}:
            _LOG.warning("The Docker engine is another one: %s, before %s", told.identity, self.identity)
        self._told = told
        self.identified_at = time.monotonic()
        self.on_change()

    def _failed(self, error: BaseException) -> Transient:
        """Note that the engine did not answer, and return what to tell the caller."""
        if isinstance(error, Transient):
            return error
        # One text until the engine is back: it gets into the status of every Sandbox, and each change is a write.
        why = self._why = self._problem or self._why or why_unreachable(error)
        self._failures += 1
        self._doubted = True
        self._suspect.set()
        if self._failures >= _FAILURES and self._problem is None:
            self._open_circuit(why)
        return self._unreachable(why)

    def _open_circuit(self, why: str) -> None:
        _LOG.warning("The Docker engine cannot be reached: %s", why)
        self._problem = why
        self.reachable.clear()
        self.drop_client()
        for job in [job for job in self._waiting if not job.done()]:
            job.set_exception(self._unreachable(why))
        self.on_change()

    @staticmethod
    def _unreachable(why: str) -> Transient:
        return Transient(
            Reason.ENGINE_UNREACHABLE,
            f"The Docker engine cannot be reached: {why}. Nothing is changed until it is back.",
        )

    def drop_client(self) -> None:
        """Close the connections; the next call opens others."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def close(self) -> None:
        """Let go of connections and threads; whatever is called later opens them again."""
        self.drop_client()
        for pool in (self._calls, self._setups, self._beats):
            pool.close()


def _count(metrics: EngineMetrics, operation: str, seconds: float, status: int | None) -> None:
    """Count one request, on the thread that made it."""
    metrics.seconds[operation,].observe(seconds)
    metrics.requests[operation, result_of(status)].inc()


def _ask(client: APIClient) -> _Told:
    found: object = client.info()
    if not isinstance(found, dict):
        found = {}
    identity = found.get("ID")
    if not isinstance(identity, str) or not identity:
        raise DockerException("what answers there does not say which Docker engine it is")
    files = {path for path in (found.get("DockerRootDir"), socket_of(client)) if isinstance(path, str)}
    return _Told(identity, frozenset(path for path in files if path.startswith("/")))
