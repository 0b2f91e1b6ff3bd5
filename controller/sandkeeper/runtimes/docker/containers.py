"""Containers looked at one by one, and proven ours before anything happens to them."""

import asyncio
import math
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from docker import APIClient
from docker.errors import APIError

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.api.names import Label
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import key_hash
from sandkeeper.runtimes.docker import failures, inspection
from sandkeeper.runtimes.docker.engine import Engine
from sandkeeper.runtimes.docker.inspection import Inspection
from sandkeeper.runtimes.docker.watch import Watch

__all__ = ["Containers", "answered"]

_MOST_EXECS: Final = 8
"""Commands asked after one by one. Where there are more, it would take them all to have ended: hardly."""
_GONE_PAUSE: Final = 0.1
_KILL_SECONDS: Final = 10.0
"""How much longer than other calls a forced removal may take: the engine waits for the processes to die."""

_UNHEARD_SECONDS: Final = 20.0
"""How long a removal may go on in an engine that answers: it gives a process ten seconds to die by SIGKILL, and then
tries otherwise. What still runs afterwards is not being removed."""


@contextmanager
def answered(reason: Reason, doing: str) -> Iterator[None]:
    """Turn an error that the engine answered, and that no one foresaw, into one to try again after."""
    try:
        yield
    except APIError as error:
        raise Transient(reason, f"The engine failed at {doing}: {failures.explain(error)}") from error


class Containers:
    """The containers of one installation on one engine."""

    def __init__(self, engine: Engine, watch: Watch, *, installation: str, timeout: float) -> None:
        self._engine = engine
        self._watch = watch
        self._installation = installation
        self._timeout = timeout
        self._unheard: dict[str, float] = {}
        """Containers whose removal was sent and not answered, and since when; infinity: it is still listened for."""

    async def find(self, key: RuntimeKey) -> Inspection | None:
        """Return the key's container; of several, the one to go by (see :func:`inspection.preference`)."""
        found = await self._inspect_all(self._watch.ids(key), key)
        if not found and not self._watch.is_live:
            found = await self._inspect_all(await self._ask(key), key)
        return max(found, key=inspection.preference, default=None)

    async def prove(self, container_id: str, key: RuntimeKey) -> Inspection | None:
        """Inspect it and prove it the key's; None: it is gone. Permanent where it is not ours."""
        container = await self.inspect(container_id)
        if container is None:
            self._forget(container_id)
        elif not inspection.is_ours(container, key, self._installation):
            raise Permanent(
                Reason.NAME_CONFLICT,
                f"The container {container_id[:12]} is not proven to be this sandbox's, and is left alone.",
            )
        return container

    async def inspect(self, id_or_name: str) -> Inspection | None:
        """Inspect it, whoever's it is; None: there is none."""
        with answered(Reason.ENGINE_UNREACHABLE, "inspecting a container"):
            try:
                return cast(
                    "Inspection", await self._engine.call(lambda client: client.inspect_container(id_or_name))
                )
            except APIError as error:
                if failures.is_gone(error):
                    return None
                raise

    async def in_use(self, container: Inspection, *, besides: Iterable[str]) -> bool:
        """Whether a command runs in it, besides those with the given ids."""
        if not container["State"]["Running"]:
            return False
        commands = set(container.get("ExecIDs") or ()) - set(besides)
        if len(commands) > _MOST_EXECS:
            return True
        return any(await asyncio.gather(*map(self._runs, commands)))

    def is_doomed(self, container_id: str) -> bool:
        """Whether a removal that nobody heard the end of may still take it away.

        The engine carries out what it was asked for whether or not somebody waits, a hanging one as soon as it goes on.
        So the time counts from when the engine was found to be back, if it was away since.
        """
        since = self._unheard.get(container_id)
        if since is None:
            return False
        if time.monotonic() - max(since, self._engine.identified_at) <= _UNHEARD_SECONDS:
            return True
        self._unheard.pop(container_id, None)
        return False

    async def remove(
        self, container_id: str, key: RuntimeKey, *, unless_used_besides: Collection[str] | None = None
    ) -> None:
        """Remove it, with its anonymous volumes, and wait until it is gone; Permanent where it is not ours.

        ``unless_used_besides``: Transient instead, if a command runs in it besides those with the given ids.
        """
        container = await self.prove(container_id, key)
        if container is None:
            return
        if unless_used_besides is not None and await self.in_use(container, besides=unless_used_besides):
            raise Transient(Reason.PENDING, "A command runs in the container, which is not removed now.")

        for other in list(self._unheard):
            self.is_doomed(other)  # forgets those that went without anybody looking at them again

        def remove(client: APIClient) -> None:
            # On the thread, which hears the answer even where its caller gave up.
            self._unheard[container_id] = math.inf
            try:
                client.remove_container(container_id, force=True, v=True)
            except Exception as error:
                if failures.is_answer(error) or failures.was_never_sent(error):
                    self._unheard.pop(container_id, None)
                else:
                    self._unheard[container_id] = time.monotonic()
                raise
            self._unheard.pop(container_id, None)

        with answered(Reason.TERMINATING, "removing the container"):
            try:
                await self._engine.change(remove, namespace=key.namespace, extra=_KILL_SECONDS)
            except APIError as error:
                if failures.is_conflict(error):
                    await self._wait_until_gone(container_id)
                elif not failures.is_gone(error):
                    raise
        self._forget(container_id)

    def _forget(self, container_id: str) -> None:
        self._unheard.pop(container_id, None)
        self._watch.forget(container_id)

    async def _wait_until_gone(self, container_id: str) -> None:
        """Somebody removes it already; gone is when it is not there any more."""
        try:
            async with asyncio.timeout(self._timeout):
                # There is no event of a failed removal, which would have to be waited for as well.
                while await self.inspect(container_id) is not None:  # noqa: ASYNC110
                    await asyncio.sleep(_GONE_PAUSE)
        except TimeoutError:
            message = f"The container {container_id[:12]} is being removed, and is still there."
            raise Transient(Reason.TERMINATING, message) from None

    async def _inspect_all(self, ids: Iterable[str], key: RuntimeKey) -> list[Inspection]:
        found = []
        for container_id in ids:
            container = await self.inspect(container_id)
            if container is None:
                self._forget(container_id)
            elif inspection.is_ours(container, key, self._installation):
                self._watch.note(container_id, key, running=container["State"]["Running"])
                found.append(container)
        return found

    async def _ask(self, key: RuntimeKey) -> list[str]:
        wanted = {Label.INSTALLATION: self._installation, Label.KEY_HASH: key_hash(key, self._installation)}
        filters = {"label": [f"{name}={value}" for name, value in wanted.items()]}
        with answered(Reason.ENGINE_UNREACHABLE, "listing containers"):
            found = await self._engine.call(lambda client: client.containers(all=True, filters=filters))
        return [container["Id"] for container in found]

    async def _runs(self, exec_id: str) -> bool:
        with answered(Reason.ENGINE_UNREACHABLE, "inspecting a command"):
            try:
                found: Any = await self._engine.call(lambda client: client.exec_inspect(exec_id))
            except APIError as error:
                if failures.is_gone(error):
                    return False
                raise
        return bool(found["Running"])
