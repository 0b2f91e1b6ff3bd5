"""Runtimes as containers of one Docker engine.

A container is ours by its labels and by nothing else; before anything is done to one it is inspected and proven. Names
are only there to be taken: they keep two creations of one key from both succeeding.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from docker import APIClient

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Transient
from sandkeeper.api.policy import Backend
from sandkeeper.cluster.tasks import lasting
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import Ceilings, DockerSettings
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.lifecycle.model import Observed, RuntimeState, Unreachable
from sandkeeper.runtimes.docker import inspection
from sandkeeper.runtimes.docker.containers import Containers, answered
from sandkeeper.runtimes.docker.creation import Creation
from sandkeeper.runtimes.docker.engine import Engine
from sandkeeper.runtimes.docker.setup import SetupRun
from sandkeeper.runtimes.docker.transport import Connect, from_environment
from sandkeeper.runtimes.docker.watch import Watch
from sandkeeper.runtimes.docker.workspaces import Workspaces
from sandkeeper.runtimes.protocol import Notice, OnChange, Order, Owner
from sandkeeper.telemetry import catalogue
from sandkeeper.telemetry.metrics import EngineMetrics, Metrics

__all__ = ["DockerRuntimes"]

_STOP_SECONDS: Final = 5
"""Between SIGTERM and SIGKILL. What runs is `sleep`, which init ends at once; without init it ignores SIGTERM."""


_DOOMED: Final = "The engine did not say what became of its removal, which may still take place."


class DockerRuntimes:
    """The runtimes of one installation on one Docker engine. Nothing is asked of the engine before it is needed."""

    backend = Backend.DOCKER

    def __init__(
        self,
        settings: DockerSettings,
        ceilings: Ceilings,
        installation: str,
        *,
        connect: Connect = from_environment,
        metrics: Metrics | None = None,
    ) -> None:
        self.may_act: Callable[[str], None] = _always
        """See the protocol. It is called on threads."""
        metrics = metrics if metrics is not None else Metrics()
        self._engine = Engine(
            settings, connect=connect, may_act=self._may_act_now, metrics=EngineMetrics(metrics)
        )
        self._watch = Watch(self._engine, installation=installation, sweep_seconds=settings.sweep_seconds)
        metrics.collect_one(catalogue.ENGINE_UP, self._engine.reachable.is_set)
        metrics.collect_one(catalogue.ENGINE_CONTAINERS, lambda: len(self._watch.containers))
        self._containers = Containers(
            self._engine, self._watch, installation=installation, timeout=settings.timeout_seconds
        )
        self._workspaces = Workspaces(
            self._engine,
            watch=self._watch,
            settings=settings,
            ceilings=ceilings,
            installation=installation,
        )
        self._creation = Creation(
            self._engine,
            watch=self._watch,
            containers=self._containers,
            workspaces=self._workspaces,
            installation=installation,
            max_containers=settings.max_containers,
        )
        self._stopped: set[str] = set()
        """Containers that this process stopped: a SIGKILL at the end of the grace is no failure then."""
        self._setups: set[str] = set()
        """Ids of setupCommands that run; they are no use of a sandbox."""

    def _may_act_now(self, namespace: str) -> None:
        self.may_act(namespace)

    # --- what is there ------------------------------------------------------------------------------------------------

    async def run(self, on_change: OnChange) -> None:
        """Watch the engine until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(lasting(self._engine.keep()))
                tasks.create_task(lasting(self._watch.run(on_change)))
                tasks.create_task(lasting(self._workspaces.run()))
        finally:
            self.close()

    def close(self) -> None:
        """Let go of connections and threads, without waiting for any; :meth:`run` does so when it ends."""
        self._engine.close()
        self._workspaces.close()

    @property
    def missing(self) -> str | None:
        """What has not been listed yet; keys of other backends need not wait for it, and keys of this one say why."""
        return None if self._watch.was_listed else "the containers of the Docker engine"

    @property
    def is_certain(self) -> bool:
        """Whether the engine's events are being heard."""
        return self._watch.is_live

    def knows(self, key: RuntimeKey) -> bool:
        """Whether a container of the key is there, or cannot be excluded."""
        if not self._watch.is_live:
            self._watch.await_engine(key)
            return True
        return bool(self._watch.ids(key))

    def keys(self) -> frozenset[RuntimeKey]:
        """Every key of this installation of which a container is there, as of the last time that the engine was."""
        return self._watch.keys()

    async def observe(
        self, key: RuntimeKey, *, node: str | None, name: str | None = None
    ) -> Observed | Unreachable | None:
        """Look at the key's container, which is found by its labels."""
        del name
        try:
            return await self._observe(key, node)
        except Transient as error:
            if error.reason is not Reason.ENGINE_UNREACHABLE:
                raise
            self._watch.await_engine(key)
            return Unreachable(reason=error.reason, message=error.message)

    async def _observe(self, key: RuntimeKey, node: str | None) -> Observed | Unreachable | None:
        await self._engine.client()
        identity = self._engine.identity or ""
        if node not in {None, identity}:
            return self._mismatch(key, recorded=node, found=identity)
        container = await self._containers.find(key)
        if container is None:
            # The engine may have become another one since it was last asked who it is: never call that "missing".
            if node is not None and (found := await self._engine.identify()) != node:
                return self._mismatch(key, recorded=node, found=found)
            return None
        if self._containers.is_doomed(container["Id"]):
            seen = inspection.observed(container, node=identity, in_use=False)
            return replace(seen, state=RuntimeState.TERMINATING, ended=None, message=_DOOMED)
        return inspection.observed(
            container,
            node=identity,
            in_use=await self._containers.in_use(container, besides=self._setups),
            stopped_by_us=container["Id"] in self._stopped,
        )

    def _mismatch(self, key: RuntimeKey, *, recorded: str | None, found: str) -> Unreachable:
        self._watch.await_engine(key)
        return Unreachable(
            reason=Reason.ENGINE_MISMATCH,
            message=f"The container is recorded on the Docker engine {recorded}, and the operator is connected to "
            f"{found}. Connect it to the recorded engine again; if that one is gone for good, delete the "
            "Sandbox and make another.",
        )

    # --- what is done -------------------------------------------------------------------------------------------------

    async def preflight(self, order: Order) -> None:
        """Find out, without changing anything, whether :meth:`create` could make the container."""
        await self._creation.preflight(order)

    async def create(self, order: Order) -> Observed:
        """Make the container and start it, or take the one that was made for the same order before."""
        return await self._creation.create(order)

    def began(self, runtime_id: str) -> bool:
        """Whether a setupCommand may have begun in it."""
        return self._creation.began(runtime_id)

    async def start(self, runtime_id: str, *, key: RuntimeKey) -> None:
        """Start it again as it is."""
        found = await self._containers.prove(runtime_id, key)
        if found is None:
            raise Transient(Reason.START_FAILED, "The container is gone.")
        self._creation.note_found(found)
        await self._creation.start_again(found, key)
        self._stopped.discard(runtime_id)

    async def stop(self, runtime_id: str, *, key: RuntimeKey) -> None:
        """Stop it and keep it."""
        if await self._containers.prove(runtime_id, key) is None:
            return

        def stop(client: APIClient) -> None:
            self._stopped.add(runtime_id)
            client.stop(runtime_id, timeout=_STOP_SECONDS)

        with answered(Reason.STOPPED, "stopping the container"):
            await self._engine.change(stop, namespace=key.namespace, extra=_STOP_SECONDS)
        self._watch.note(runtime_id, key, running=False)

    async def setup(self, runtime_id: str, order: Order) -> None:
        """Run the setupCommand, as the user of the container and within its limit of time."""
        if await self._containers.prove(runtime_id, order.key) is None:
            raise Transient(Reason.SETUP_FAILED, "The container is gone.")
        loop = asyncio.get_running_loop()
        watched: list[tuple[str, asyncio.TimerHandle]] = []

        def began(exec_id: str) -> None:
            timer = loop.call_later(order.config.setup_timeout_seconds, run.stop_reading)
            watched.append((exec_id, timer))
            self._setups.add(exec_id)

        def guard() -> None:
            self._engine.guard(order.key.namespace)
            self._creation.note_begun(runtime_id)

        run = SetupRun(
            runtime_id,
            order.config,
            began=lambda exec_id: loop.call_soon_threadsafe(began, exec_id),
            guard=guard,
        )
        try:
            with answered(Reason.SETUP_FAILED, "running the setupCommand"):
                await self._engine.setup_call(run)
        finally:
            run.stop_reading()
            for exec_id, timer in watched:
                timer.cancel()
                self._setups.discard(exec_id)

    async def uphold(
        self,
        key: RuntimeKey,
        *,
        runtime_id: str | None,
        owners: Sequence[Owner],
        config: RuntimeConfig | None,
        use: str,
    ) -> Sequence[Notice] | None:
        """Keep its workspace up to date. That it belongs to its owners a finalizer on them stands for."""
        del owners
        if runtime_id is None or config is None:
            return self._workspaces.known(key)
        return await self._workspaces.uphold(key, config, use=use)

    async def remove(self, runtime_id: str, *, key: RuntimeKey, unused: bool = False) -> None:
        """Remove it; gone already is a success. ``unused``: not while a command of a user runs in it.

        With it goes whatever else the key has that does not run, which can only be left from a creation given up.
        """
        await self._containers.remove(runtime_id, key, unless_used_besides=self._setups if unused else None)
        self._stopped.discard(runtime_id)
        self._creation.note_begun(runtime_id)
        self._workspaces.forget(key)
        for left in [one for one in self._watch.ids(key) if not self._watch.containers[one].running]:
            await self._containers.remove(left, key)


def _always(_namespace: str) -> None:
    """Let everything happen."""
