"""The resources that we speak of, and where the API server keeps them."""

from dataclasses import dataclass
from typing import Final

from sandkeeper.api.names import GROUP, VERSION

__all__ = [
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NETWORK_POLICIES",
    "NODES",
    "PODS",
    "POLICIES",
    "SANDBOXES",
    "VOLUME_CLAIMS",
    "Resource",
]


@dataclass(frozen=True)
class Resource:
    """One kind of object."""

    group: str
    version: str
    plural: str
    kind: str

    def path(
        self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the path of one object, of a namespace's objects, or of all."""
        parts = [f"apis/{self.group}" if self.group else "api", self.version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/" + "/".join(parts)


SANDBOXES: Final = Resource(GROUP, VERSION, "sandboxes", "Sandbox")
POLICIES: Final = Resource(GROUP, VERSION, "agentsandboxpolicies", "AgentSandboxPolicy")
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace")
PODS: Final = Resource("", "v1", "pods", "Pod")
VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
NODES: Final = Resource("", "v1", "nodes", "Node")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
EVENTS: Final = Resource("", "v1", "events", "Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
