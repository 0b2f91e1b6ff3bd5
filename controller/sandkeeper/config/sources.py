"""What can be mounted in a sandbox, resolved: no templates, one spelling."""

from dataclasses import dataclass

__all__ = ["AgentSource", "ClaimSource", "ConfigMapSource", "HostSource", "SharedSource"]


@dataclass(frozen=True)
class HostSource:
    """A directory of the host or the node; its path is normalised."""

    path: str


@dataclass(frozen=True, kw_only=True)
class ClaimSource:
    """A PersistentVolumeClaim, or a directory in one. ``sub_path`` empty: all of it."""

    name: str
    sub_path: str = ""


@dataclass(frozen=True)
class ConfigMapSource:
    """A ConfigMap. It has no directories."""

    name: str


AgentSource = HostSource | ClaimSource | ConfigMapSource
"""Where an agent's own workspace can be."""

SharedSource = ClaimSource | ConfigMapSource
"""What Pods can share besides directories of their node."""
