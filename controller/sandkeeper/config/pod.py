"""What is particular to Pods, resolved: where they run, what they may reach, where their workspace is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sandkeeper.config.sources import SharedSource

__all__ = [
    "DEFAULT_POD",
    "DEFAULT_WORKSPACE",
    "ClaimTemplate",
    "ClaimVolume",
    "Egress",
    "EgressPort",
    "EgressRule",
    "EmptyDirVolume",
    "HostPathVolume",
    "PodShape",
    "SharedMount",
    "WorkspaceVolume",
]


@dataclass(frozen=True, order=True)
class EgressPort:
    """A port, or with ``end`` a range of them. ``protocol`` is TCP, UDP or SCTP."""

    protocol: str
    port: int
    end: int | None = None


@dataclass(frozen=True)
class EgressRule:
    """A network that may be reached; no ports are all ports."""

    cidr: str
    ports: tuple[EgressPort, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Egress:
    """What a Pod may reach. Nothing, unless it is said here; and nobody may reach the Pod."""

    dns: bool = False
    """The cluster's DNS, and the servers named in ``container.dns``."""
    internet: bool = False
    """Everything but private, link-local and other special ranges."""
    to: tuple[EgressRule, ...] = ()


@dataclass(frozen=True)
class EmptyDirVolume:
    """A directory of the runtime's own, which goes with it. ``size_limit`` in bytes; beyond it a Pod is evicted."""

    size_limit: int | None = None


@dataclass(frozen=True)
class ClaimVolume:
    """A PersistentVolumeClaim that is there already; each runtime key has a directory of its own in it."""

    name: str


@dataclass(frozen=True, kw_only=True)
class ClaimTemplate:
    """A PersistentVolumeClaim made for each runtime key. ``size`` in bytes."""

    size: int
    storage_class: str | None = None
    """None: the cluster's default class; empty: none, which takes a volume that somebody made."""
    access_modes: tuple[str, ...] = ("ReadWriteOnce",)
    retain: bool = False
    """Whether it stays when the last Sandbox is gone."""


@dataclass(frozen=True)
class HostPathVolume:
    """A directory of the host or the node; each runtime key has a directory of its own in it."""

    path: str
    """Normalised, and without templates."""


WorkspaceVolume = EmptyDirVolume | ClaimVolume | ClaimTemplate | HostPathVolume


@dataclass(frozen=True, kw_only=True)
class SharedMount:
    """A volume of the namespace, mounted where the policy says."""

    path: str
    source: SharedSource
    read_only: bool = True


@dataclass(frozen=True, kw_only=True)
class PodShape:
    """What the policy's ``pod`` section comes down to. Where the backend is not ``pod``, it is :data:`DEFAULT_POD`."""

    runtime_class_name: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Mapping[str, Any] | None = None
    """As Kubernetes writes it, without what is not set."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """As Kubernetes writes them, without what is not set."""
    priority_class_name: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    image_pull_policy: str = "IfNotPresent"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    ephemeral_storage: int | None = None
    """Bytes of the node's disk that may be written; beyond it the Pod is evicted."""
    gpu_resource: str = "nvidia.com/gpu"
    """The extended resource that a count of GPUs is asked for as."""
    mounts: tuple[SharedMount, ...] = ()
    """At most one for each path."""
    egress: Egress = Egress()


DEFAULT_POD: Final = PodShape()
"""What holds where no policy says anything."""

DEFAULT_WORKSPACE: Final = EmptyDirVolume()
"""Where no policy says where a workspace is kept."""
