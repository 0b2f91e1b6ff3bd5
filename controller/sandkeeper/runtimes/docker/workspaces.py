"""What sandboxes have of the engine's host: found and checked, prepared, checked again, and kept up to date.

Nothing of it is asked for where a sandbox has nothing of the host: no file is looked at, and no call is made.
"""

import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import SandkeeperError, Transient
from sandkeeper.config.binds import Mount
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.mounts import is_seeded
from sandkeeper.config.naming import runtime_name
from sandkeeper.config.operator import Ceilings, DockerSettings
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.docker.arguments import HostFacts
from sandkeeper.runtimes.docker.containers import answered
from sandkeeper.runtimes.docker.engine import Engine
from sandkeeper.runtimes.docker.host import Host
from sandkeeper.runtimes.docker.inspection import Inspection, mounts_of
from sandkeeper.runtimes.docker.layout import Layout, host_paths, lay_out
from sandkeeper.runtimes.docker.places import Reservations, writes_of
from sandkeeper.runtimes.docker.preparing import Complaints, discard, fill, refresh
from sandkeeper.runtimes.docker.seccomp import is_kept, read_profile
from sandkeeper.runtimes.docker.sight import Sight
from sandkeeper.runtimes.docker.sources import Sources, bind_roots_of
from sandkeeper.runtimes.docker.watch import Watch
from sandkeeper.runtimes.protocol import Notice

__all__ = ["Found", "Workspaces"]

T = TypeVar("T")

