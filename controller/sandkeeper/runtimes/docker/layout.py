"""What a sandbox has of the host: every mount found and checked, and which directories have to be made for it.

Below the sandbox root each runtime has a directory that only root can enter, whose name is the runtime's without its
prefix::

    <workspace.volume.hostPath>/agent-main-.../workspace    the sandbox's own workspace, which belongs to its user
                                              /skills       a copy of the agent's skills, which it is shown read-only

The copy of the skills is not in the workspace, for nothing is mounted that lies where a sandbox writes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.config.binds import Mount
from sandkeeper.config.mounts import (
    SKILLS,
    HostSource,
    MountPoint,
    OwnSource,
    Role,
    has_skills,
    is_seeded,
    mount_points,
    places_in_workspace,
)
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.pod import HostPathVolume
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.docker.sources import Sources

__all__ = ["AGENT_FIELD", "ROOT_FIELD", "WORKSPACE", "Layout", "host_paths", "lay_out", "user_ids"]

AGENT_FIELD: Final = "workspace.agent.hostPath"
ROOT_FIELD: Final = "workspace.volume.hostPath"
WORKSPACE: Final = "workspace"

_AUTO: Final = "auto"
_ROOT: Final = 0


@dataclass(frozen=True, kw_only=True)
class Layout:
    """All paths have every link resolved."""

    user: str
    """``uid`` or ``uid:gid``."""
    mounts: tuple[Mount, ...] = ()
    agent: str | None = None
    """The agent's own workspace."""
    root: str | None = None
    """The sandbox root; None: the sandbox has no directory in one."""
    name: str = ""
    """What the runtime's directory in the sandbox root is called."""
    is_seeded: bool = False
    """Whether the workspace begins with files of the agent's."""
    has_mirror: bool = False
    """Whether a copy of the agent's skills is shown in it."""
    links: frozenset[str] = frozenset()
    """The places of the links that led to any of these."""
    places: Mapping[str, bool] = field(default_factory=dict)
    """Paths in the workspace at which something is mounted; whether that is a directory."""

    @property
    def sources(self) -> frozenset[str]:
        """Everything that is mounted, or copied from, and what led there: nobody may swap any of it."""
        agent = {self.agent} if self.agent else set()
        return frozenset({mount.source for mount in self.mounts} | agent | self.links)


def host_paths(config: RuntimeConfig) -> frozenset[str]:
    """Return the paths of the host that a configuration names, as they are written."""
    points = {point.source.path for point in mount_points(config) if isinstance(point.source, HostSource)}
    agent = {config.agent.path} if isinstance(config.agent, HostSource) else set[str]()
    return frozenset(points | agent | set(_roots(config)))


def lay_out(config: RuntimeConfig, *, name: str, sources: Sources, ceilings: Ceilings) -> Layout:
    """Find and check everything; see :class:`~sandkeeper.runtimes.docker.sources.Sources` for what it raises."""
    agent = (
        sources.directory(config.agent.path, field=AGENT_FIELD)
        if isinstance(config.agent, HostSource)
        else None
    )
    root = next((sources.directory(path, field=ROOT_FIELD) for path in _roots(config)), None)
    mounts = tuple(
        _mounts(mount_points(config), sources, agent=agent, own=f"{root}/{name}" if root else None)
    )
    return Layout(
        user=_owner(config, agent or root, ceilings) if config.user == _AUTO else config.user,
        mounts=mounts,
        agent=agent,
        root=root,
        name=name,
        is_seeded=agent is not None and is_seeded(config),
        has_mirror=agent is not None and root is not None and has_skills(config),
        links=frozenset(sources.links),
        places=_places(config, mounts),
    )


def user_ids(user: str) -> tuple[int, int]:
    """Return the uid and gid of a user in numbers."""
    uid, _, gid = user.partition(":")
    return int(uid), int(gid or uid)


def _roots(config: RuntimeConfig) -> Iterator[str]:
    """Yield the sandbox root, if the sandbox has a directory in one."""
    volume = config.workspace
    owns = any(isinstance(point.source, OwnSource) for point in mount_points(config))
    if owns and isinstance(volume, HostPathVolume):
        yield volume.path


def _mounts(
    points: Iterable[MountPoint], sources: Sources, *, agent: str | None, own: str | None
) -> Iterator[Mount]:
    for point in points:
        mode = "ro" if point.read_only else "rw"
        if point.role is Role.BIND and isinstance(point.source, HostSource):
            yield sources.bind(Mount(point.source.path, point.target, mode))
        elif point.role is Role.SKILLS:
            yield Mount(f"{own or agent}/{SKILLS}", point.target, mode)
        elif isinstance(point.source, HostSource):
            yield Mount(str(agent), point.target, mode)
        elif own is not None:
            yield Mount(f"{own}/{WORKSPACE}", point.target, mode)


def _places(config: RuntimeConfig, mounts: Iterable[Mount]) -> dict[str, bool]:
    """Find the places of mounts: the engine would make them as root, and in what may only be read it could not."""
    files = {mount.target for mount in mounts if Path(mount.source).is_file()}
    return {place: f"{config.workdir}/{place}" not in files for place in places_in_workspace(config)}


def _owner(config: RuntimeConfig, directory: str | None, ceilings: Ceilings) -> str:
    if directory is None:
        raise Permanent(
            Reason.INVALID_CONFIG,
            f"container.user: 'auto' is the owner of the workspace on the host, and {config.workdir} is none; name a "
            f"user, or say in {AGENT_FIELD} or {ROOT_FIELD} where it is.",
        )
    owner = Path(directory).lstat()
    if owner.st_uid == _ROOT and str(_ROOT) not in ceilings.users:
        raise Permanent(
            Reason.CEILING_EXCEEDED,
            f"container.user: 'auto' would be root, who owns {directory}; give the directory to another user, or ask "
            'the installer to add "0" to ceilings.users.',
        )
    return f"{owner.st_uid}:{owner.st_gid}"
