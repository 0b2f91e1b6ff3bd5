"""The claims of a runtime: the one that is made for its key, where the policy asks for that, and those of others."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sandkeeper.api.names import API_VERSION
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.mounts import ClaimSource, has_copy, has_workspace, mount_points
from sandkeeper.config.naming import pod_annotations, pod_labels, runtime_name
from sandkeeper.config.pod import ClaimTemplate, ClaimVolume
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.protocol import Order, Owner

__all__ = ["claim_body", "claim_name", "foreign_claims", "owner_references"]

_PREFIX: Final = "sandkeeper-"
"""Not the policy's ``containerPrefix``: a claim holds somebody's work, and has to be found under any prefix."""


def claim_name(key: RuntimeKey, installation: str) -> str:
    """Return the name of the key's claim, which stays the same whatever becomes of the configuration."""
    return runtime_name(_PREFIX, key, installation)


def claim_body(order: Order, installation: str) -> dict[str, Any] | None:
    """Return the claim that has to be there before the Pod can start; None: it needs none made."""
    template = order.config.workspace
    if not isinstance(template, ClaimTemplate) or not has_copy(order.config):
        return None
    metadata: dict[str, Any] = {
        "name": claim_name(order.key, installation),
        "namespace": order.key.namespace,
        "labels": pod_labels(order.key, installation=installation),
        # No hash of the configuration: the claim outlives the runtime that it was first made for.
        "annotations": pod_annotations(order.key),
    }
    if order.owners and not template.retain:
        metadata["ownerReferences"] = owner_references(order.owners)
    spec: dict[str, Any] = {
        "accessModes": list(template.access_modes),
        "resources": {"requests": {"storage": str(template.size)}},
    }
    if template.storage_class is not None:
        spec["storageClassName"] = template.storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def foreign_claims(config: RuntimeConfig) -> list[str]:
    """Name the claims that have to be there already, each once."""
    return sorted(set(_foreign_claims(config)))


def _foreign_claims(config: RuntimeConfig) -> Iterator[str]:
    if has_copy(config) and isinstance(config.workspace, ClaimVolume):
        yield config.workspace.name
    if has_workspace(config) and isinstance(config.agent, ClaimSource):
        yield config.agent.name  # whatever is shown of it, a copy is made of it
    yield from (point.source.name for point in mount_points(config) if isinstance(point.source, ClaimSource))


def owner_references(owners: Iterable[Owner]) -> list[dict[str, Any]]:
    """Return the Sandboxes as Kubernetes wants owners named; when the last is gone, what they own goes too.

    The first is the controller, without which `kubectl drain` would not touch a Pod. None of them blocks the
    owner's deletion: that would ask for more rights, and a Sandbox need not wait for its Pod.
    """
    references: list[dict[str, Any]] = [
        {"apiVersion": API_VERSION, "kind": "Sandbox", "name": owner.name, "uid": owner.uid}
        for owner in owners
    ]
    if references:
        references[0]["controller"] = True
    return references