_REFRESH_SECONDS: Final = 30.0
"""The least time between two times that a runtime's skills are brought up to date."""
_LONGEST_NOTICE: Final = 1024


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a configuration comes down to on this host."""

    layout: Layout
    facts: HostFacts


@dataclass
class _Kept:
    """What this process knows of the workspace of one runtime."""

    notices: Sequence[Notice] | None = None
    """None: it has not looked yet."""
    use: str | None = None
    """What told the last use from others; None: nothing did yet."""
    is_due: bool = False
    refreshed_at: float = field(default=float("-inf"))
    """By the monotonic clock."""


class Workspaces:
    """The workspaces of one installation on one engine's host."""

    def __init__(
        self,
        engine: Engine,
        *,
        watch: Watch,
        settings: DockerSettings,
        ceilings: Ceilings,
        installation: str,
    ) -> None:
        self._engine = engine
        self._watch = watch
        self._profiles = settings.seccomp_profiles
        self._ceilings = ceilings
        self._installation = installation
        self._host = Host(timeout=settings.timeout_seconds)
        self._sight = Sight(engine, self._host)
        self._reservations = Reservations()
        self._kept: dict[RuntimeKey, _Kept] = {}
        self._busy: set[RuntimeKey] = set()
        self._busy_lock = threading.Lock()

    async def run(self) -> None:
        """Look once whether the bind roots can be seen, as soon as the engine can be reached."""
        await self._engine.reachable.wait()
        await self._sight.tell(self._ceilings.bind_roots)

    def close(self) -> None:
        """Let the threads end."""
        self._host.close()

    # --- before a container is made -----------------------------------------------------------------------------------

    async def look(self, key: RuntimeKey, config: RuntimeConfig) -> Found:
        """Find and check what the configuration names, without changing anything.

        Permanent where it asks for what may not be, Transient where something is not there.
        """
        paths = host_paths(config)
        if not paths and config.user != "auto" and not is_kept(config.seccomp_profile):
            return _found(Layout(user=config.user), config.seccomp_profile)
        never = await self._see(paths)
        name = runtime_name("", key, self._installation)

        def look() -> Found:
            sources = Sources(self._ceilings, never=never)
            layout = lay_out(config, name=name, sources=sources, ceilings=self._ceilings)
            return _found(layout, read_profile(config.seccomp_profile, self._profiles))

        return await self._host.run(look)

    def reserved(self, key: RuntimeKey, layout: Layout) -> AbstractContextManager[None]:
        """See to it that no sandbox can swap what was found until it is mounted. Raises as Reservations.take does."""
        return self._reserved(key, layout.sources, layout.mounts)

    async def prepare(self, key: RuntimeKey, layout: Layout, *, wipe: bool) -> None:
        """Make the directories and fill them. ``wipe``: the sandbox's own workspace begins afresh."""
        self._kept.pop(key, None)
        if layout.root is None and layout.agent is None:
            return
        complaints = await self._alone(key, partial(fill, layout, wipe=wipe))
        self._kept[key] = _Kept(notices=_notices(complaints), refreshed_at=time.monotonic())
        if layout.root is not None:
            self._host.sweep(partial(discard, layout))

    # --- while it is there --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def rechecked(self, key: RuntimeKey, container: Inspection) -> AsyncIterator[None]:
        """Check once more what a container has that is about to be started, and keep it so meanwhile."""
        mounts = mounts_of(container)
        sources = frozenset(mount.source for mount in mounts)
        if sources:
            never = await self._see(sources)
            await self._host.run(partial(_recheck, sources, self._ceilings, never))
        with self._reserved(key, sources, mounts):
            yield
        self._kept.setdefault(key, _Kept()).is_due = True

    async def uphold(self, key: RuntimeKey, config: RuntimeConfig, *, use: str) -> Sequence[Notice] | None:
        """Bring the skills up to date where the runtime was started or used since; see Runtimes.uphold."""
        if not is_seeded(config):
            return ()  # whatever it has, nothing is copied
        kept = self._kept.setdefault(key, _Kept())
        is_due = kept.is_due or kept.use not in {None, use}
        kept.use, kept.is_due = use, False
        if is_due and time.monotonic() - kept.refreshed_at >= _REFRESH_SECONDS:
            kept.refreshed_at = time.monotonic()
            kept.notices = await self._refresh(key, config)
        return kept.notices

    def known(self, key: RuntimeKey) -> Sequence[Notice] | None:
        """Return what is known of a runtime's workspace; None: nothing."""
        kept = self._kept.get(key)
        return None if kept is None else kept.notices

    def forget(self, key: RuntimeKey) -> None:
        """Take in that the key's runtime is gone."""
        self._kept.pop(key, None)

    async def _refresh(self, key: RuntimeKey, config: RuntimeConfig) -> Sequence[Notice]:
        try:
            layout = (await self.look(key, config)).layout
            with self.reserved(key, layout):
                complaints = await self._alone(key, partial(refresh, layout))
        except SandkeeperError as error:
            return [Notice(reason=Reason.SKILLS_SYNC_FAILED, message=error.message)]
        return _notices(complaints)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _reserved(
        self, key: RuntimeKey, sources: Collection[str], mounts: Iterable[Mount]
    ) -> AbstractContextManager[None]:
        others = self._watch.writes_of_others(key) if sources else ()
        return self._reservations.take(key, sources=sources, writes=writes_of(mounts), others=others)

    async def _see(self, paths: Collection[str]) -> frozenset[str]:
        """See to it that the paths can be looked at, and return what on this host is never bound."""
        if not paths:
            return frozenset()
        await self._sight.prove(await self._host.run(partial(bind_roots_of, paths, self._ceilings)))
        if not self._watch.is_live:
            with answered(Reason.ENGINE_UNREACHABLE, "listing containers"):
                await self._watch.list()
        return self._engine.files

    async def _alone(self, key: RuntimeKey, call: Callable[[], T]) -> T:
        """Call it on a thread, unless one that nobody waits for any more still is at the key's files."""

        def alone() -> T:
            with self._busy_lock:
                if key in self._busy:
                    message = "An earlier attempt to prepare the workspace still goes on."
                    raise Transient(Reason.SEEDING_FAILED, message)
                self._busy.add(key)
            try:
                return call()
            finally:
                self._busy.discard(key)

        return await self._host.run(alone)


def _recheck(sources: Iterable[str], ceilings: Ceilings, never: Collection[str]) -> None:
    look = Sources(ceilings, never=never)
    for source in sorted(sources):
        look.recheck(source)


def _found(layout: Layout, profile: str | None) -> Found:
    return Found(layout=layout, facts=HostFacts(user=layout.user, mounts=layout.mounts, seccomp=profile))


def _notices(complaints: Complaints) -> Sequence[Notice]:
    told = (
        (Reason.SEED_SKIPPED, "Of the agent's workspace", complaints.seeds),
        (Reason.SKILLS_SYNC_FAILED, "Of the agent's skills", complaints.skills),
    )
    return [
        Notice(reason=reason, message=f"{whose}: {'; '.join(sentences)}"[:_LONGEST_NOTICE])
        for reason, whose, sentences in told
        if sentences
    ]
