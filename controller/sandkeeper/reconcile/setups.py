"""setupCommands that run: without a worker, for they may take minutes, and other keys must not wait for them."""

import asyncio
from collections.abc import Callable, Iterable

from sandkeeper.config.keys import RuntimeKey
from sandkeeper.lifecycle import Observed

__all__ = ["Setups"]

Doing = asyncio.Future[Observed | None]


class Setups:
    """At most one a key."""

    def __init__(self) -> None:
        self._running: dict[RuntimeKey, tuple[str, Doing]] = {}

    def start(
        self,
        key: RuntimeKey,
        runtime_id: str,
        doing: Doing,
        *,
        on_done: Callable[[BaseException | None], None],
    ) -> None:
        """Keep a setup that was begun; ``on_done`` is told how it ended, unless it was cancelled.

        One of an earlier runtime that goes on, as a command in a Pod may when the Pod is gone, is given up.
        """
        earlier = self._running.get(key)
        if earlier is not None:
            earlier[1].cancel()

        def done(finished: Doing) -> None:
            if self._running.get(key, ("", None))[1] is finished:
                del self._running[key]
            if not finished.cancelled():
                on_done(finished.exception())

        self._running[key] = runtime_id, doing
        doing.add_done_callback(done)

    def is_running(self, key: RuntimeKey, runtime_id: str) -> bool:
        """Whether the setup of this runtime runs."""
        return key in self._running and self._running[key][0] == runtime_id

    @property
    def keys(self) -> Iterable[RuntimeKey]:
        """The keys of which one runs."""
        return self._running.keys()

    async def finish(self) -> None:
        """Wait until none runs."""
        while self._running:
            await asyncio.wait([doing for _, doing in self._running.values()])
