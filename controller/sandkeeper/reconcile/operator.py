"""Everything together: from start to SIGTERM.

The order matters. First everything is listed, so that nothing is taken for missing that was only not seen yet; then
the watches run, standbys and all; then the lead is sought, and only keys of namespaces that are led are looked at. On
SIGTERM no new key is taken, what is in hand is finished, and the lead is given back last.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from sandkeeper import __version__
from sandkeeper.api.names import Label
from sandkeeper.api.policy import Backend
from sandkeeper.cluster.api import ApiError, KubeApi
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.events import EventPoster
from sandkeeper.cluster.leadership import AlwaysLeader, Lead, Leadership
from sandkeeper.cluster.leases import LEASE_SECONDS, RETRY_SECONDS
from sandkeeper.cluster.resources import NAMESPACES
from sandkeeper.cluster.sharding import Sharding
from sandkeeper.cluster.slots import SLOTS, slot_of
from sandkeeper.cluster.tasks import lasting
from sandkeeper.config.canonical import EPOCH
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import installation_id
from sandkeeper.config.operator import OperatorConfig, Removals
from sandkeeper.lifecycle import Removal
from sandkeeper.reconcile.belonging import Belonging
from sandkeeper.reconcile.claims import Claims
from sandkeeper.reconcile.counting import Counting
from sandkeeper.reconcile.deadlines import Deadlines
from sandkeeper.reconcile.effects import Effects
from sandkeeper.reconcile.finalizers import Finalizers
from sandkeeper.reconcile.gauges import tell_of_cluster, tell_of_keys, tell_of_process, tell_of_rollouts
from sandkeeper.reconcile.handover import Handover
from sandkeeper.reconcile.keeper import Keeper
from sandkeeper.reconcile.passes import Reconciler
from sandkeeper.reconcile.policies import Policies
from sandkeeper.reconcile.queue import KeyedQueue
from sandkeeper.reconcile.removals import RemovalBudget
from sandkeeper.reconcile.rollouts import Rollouts
from sandkeeper.reconcile.sources import Sources
from sandkeeper.reconcile.tally import Tally
from sandkeeper.reconcile.workers import Workers
from sandkeeper.runtimes.docker import DockerRuntimes
from sandkeeper.runtimes.pod.backend import PodRuntimes
from sandkeeper.runtimes.protocol import Runtimes
from sandkeeper.telemetry.health import HealthServer
from sandkeeper.telemetry.metrics import Metrics
from sandkeeper.telemetry.tracing import tracer

__all__ = ["Operator", "find_installation"]

logger = logging.getLogger(__name__)

_ENDING_SECONDS: Final = 3.0
"""What ends in any case has two, and one is to spare."""
_REQUESTS: Final = 64
"""Connections to the API server at once, besides those of watches, which keep theirs."""
_WATCHED_KINDS: Final = 6
"""At most. Each is watched in each namespace that is named, or once in all."""


def _now() -> datetime:
    return datetime.now(UTC)


async def find_installation(api: KubeApi, config: OperatorConfig) -> str:
    """Return the installation id: this cluster, the operator's namespace, its release."""
    kube_system = await api.get(NAMESPACES, name="kube-system")
    return installation_id(
        kube_system_uid=kube_system["metadata"]["uid"], namespace=config.namespace, release=config.release
    )


