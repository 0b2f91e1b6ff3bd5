"""Our two kinds as the API server has them."""

from collections.abc import Mapping
from typing import Any

from kubernetes.client import ApiClient, ApiException, CustomObjectsApi

from sandkeeper.api.crd import Resource
from sandkeeper.api.names import API_VERSION, GROUP, VERSION

__all__ = ["Object", "Objects", "manifest", "said"]

Object = dict[str, Any]


class Objects:
    """Creates and changes objects of our kinds."""

    def __init__(self, client: ApiClient) -> None:
        # The generated client says "object" of everything that it returns.
        self._api: Any = CustomObjectsApi(client)

    def would_create(
        self, resource: Resource, spec: Mapping[str, Any] | None, *, field_validation: str = "Warn"
    ) -> Object:
        """Ask the API server for its opinion, without creating anything."""
        found: Object = self._api.create_namespaced_custom_object(
            GROUP,
            VERSION,
            "default",
            resource.plural,
            manifest(resource, spec),
            dry_run="All",
            field_validation=field_validation,
        )
        return found

    def create(self, resource: Resource, document: Object, *, namespace: str) -> Object:
        """Create it, with no unknown fields."""
        found: Object = self._api.create_namespaced_custom_object(
            GROUP, VERSION, namespace, resource.plural, document, field_validation="Strict"
        )
        return found

    def replace(self, resource: Resource, made: Object, *, spec: Mapping[str, Any]) -> Object:
        """Put another spec in place of the one that it has, whatever an operator wrote meanwhile."""
        metadata = made["metadata"]
        patch = [{"op": "replace", "path": "/spec", "value": spec}]
        found: Object = self._api.patch_namespaced_custom_object(
            GROUP,
            VERSION,
            metadata["namespace"],
            resource.plural,
            metadata["name"],
            patch,
            _content_type="application/json-patch+json",
        )
        return found

    def patch_status(self, resource: Resource, made: Object, *, status: Mapping[str, Any]) -> Object:
        """Merge into the status."""
        metadata = made["metadata"]
        found: Object = self._api.patch_namespaced_custom_object_status(
            GROUP, VERSION, metadata["namespace"], resource.plural, metadata["name"], {"status": status}
        )
        return found


def manifest(resource: Resource, spec: Mapping[str, Any] | None, *, name: str = "tried") -> Object:
    """Return an object with this spec, or without any."""
    head: Object = {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": {"name": name}}
    return head if spec is None else {**head, "spec": spec}


def said(refusal: ApiException) -> str:
    """Return what the API server said, without the escapes of JSON in the way."""
    return str(refusal.body or "").replace('\\"', '"')
