"""What a backend has to be able to do, in words that fit a Docker container as well as a Pod."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sandkeeper.api.conditions import Reason
from sandkeeper.api.policy import Backend
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.lifecycle.model import Observed, Unreachable

__all__ = ["Notice", "OnChange", "Order", "Owner", "Runtimes"]

OnChange = Callable[[RuntimeKey], None]
"""Told of a key whose runtime changed behind our back. Called on the event loop."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One Sandbox that shares a runtime."""

    name: str
    uid: str


@dataclass(frozen=True, kw_only=True)
class Order:
    """All that is needed to make one runtime."""

    key: RuntimeKey
    config: RuntimeConfig
    config_hash: str
    owners: tuple[Owner, ...] = ()
    """Who shares it, the one that rules first."""
    wipe: bool = False
    """Make it with a fresh copy of the workspace: what earlier runtimes left in the copy is removed first. Never the
    agent's own workspace, nor what is bound or mounted. An order that failed is given again; but where a runtime is
    there already, somebody may be using what it has, and nothing is removed."""
    wiped_for: tuple[str, ...] = ()
    """What the runtime has to carry and tell as :attr:`~sandkeeper.lifecycle.model.Observed.wiped_for`."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something of a workspace that is not as it should be, and keeps nobody from using the runtime."""

    reason: Reason
    message: str


class Runtimes(Protocol):
    """The runtimes of one backend.

    Every method proves that what it touches is ours, and raises :class:`~sandkeeper.api.errors.Transient` or
    :class:`~sandkeeper.api.errors.Permanent`; nothing else escapes, but what :attr:`may_act` raises, and
    :class:`~sandkeeper.cluster.api.ApiError` where the API server is in trouble, for then nothing can be reported
    either. No method blocks the event loop, and each ends within the backend's time-out even where the engine hangs.
    """

    backend: Backend
    may_act: Callable[[str], None]
    """Called with the namespace, on some thread, right before each single change of the world, however long what went
    before it took.

    Whatever it raises cancels that change, and reaches the caller of the method as it is. Until somebody sets it,
    everything is allowed. It has to be quick and safe to call on any thread.
    """

    async def run(self, on_change: OnChange) -> None:
        """Watch the backend until cancelled: first everything is listed, then changes are told as they come."""

    @property
    def missing(self) -> str | None:
        """What has not been listed yet since the process began, in words for the readiness probe; None: all has."""

    @property
    def is_certain(self) -> bool:
        """Whether what the cache does not know is not there."""

    def knows(self, key: RuntimeKey) -> bool:
        """Whether a runtime of the key is there, or cannot be excluded, as far as the cache knows.

        Where it only cannot be excluded, the key is told when it is known.
        """

    def keys(self) -> frozenset[RuntimeKey]:
        """Every key of this installation of which a runtime is there, as far as the cache knows."""

    async def observe(
        self, key: RuntimeKey, *, node: str | None, name: str | None = None
    ) -> Observed | Unreachable | None:
        """Look at the key's runtime.

        ``node`` is where the record says it runs, and ``name`` what it is called there: a Docker engine that is another
        one has nothing to say about it. None: nothing is recorded.
        """

    async def preflight(self, order: Order) -> None:
        """Find out, without changing anything, whether :meth:`create` could make the runtime."""

    async def create(self, order: Order) -> Observed:
        """Make the runtime and start it. Where it is there already (we died after making it), take that one.

        It need not run yet: what is STARTING is waited for.
        """

    def began(self, runtime_id: str) -> bool:
        """Whether a setupCommand may have begun in it, so that none may be run.

        False only for one that this process made, or was the first to start, and in which it began none since. An
        answer is good for as long as nobody else acts: after another operator was the leader, it says nothing of what
        was there before.
        """

    async def start(self, runtime_id: str, *, key: RuntimeKey) -> None:
        """Start it again as it is."""

    async def stop(self, runtime_id: str, *, key: RuntimeKey) -> None:
        """Stop it and keep it."""

    async def setup(self, runtime_id: str, order: Order) -> None:
        """Run the setupCommand. The error's message has at most 1 KiB of output, environment values redacted."""

    async def uphold(
        self,
        key: RuntimeKey,
        *,
        runtime_id: str | None,
        owners: Sequence[Owner],
        config: RuntimeConfig | None,
        use: str,
    ) -> Sequence[Notice] | None:
        """Keep what belongs to a runtime as it should be, whether or not there is one at the moment.

        ``owners`` share it. ``config`` is what it was made from, where that is what is wanted. ``use`` is another text
        with each use of it. Called whenever a key comes to rest, so it asks nothing of anybody where everything is as
        it should be. Returns what is not as it should be in the workspace, as far as this process knows; None: it does
        not.
        """

    async def remove(self, runtime_id: str, *, key: RuntimeKey, unused: bool = False) -> None:
        """Remove it; gone already is a success. It need not be gone yet: what is TERMINATING is waited for.

        ``unused``: where a command of a user runs in it after all, leave it alone and raise Transient with PENDING.
        """