class Operator:
    """One operator process."""

    def __init__(self, config: OperatorConfig, *, leader_election: bool, health: tuple[str, int]) -> None:
        self._config = config
        self._leader_election = leader_election
        self._health = health
        self.metrics = Metrics()
        watches = _WATCHED_KINDS * max(1, len(config.watch_namespaces))
        self._connection = Connection(limit=_REQUESTS + watches)
        self._api = KubeApi(self._connection, metrics=self.metrics)
        self._queue: KeyedQueue[RuntimeKey] = KeyedQueue(on_take=self.metrics.queue_seconds.observe)
        self._deadlines: Deadlines[RuntimeKey] = Deadlines(
            now=_now, on_due=self._queue.add_later, on_lag=self.metrics.deadline_lag.observe
        )
        tally = Tally(self.metrics.policies)
        self._claims = Claims(
            config, enqueue=self._queue.add, enqueue_later=self._queue.add_later, tally=tally
        )
        self._lead: Lead = AlwaysLeader()
        self._replacements: RemovalBudget[RuntimeKey] = RemovalBudget(config.replacements, share=self._share)
        self._forbidden = config.removals is Removals.FORBIDDEN
        self._rollouts = Rollouts(
            self._claims,
            rate=self._replacements,
            enqueue=self._queue.add,
            enqueue_later=self._queue.add_later,
            now=_now,
            epoch=EPOCH,
            forbidden=self._forbidden,
            leads=self._leads,
        )
        self._sources = Sources(
            api=self._api,
            connection=self._connection,
            claims=self._claims,
            namespaces=config.watch_namespaces,
            own_namespace=config.namespace,
        )
        self._handover = Handover(catch_up=self._sources.compare_all, on_change=self._take_over)
        self._events = EventPoster(self._api, metrics=self.metrics)
        self._policies = Policies(
            api=self._api,
            claims=self._claims,
            rollouts=self._rollouts,
            events=self._events,
            config=config,
            leads=self._leads,
            now=_now,
        )
        self._runtimes: Mapping[Backend, Runtimes] = {}
        self._stopping = asyncio.Event()
        self._seeking: asyncio.Task[None] | None = None
        self._reconciler: Reconciler | None = None
        self._tracer = tracer(enabled=config.tracing.enabled, version=__version__)
        tell_of_process(self.metrics, slots=lambda: len(self._lead.terms))
        tell_of_rollouts(self.metrics, rollouts=self._rollouts, forbidden=self._forbidden)
        tell_of_cluster(self.metrics, api=self._api, connection=self._connection)
        tell_of_keys(
            self.metrics, queue=self._queue, deadlines=self._deadlines, tally=tally, workers=config.workers
        )

    @property
    def missing(self) -> list[str]:
        """What keeps the operator from being ready."""
        engines = [r.missing for r in self._runtimes.values() if r.missing]
        return self._sources.missing + engines + ([] if self._runtimes else ["the connection to the cluster"])

    def stop(self) -> None:
        """Begin to end."""
        self._stopping.set()

    async def run(self, *, grace: float) -> None:
        """Run until :meth:`stop` or SIGTERM; end within ``grace`` seconds whatever hangs."""
        health = HealthServer(registry=self.metrics.registry, missing=lambda: self.missing)
        port = await health.start(host=self._health[0], port=self._health[1])
        logger.info("Serving probes and metrics on port %d", port)
        main = asyncio.create_task(self._main())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({main, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if main.done():
                main.result()
            await self._wind_down(main, grace=grace)
        finally:
            stopping.cancel()
            await health.stop()
            await self._connection.close()
            await asyncio.to_thread(self._tracer.close)

    async def _main(self) -> None:
        try:
            self._take_signals()
            installation = await self._find_installation()
            self._runtimes = self._make_runtimes(installation)
            if self._leader_election:
                self._lead = self._make_lead(installation)
            self._api.may_write = self._lead.check
            for runtimes in self._runtimes.values():
                runtimes.may_act = self._lead.check
            await self._sources.list_all()
            gc.freeze()  # tens of thousands of objects that stay: to go through them takes a third of a second
            await self._run_tasks()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group

    async def _find_installation(self) -> str:
        delay = 1.0
        while True:
            try:
                return await find_installation(self._api, self._config)
            except ApiError as error:
                logger.warning("Waiting for the API server: %s", error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 15)

    def _make_lead(self, installation: str) -> Lead:
        namespace, release = self._config.namespace, self._config.release
        identity = f"{socket.gethostname()}_{os.getpid()}_{uuid4().hex[:8]}"
        if self._config.sharding.enabled:
            return Sharding(
                self._api,
                namespace=namespace,
                release=release,
                identity=identity,
                labels={Label.INSTALLATION: installation},
                hands=self,
            )
        return Leadership(self._api, namespace=namespace, release=release, identity=identity)

    def passing(self) -> Iterable[str]:
        """Return the namespaces that are being worked on, or written to."""
        yield from (key.namespace for key in self._queue.in_hand)
        yield from self._api.writing

    def lasting(self) -> Iterable[str]:
        """Return the namespaces in which setupCommands run."""
        if self._reconciler is not None:
            yield from (key.namespace for key in self._reconciler.setups.keys)

    def _make_runtimes(self, installation: str) -> Mapping[Backend, Runtimes]:
        made: dict[Backend, Runtimes] = {}
        if Backend.DOCKER in self._config.backends:
            made[Backend.DOCKER] = DockerRuntimes(
                settings=self._config.docker,
                ceilings=self._config.ceilings,
                installation=installation,
                metrics=self.metrics,
            )
        if Backend.POD in self._config.backends:
            pods = made[Backend.POD] = PodRuntimes(
                self._config.pod,
                self._config.ceilings,
                installation,
                api=self._api,
                connection=self._connection,
                is_live=self._claims.is_live,
                removals_forbidden=self._forbidden,
            )
            for resource, cache in pods.watched:
                self._sources.also(resource, cache, selector=pods.selector)
        return made

    async def _run_tasks(self) -> None:
        reconciler = self._reconciler = self._make_reconciler()
        async with asyncio.TaskGroup() as group:

            def start(what: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
                return group.create_task(lasting(what))

            start(self._sources.watch())
            await self._sources.watching()
            self._take_signals()  # kopf has taken them meanwhile; ours end in order
            start(self._sources.keep_exact())
            start(self._deadlines.run())
            start(self._events.run())
            start(self._rollouts.run())
            start(self._policies.run())
            for runtimes in self._runtimes.values():
                start(runtimes.run(self._queue.add_first))
            start(self._handover.run())
            self._seeking = start(self._lead.run(self._handover.change))
            start(self._sweep())
            workers = self._make_workers(reconciler)
            for _ in range(self._config.workers):
                start(workers.work())

    def _make_reconciler(self) -> Reconciler:
        keeper = Keeper(api=self._api, claims=self._claims, events=self._events, lead=self._lead)
        return Reconciler(
            api=self._api,
            claims=self._claims,
            belonging=Belonging(self._claims, self._runtimes),
            effects=Effects(self._runtimes, self.metrics),
            counting=Counting(self.metrics),
            keeper=keeper,
            finalizers=Finalizers(keeper=keeper, claims=self._claims, metrics=self.metrics),
            lead=self._lead,
            budgets={
                Removal.REPLACE: self._replacements,
                Removal.PRUNE: RemovalBudget(self._config.prunes, share=self._share),
            },
            rollouts=self._rollouts,
            removals_forbidden=self._forbidden,
            queue=self._queue,
            deadlines=self._deadlines,
            now=_now,
            epoch=EPOCH,
        )

    def _make_workers(self, reconciler: Reconciler) -> Workers:
        return Workers(
            reconciler=reconciler,
            queue=self._queue,
            deadlines=self._deadlines,
            leads=self._leads,
            is_stopping=self._stopping.is_set,
            metrics=self.metrics,
            tracer=self._tracer,
            now=_now,
        )

    def _leads(self, namespace: str) -> bool:
        return self._handover.is_ready(namespace) and self._lead.leads(namespace)

    def _share(self) -> float:
        return len(self._lead.terms) / SLOTS

    def _take_over(self, lost: frozenset[int], gained: frozenset[int]) -> None:
        """Forget what must not be believed of what others may lead now, and look at all that came to be led."""

        def is_lost(namespace: str) -> bool:
            return slot_of(namespace) in lost

        leading = bool(self._lead.terms)
        self.metrics.leader.set(leading)
        self._rollouts.lead(leading=leading, is_lost=is_lost)
        if self._reconciler is not None:
            self._reconciler.forget_fresh(is_lost)
        keys = self._claims.keys()
        self._look_at(key for key in keys if slot_of(key.namespace) in gained)
        self._look_for_orphans()

    def _look_at(self, keys: Iterable[RuntimeKey]) -> None:
        for key in keys:
            self._queue.add_later(key)

    def _look_for_orphans(self) -> None:
        for runtimes in self._runtimes.values():
            keys = runtimes.keys()
            self._look_at(key for key in keys if not self._claims.of(key))

    async def _sweep(self) -> None:
        """Look for what nobody claims: once everything has been listed, and now and then."""
        while True:
            listed = not any(runtimes.missing for runtimes in self._runtimes.values())
            if listed:
                self._look_for_orphans()
            await asyncio.sleep(self._config.docker.sweep_seconds if listed else 1)

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread: somebody embeds us
                loop.add_signal_handler(number, self.stop)

    async def _wind_down(self, main: asyncio.Task[None], *, grace: float) -> None:
        logger.info("Stopping: finishing what is in hand")
        end = time.monotonic() + grace - _ENDING_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, end - time.monotonic() - RETRY_SECONDS)):
                await self._queue.idle()
                if self._reconciler is not None:
                    await self._reconciler.setups.finish()
        if self._seeking is not None:
            self._seeking.cancel()  # or it would take again what is given back
        # A slow API server is given all the time there is, but for what would have expired by then.
        await self._lead.release(seconds=min(LEASE_SECONDS, max(RETRY_SECONDS, end - time.monotonic())))
        self._sources.stop()
        main.cancel()
        _, pending = await asyncio.wait({main}, timeout=_ENDING_SECONDS - 1)
        if pending:
            logger.warning("Stopping with %d keys in hand", self._queue.working)
