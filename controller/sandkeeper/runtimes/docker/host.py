"""What only the host's files can tell: where links lead, who owns a directory, what a seccomp profile says.

The operator has to see the host's files under the names that the engine sees. Where it runs in a container itself, the
bind roots and the directory of profiles are mounted into it at the same paths.
"""

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.config.binds import Mount, check_resolved, parse
from sandkeeper.config.operator import Ceilings, DockerSettings
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.docker.arguments import HostFacts
from sandkeeper.runtimes.docker.pool import DaemonPool

__all__ = ["Host"]

_AUTO: Final = "auto"
_UNCONFINED: Final = "unconfined"
_ROOT: Final = 0
_LARGEST_PROFILE: Final = 1 << 20


class Host:
    """The host that the engine runs on. A file system may hang as well as an engine, so it has threads of its own."""

    def __init__(self, settings: DockerSettings, ceilings: Ceilings) -> None:
        self._ceilings = ceilings
        self._profiles = settings.seccomp_profiles
        self._timeout = settings.timeout_seconds
        self._pool = DaemonPool(size=4, name="docker-host")

    async def look(self, config: RuntimeConfig) -> HostFacts:
        """Look up what the configuration leaves to the host; Permanent where it asks for what may not be."""
        if config.user != _AUTO and not config.binds and config.seccomp_profile in {None, _UNCONFINED}:
            return HostFacts(user=config.user, seccomp=config.seccomp_profile)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._pool.submit(lambda: self._look(config))
        except TimeoutError:
            raise Transient(
                Reason.BIND_REFUSED,
                f"The directories to be bound could not be looked at within {self._timeout:g} seconds; "
                "a file system of the host may hang.",
            ) from None

    def close(self) -> None:
        """Let the threads end."""
        self._pool.close()

    def _look(self, config: RuntimeConfig) -> HostFacts:
        mounts = self._resolve(config)
        return HostFacts(
            user=self._owner(config, mounts) if config.user == _AUTO else config.user,
            mounts=mounts,
            seccomp=self._profile(config.seccomp_profile),
        )

    def _resolve(self, config: RuntimeConfig) -> tuple[Mount, ...]:
        problem = check_resolved(config.binds, self._ceilings, os.path.realpath)
        if problem is not None:
            raise Permanent(problem.reason, problem.message)
        mounts = []
        for bind in map(parse, config.binds):
            # What was checked is what is mounted: a link that is turned afterwards has no effect any more.
            source = os.path.realpath(bind.source)
            try:
                mode = Path(source).lstat().st_mode
            except OSError as error:
                why = (error.strerror or "unknown error").lower()
                raise _refused(
                    bind, f"{source} cannot be looked at: {why}. Make it first; nothing makes it for you."
                ) from None
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise _refused(bind, f"{source} is neither a directory nor a file")
            mounts.append(Mount(source, bind.target, bind.mode))
        return tuple(mounts)

    def _owner(self, config: RuntimeConfig, mounts: tuple[Mount, ...]) -> str:
        source = next((mount.source for mount in mounts if mount.target == config.workdir), None)
        if source is None:
            raise Permanent(
                Reason.INVALID_CONFIG,
                f"container.user: 'auto' is the owner of what is bound at {config.workdir}, where nothing is bound; "
                "name a user, or bind a directory.",
            )
        owner = Path(source).stat()
        if owner.st_uid == _ROOT and str(_ROOT) not in self._ceilings.users:
            raise Permanent(
                Reason.CEILING_EXCEEDED,
                f"container.user: 'auto' would be root, who owns {source}; give the directory to another user, "
                'or ask the installer to add "0" to ceilings.users.',
            )
        return f"{owner.st_uid}:{owner.st_gid}"

    def _profile(self, name: str | None) -> str | None:
        if name is None or name == _UNCONFINED:
            return name
        if self._profiles is None:
            raise _no_profile(name, "the operator has no directory of profiles (docker.seccompProfiles)")
        directory = Path(self._profiles)
        path = next((path for path in (directory / name, directory / f"{name}.json") if path.is_file()), None)
        if path is None:
            raise _no_profile(name, "the operator's directory of profiles has no file of that name")
        try:
            with path.open("rb") as file:
                profile = json.loads(file.read(_LARGEST_PROFILE))
        except OSError as error:
            raise _no_profile(
                name, f"its file cannot be read: {(error.strerror or 'unknown error').lower()}"
            ) from None
        except ValueError:
            profile = None
        if not isinstance(profile, dict):
            raise _no_profile(name, "its file is no JSON object")
        return json.dumps(profile, separators=(",", ":"))


def _refused(bind: Mount, why: str) -> Permanent:
    return Permanent(Reason.BIND_REFUSED, f"container.binds: {str(bind)!r} is refused: {why}")


def _no_profile(name: str, why: str) -> Permanent:
    return Permanent(Reason.INVALID_CONFIG, f"container.seccompProfile: there is no profile {name!r}: {why}.")
