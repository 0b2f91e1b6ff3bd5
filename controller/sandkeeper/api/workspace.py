"""What an agent finds at its working directory: its workspace, how it may be used, and where it is kept."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field, StringConstraints

from sandkeeper.api.base import Spec
from sandkeeper.api.rules import Rule
from sandkeeper.api.types import HostPathTemplate, Memory, ObjectName, ObjectNameTemplate, SubPathTemplate

__all__ = [
    "Access",
    "AccessMode",
    "AgentClaim",
    "AgentConfigMap",
    "AgentWorkspace",
    "EmptyDirSource",
    "ExistingClaim",
    "HostDirectory",
    "Retention",
    "Volume",
    "VolumeTemplate",
    "Workspace",
]

_VOLUMES: Final = ("emptyDir", "claim", "template", "hostPath")
_AGENTS: Final = ("hostPath", "claim", "configMap")

StorageClassName = Annotated[
    str,
    StringConstraints(
        max_length=253, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?$"
    ),
]


def _exactly_one(field: str, kinds: tuple[str, ...]) -> Rule:
    return Rule(
        cel=f"[{', '.join(f'has(self.{kind})' for kind in kinds)}].filter(there, there).size() == 1",
        holds=lambda section: len(section.model_dump(exclude_none=True)) == 1,
        message=f"{field} must be exactly one of {', '.join(kinds[:-1])} and {kinds[-1]}: "
        "name one and leave the others out",
    )


class Access(StrEnum):
    """What a sandbox sees of its agent's own workspace."""

    NONE = "none"
    """Nothing. It has a copy of its own, to which it writes."""
    RO = "ro"
    """All of it at `/agent`, read-only; its own copy is read-only too."""
    RW = "rw"
    """All of it at the working directory, to write to. There is no copy."""


class AccessMode(StrEnum):
    """From where a volume may be mounted at once. A workspace is written to, so ReadOnlyMany is not there."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"
    READ_WRITE_MANY = "ReadWriteMany"


class Retention(StrEnum):
    """What becomes of a claim that was made from a template when the last Sandbox is gone."""

    RETAIN = "Retain"
    DELETE = "Delete"


class EmptyDirSource(Spec):
    """A directory of the runtime's own, which goes with it."""

    size_limit: Memory | None = None
    """Most that it may hold, for example `2g`; beyond it the Pod is evicted. Not for Docker."""


class ExistingClaim(Spec):
    """A PersistentVolumeClaim that is there already. Each runtime has a directory of its own in it."""

    name: ObjectName
    """Its name, in the Sandbox's namespace."""


class VolumeTemplate(Spec):
    """A PersistentVolumeClaim that is made for each runtime, and outlives its Pods."""

    size: Memory
    """How much is asked for, for example `10g`."""
    storage_class_name: StorageClassName | None = None
    """The StorageClass. Absent: the cluster's default; empty: none, which takes a volume that somebody made."""
    access_modes: Annotated[list[AccessMode], Field(min_length=1, max_length=3)] | None = None
    """From where it may be mounted at once. Built in: ReadWriteOnce."""
    retention: Retention | None = None
    """Whether the claim stays when the last Sandbox is gone. Built in: Delete."""


class HostDirectory(Spec):
    """A directory of the host or the node, below a bind root of the operator's ceilings."""

    path: HostPathTemplate
    """The directory. `{agentId}` stands for the Sandbox's agentId."""


class Volume(Spec):
    """The volume that holds the sandbox's own workspace."""

    rules: ClassVar = (_exactly_one("workspace.volume", _VOLUMES),)

    empty_dir: EmptyDirSource | None = None
    """A directory that goes with the runtime."""
    claim: ExistingClaim | None = None
    """A claim that is there already. For Pods."""
    template: VolumeTemplate | None = None
    """A claim that is made for each runtime. For Pods."""
    host_path: HostDirectory | None = None
    """The sandbox root: a directory of the host or the node, in which each runtime has a directory of its own."""


class AgentClaim(Spec):
    """An agent's workspace in a PersistentVolumeClaim of the Sandbox's namespace."""

    name: ObjectNameTemplate
    """The claim. `{agentId}` stands for the Sandbox's agentId."""
    sub_path: SubPathTemplate | None = None
    """The directory in it, for example `agents/{agentId}`. Absent: all of it."""


class AgentConfigMap(Spec):
    """An agent's files in a ConfigMap of the Sandbox's namespace. It has no directories, and nobody writes to it."""

    name: ObjectNameTemplate
    """The ConfigMap. `{agentId}` stands for the Sandbox's agentId."""


class AgentWorkspace(Spec):
    """Where an agent's own workspace is: the originals that a copy is made of."""

    rules: ClassVar = (_exactly_one("workspace.agent", _AGENTS),)

    host_path: HostDirectory | None = None
    """A directory of the host or the node."""
    claim: AgentClaim | None = None
    """A claim, or a directory in one. For Pods."""
    config_map: AgentConfigMap | None = None
    """A ConfigMap. For Pods."""


class Workspace(Spec):
    """What is mounted at `container.workdir`. Each field is replaced by itself at a narrower level."""

    access: Access | None = None
    """What the sandbox sees of its agent's own workspace. Built in: none."""
    agent: AgentWorkspace | None = None
    """Where the agent's own workspace is. Absent: it has none, and the sandbox's own begins empty."""
    volume: Volume | None = None
    """Where the sandbox's own workspace is kept. Built in: an emptyDir. Without effect where access is rw."""
