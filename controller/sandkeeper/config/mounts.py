"""What is mounted in a sandbox, where, and whether it may be written to: the same on every backend.

With W for ``container.workdir``, and skills only where the agent has a workspace with directories in it:

| access | W                               | /agent                      | W/skills  |
|--------|---------------------------------|-----------------------------|-----------|
| none   | a copy of its own, to write to  |                             | read-only |
| ro     | a copy of its own, read-only    | the agent's, read-only      | read-only |
| rw     | the agent's own, to write to    | (that is W)                 | read-only |

After them come the binds and the shared volumes, each at a place of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from sandkeeper.api.workspace import Access
from sandkeeper.config.binds import AGENT_MOUNT, SKILLS, parse
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.config.sources import AgentSource, ClaimSource, ConfigMapSource, HostSource
from sandkeeper.config.tmpfs import parse_tmpfs

__all__ = [
    "AGENT_MOUNT",
    "LARGEST_SEED",
    "SEEDED",
    "SKILLS",
    "ClaimSource",
    "ConfigMapSource",
    "HostSource",
    "MountPoint",
    "OwnSource",
    "Role",
    "has_copy",
    "has_skills",
    "has_workspace",
    "is_seeded",
    "mount_points",
    "places_in_workspace",
]

SEEDED: Final = (
    "AGENTS.md",
    "SOUL.md",
    "TOOLS.md",
    "IDENTITY.md",
    "USER.md",
    "BOOTSTRAP.md",
    "HEARTBEAT.md",
)
"""The files of an agent's workspace that a copy begins with (requirements: workspace seeding)."""
LARGEST_SEED: Final = 2 << 20
"""Bytes of one of them, at most."""


class Role(StrEnum):
    """What a mount is for."""

    WORKSPACE = "workspace"
    AGENT = "agent"
    SKILLS = "skills"
    BIND = "bind"


@dataclass(frozen=True)
class OwnSource:
    """The runtime's own volume, as :attr:`RuntimeConfig.workspace` says."""


@dataclass(frozen=True, kw_only=True)
class MountPoint:
    """One mount."""

    role: Role
    target: str
    source: HostSource | ClaimSource | ConfigMapSource | OwnSource
    read_only: bool


def mount_points(config: RuntimeConfig) -> tuple[MountPoint, ...]:
    """Return all that is mounted but for file systems in memory, a parent before what lies in it."""
    return tuple(sorted(_mount_points(config), key=lambda point: PurePosixPath(point.target).parts))


def has_workspace(config: RuntimeConfig) -> bool:
    """Whether anything is mounted at the working directory.

    Nothing is where a tmpfs was asked for at just that place, or where it would hide the whole image.
    """
    return config.workdir != "/" and all(parse_tmpfs(text).path != config.workdir for text in config.tmpfs)


def has_copy(config: RuntimeConfig) -> bool:
    """Whether the sandbox has a workspace of its own, beside the agent's or where the agent has none."""
    return has_workspace(config) and (config.agent is None or config.access != Access.RW)


def is_seeded(config: RuntimeConfig) -> bool:
    """Whether the workspace is a copy that begins with files of the agent's."""
    return config.agent is not None and has_copy(config)


def has_skills(config: RuntimeConfig) -> bool:
    """Whether the agent's skills are shown in the workspace."""
    return isinstance(config.agent, (HostSource, ClaimSource)) and has_workspace(config)


def places_in_workspace(config: RuntimeConfig) -> Iterator[str]:
    """Name the paths in the workspace at which something is mounted, but not those in what is mounted there."""
    workdir = PurePosixPath(config.workdir)
    paths = [PurePosixPath(point.target) for point in mount_points(config)]
    paths += [PurePosixPath(parse_tmpfs(text).path) for text in config.tmpfs]
    below = [path for path in paths if workdir in path.parents]
    for path in below:
        if not any(other in path.parents for other in below):
            yield str(path.relative_to(workdir))


def _mount_points(config: RuntimeConfig) -> Iterator[MountPoint]:
    agent, access = config.agent, config.access
    if has_workspace(config):
        shown = OwnSource() if agent is None or access != Access.RW else agent
        yield MountPoint(
            role=Role.WORKSPACE, target=config.workdir, source=shown, read_only=access == Access.RO
        )
        if agent is not None and access == Access.RO:
            yield MountPoint(role=Role.AGENT, target=AGENT_MOUNT, source=agent, read_only=True)
        if agent is not None and has_skills(config):
            target = f"{config.workdir}/{SKILLS}"
            yield MountPoint(role=Role.SKILLS, target=target, source=_skills_of(agent), read_only=True)
    for bind in map(parse, config.binds):
        yield MountPoint(
            role=Role.BIND, target=bind.target, source=HostSource(bind.source), read_only=bind.mode == "ro"
        )
    for mount in config.pod.mounts:
        yield MountPoint(role=Role.BIND, target=mount.path, source=mount.source, read_only=mount.read_only)


def _skills_of(agent: AgentSource) -> HostSource | ClaimSource:
    match agent:
        case HostSource(path):
            return HostSource(f"{path.rstrip('/')}/{SKILLS}")
        case ClaimSource(name=name, sub_path=sub_path):
            return ClaimSource(name=name, sub_path=f"{sub_path}/{SKILLS}" if sub_path else SKILLS)
        case ConfigMapSource():
            raise AssertionError("a ConfigMap has no directories")
