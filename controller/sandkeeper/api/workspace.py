"""Where a workspace is kept: what is mounted at the working directory of a Pod."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field, StringConstraints

from sandkeeper.api.base import Spec
from sandkeeper.api.rules import Rule
from sandkeeper.api.types import HostPath, Memory, ObjectName

__all__ = [
    "AccessMode",
    "EmptyDirSource",
    "ExistingClaim",
    "HostDirectory",
    "Retention",
    "Volume",
    "VolumeTemplate",
    "Workspace",
]

_KINDS: Final = ("emptyDir", "claim", "template", "hostPath")

StorageClassName = Annotated[
    str,
    StringConstraints(
        max_length=253, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?$"
    ),
]


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
    """A directory of the Pod's own, which goes with it."""

    size_limit: Memory | None = None
    """Most that it may hold, for example `2g`; beyond it the Pod is evicted."""


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
    """A directory of the node, below a bind root of the operator's ceilings."""

    path: HostPath
    """The directory. Each runtime has a directory of its own in it."""


class Volume(Spec):
    """The volume that holds a workspace."""

    rules: ClassVar = (
        Rule(
            cel=f"[{', '.join(f'has(self.{kind})' for kind in _KINDS)}].filter(there, there).size() == 1",
            holds=lambda volume: (
                sum(
                    kind is not None
                    for kind in (volume.empty_dir, volume.claim, volume.template, volume.host_path)
                )
                == 1
            ),
            message="workspace.volume must be exactly one of emptyDir, claim, template and hostPath: "
            "name one and leave the others out",
        ),
    )

    empty_dir: EmptyDirSource | None = None
    """A directory that goes with the Pod."""
    claim: ExistingClaim | None = None
    """A claim that is there already."""
    template: VolumeTemplate | None = None
    """A claim that is made for each runtime."""
    host_path: HostDirectory | None = None
    """A directory of the node."""


class Workspace(Spec):
    """Where the workspace of a Pod is kept. With the backend docker, container.binds say so."""

    volume: Volume | None = None
    """What is mounted at container.workdir. Built in: an emptyDir. Replaced as a whole by a narrower level."""
