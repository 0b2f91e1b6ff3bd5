"""How a container comes to be: two calls where all goes well, and an inspection to see that it did."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from docker import APIClient
from docker.errors import APIError, ImageNotFound

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient
from sandkeeper.api.names import Label
from sandkeeper.config.builtin import FALLBACK_IMAGE
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import labels, runtime_name
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.lifecycle.model import Observed, RuntimeState
from sandkeeper.runtimes.docker import failures, inspection
from sandkeeper.runtimes.docker.arguments import create_body, has_volume
from sandkeeper.runtimes.docker.containers import Containers, answered
from sandkeeper.runtimes.docker.engine import Engine
from sandkeeper.runtimes.docker.inspection import Inspection
from sandkeeper.runtimes.docker.places import labels_of, writes_of
from sandkeeper.runtimes.docker.volumes import Volumes
from sandkeeper.runtimes.docker.watch import Watch
from sandkeeper.runtimes.docker.workspaces import Found, Workspaces
from sandkeeper.runtimes.protocol import Order

__all__ = ["Creation"]

_BUILT_IN_NETWORKS: Final = frozenset({"none", "host"})
_OF_CONTAINER: Final = "container:"
_GONE: Final = "The container was removed by somebody as soon as it was made."


class Creation:
    """Makes containers of one installation on one engine."""

    def __init__(
        self,
        engine: Engine,
        *,
        watch: Watch,
        containers: Containers,
        workspaces: Workspaces,
        installation: str,
        max_containers: int,
    ) -> None:
        self._engine = engine
        self._watch = watch
        self._containers = containers
        self._workspaces = workspaces
        self._volumes = Volumes(engine, watch=watch, installation=installation)
        self._installation = installation
        self._max_containers = max_containers
        self._making: set[RuntimeKey] = set()
        self._unbegun: set[str] = set()
        """Containers that were made or first started here, and in which no setupCommand began since."""

    async def preflight(self, order: Order) -> None:
        """Find out whether :meth:`create` could do it, as far as that can be seen from outside."""
        found = await self._workspaces.look(order.key, order.config)
        with self._workspaces.reserved(order.key, found.layout):
            pass  # it could be
        await self._check_image(order.config)
        await self._check_network(order.config.network)
        name = self._name(order)
        there = await self._containers.inspect(name)
        if there is not None and not inspection.is_ours(there, order.key, self._installation):
            raise _foreign(name)

    async def create(self, order: Order) -> Observed:
        """Create the container and start it, or take the one that was made for the same order before."""
        found = await self._workspaces.look(order.key, order.config)
        with self._workspaces.reserved(order.key, found.layout):
            if not self._watch.is_live:
                await self._engine.identify()
            async with self._place(order.key):
                await self._prepare(order, found)
                container_id = await self._make(order, found)
                if container_id is None:
                    return await self._adopt(order)
            try:
                if has_volume(order.config):
                    await self._give_volume(container_id, order.key)
                await self.start(container_id, order.key)
            except SandkeeperError as error:
                # Where the engine is out of reach, the container stays, and the next attempt takes it.
                if error.reason is not Reason.ENGINE_UNREACHABLE:
                    with suppress(SandkeeperError):
                        await self._containers.remove(container_id, order.key)
                raise
        return await self._result(container_id, order)

    def began(self, container_id: str) -> bool:
        """Whether a setupCommand may have begun in it: always, unless it was made or first started here."""
        return container_id not in self._unbegun

    def note_begun(self, container_id: str) -> None:
        """Take in that a setupCommand begins in it, or that it is gone. May be called on any thread."""
        self._unbegun.discard(container_id)

    def note_found(self, container: Inspection) -> None:
        """Take in how a container was found that is to be started, or is taken as it is."""
        if not inspection.ever_ran(container):
            self._unbegun.add(container["Id"])

    async def start(self, container_id: str, key: RuntimeKey) -> None:
        """Start a container that is proven ours."""
        # Beforehand, so that the event of our own doing is no news.
        self._watch.note(container_id, key, running=True)
        try:
            await self._engine.change(lambda client: client.start(container_id), namespace=key.namespace)
        except APIError as error:
            self._watch.note(container_id, key, running=False)
            raise failures.of_start(error, container_id) from error
        except Transient:
            raise  # it may have been started all the same
        except Exception:
            self._watch.note(container_id, key, running=False)
            raise

    async def start_again(self, container: Inspection, key: RuntimeKey) -> None:
        """Start one that was made before, if what it has of the host may still be mounted."""
        async with self._workspaces.rechecked(key, container):
            if not inspection.ever_ran(container):
                await self._volumes.give(key, container)
            await self.start(container["Id"], key)

    # --- what has to be there -----------------------------------------------------------------------------------------

    async def _check_image(self, config: RuntimeConfig) -> None:
        with answered(Reason.ENGINE_UNREACHABLE, "inspecting the image"):
            for image in _images(config):
                with suppress(ImageNotFound):
                    await self._engine.call(partial(APIClient.inspect_image, image=image))
                    return
        raise failures.image_missing(*_images(config))

    async def _check_network(self, network: str) -> None:
        if network in _BUILT_IN_NETWORKS:
            return
        other = network.removeprefix(_OF_CONTAINER)
        if other != network:
            found = await self._containers.inspect(other)
            if found is None or not found["State"]["Running"]:
                message = f"The engine runs no container {other} whose network could be joined."
                raise Permanent(Reason.NETWORK_MISSING, message)
        elif not await self._has_network(network):
            message = (
                f"The engine has no network {network}. Make it there: 'docker network create {network}'."
            )
            raise Permanent(Reason.NETWORK_MISSING, message)

    async def _has_network(self, network: str) -> bool:
        with answered(Reason.ENGINE_UNREACHABLE, "inspecting the network"):
            try:
                await self._engine.call(lambda client: client.inspect_network(network))
            except APIError as error:
                if failures.is_gone(error):
                    return False
                raise
        return True

    @asynccontextmanager
    async def _place(self, key: RuntimeKey) -> AsyncIterator[None]:
        """Take one of the places that there are on the engine, as long as the cache may not know of it."""
        if not self._watch.is_live:
            with answered(Reason.ENGINE_UNREACHABLE, "listing containers"):
                await self._watch.list()
        known = self._watch.keys()
        taken = len(self._watch.containers) + len(self._making - known)
        if key not in known and taken >= self._max_containers:
            raise Transient(
                Reason.ENGINE_FULL,
                f"The engine has {taken} containers of this operator, and docker.maxContainers is "
                f"{self._max_containers}. It goes on when one of them is removed, or the limit is raised.",
            )
        self._making.add(key)
        try:
            yield
        finally:
            self._making.discard(key)

    # --- the container ------------------------------------------------------------------------------------------------

    async def _prepare(self, order: Order, found: Found) -> None:
        """Prepare what the container will have of the host, before it is there: once it is, it may be started."""
        wipe = order.wipe and found.layout.root is not None
        if wipe and await self._containers.inspect(self._name(order)) is not None:
            wipe = False  # somebody may be using what it has
        await self._workspaces.prepare(order.key, found.layout, wipe=wipe)

    async def _make(self, order: Order, found: Found) -> str | None:
        """Create the container and return its id; None: the name is taken."""
        writes = writes_of(found.layout.mounts)
        marks = labels_of(writes) | labels(
            order.key,
            installation=self._installation,
            config_hash=order.config_hash,
            has_setup=order.config.setup_command is not None,
            wiped_for=order.wiped_for,
        )
        for image in _images(order.config):
            body = create_body(order.config, found.facts, labels=marks, image=image)
            make = partial(APIClient.create_container_from_config, config=body, name=self._name(order))
            try:
                container_id = str((await self._engine.change(make, namespace=order.key.namespace))["Id"])
            except ImageNotFound:
                continue
            except APIError as error:
                if failures.is_conflict(error):
                    return None
                raise failures.of_create(error) from error
            self._watch.note(container_id, order.key, running=False, writes=writes)
            self._unbegun.add(container_id)
            return container_id
        raise failures.image_missing(*_images(order.config))

    async def _give_volume(self, container_id: str, key: RuntimeKey) -> None:
        container = await self._containers.prove(container_id, key)
        if container is None:
            raise Transient(Reason.CREATE_FAILED, _GONE)
        await self._volumes.give(key, container)

    async def _adopt(self, order: Order) -> Observed:
        """Take the container that has our name, if it is what we would have made."""
        name = self._name(order)
        found = await self._containers.inspect(name)
        if found is None:
            raise Transient(Reason.CREATING, f"The name {name} was taken, and is free again.")
        if not inspection.is_ours(found, order.key, self._installation):
            raise _foreign(name)
        container_id = found["Id"]
        state, _, _ = inspection.state_of(found)
        if self._containers.is_doomed(container_id):
            state = RuntimeState.TERMINATING
        self._watch.note(container_id, order.key, running=found["State"]["Running"])
        made_of = found["Config"]["Labels"].get(Label.CONFIG_HASH)
        if made_of != order.config_hash or state in {RuntimeState.FAILED, RuntimeState.TERMINATING}:
            raise Transient(
                Reason.CREATING, f"There is a container {name} already ({state}); it is looked at first."
            )
        # Somebody else may have acted on what ran before, even if it was made here.
        self.note_begun(container_id)
        self.note_found(found)
        if state in {RuntimeState.CREATED, RuntimeState.STOPPED}:
            await self.start_again(found, order.key)
        return await self._result(container_id, order)

    async def _result(self, container_id: str, order: Order) -> Observed:
        found = await self._containers.prove(container_id, order.key)
        if found is None:
            raise Transient(Reason.CREATE_FAILED, _GONE)
        seen = inspection.observed(found, node=self._engine.identity or "", in_use=False)
        if seen.image != order.config.image:
            message = f"The engine has no image {order.config.image}; plain {seen.image} runs in its place."
            return replace(seen, message=message)
        return seen

    def _name(self, order: Order) -> str:
        return runtime_name(order.config.container_prefix, order.key, self._installation)


def _images(config: RuntimeConfig) -> Sequence[str]:
    """Return the image, and what may run in its place."""
    wants_fallback = config.image_fallback and config.image != FALLBACK_IMAGE
    return (config.image, FALLBACK_IMAGE) if wants_fallback else (config.image,)


def _foreign(name: str) -> Permanent:
    return Permanent(
        Reason.NAME_CONFLICT,
        f"The engine has a container {name} that is not proven to be this sandbox's. It is left alone; rename or "
        "remove it, or give the policy another container.containerPrefix.",
    )
