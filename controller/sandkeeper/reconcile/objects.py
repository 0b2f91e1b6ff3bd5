"""Kubernetes objects as typed views. What cannot be parsed becomes a problem to report, never an exception."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from sandkeeper.api.conditions import Reason
from sandkeeper.api.names import FINALIZER
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.policy_status import AgentSandboxPolicyStatus
from sandkeeper.api.sandbox import DesiredState, PolicyRef, SandboxSpec, SandboxStatus
from sandkeeper.cluster.caches import ObjectId
from sandkeeper.config.resolution import Problem

__all__ = ["NamespaceObject", "PolicyObject", "SandboxObject"]


def _problem(what: str, error: ValidationError) -> Problem:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return Problem(reason=Reason.INVALID_CONFIG, message=f"{what}.{where}: {first['msg']}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxObject:
    """A Sandbox as it was last seen."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at: datetime
    deleting_since: datetime | None
    finalizers: tuple[str, ...]
    annotations: Mapping[str, str]
    spec: SandboxSpec | Problem
    policy_name: str
    """Also where the rest cannot be read (a newer operator's field, after a rollback): its runtime stays its own."""
    stopped: bool
    """``spec.state: Stopped``; likewise."""
    status: SandboxStatus
    has_status: bool

    @property
    def id(self) -> ObjectId:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def has_finalizer(self) -> bool:
        """Whether our finalizer is on it."""
        return FINALIZER in self.finalizers

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "SandboxObject":
        """Read an object as it came from the API server."""
        metadata = raw["metadata"]
        raw_spec = raw.get("spec") or {}
        try:
            spec: SandboxSpec | Problem = SandboxSpec.model_validate(raw_spec)
        except ValidationError as error:
            spec = _problem("spec", error)
        raw_status = raw.get("status") or {}
        try:
            status = SandboxStatus.model_validate(raw_status)
        except ValidationError:
            # Only somebody else's hand can have written it: as good as lost.
            status, raw_status = SandboxStatus(), {}
        deleted = metadata.get("deletionTimestamp")
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            generation=int(metadata.get("generation", 1)),
            created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
            deleting_since=datetime.fromisoformat(deleted) if deleted else None,
            finalizers=tuple(metadata.get("finalizers") or ()),
            annotations=metadata.get("annotations") or {},
            spec=spec,
            policy_name=str((raw_spec.get("policyRef") or {}).get("name") or PolicyRef().name),
            stopped=raw_spec.get("state") == DesiredState.STOPPED,
            status=status,
            has_status=bool(raw_status),
        )


@dataclass(frozen=True, kw_only=True)
class PolicyObject:
    """An AgentSandboxPolicy as it was last seen."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    spec: AgentSandboxPolicySpec | Problem
    status: AgentSandboxPolicyStatus

    @property
    def full_name(self) -> str:
        """As statuses record it: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def id(self) -> ObjectId:
        """Namespace and name."""
        return self.namespace, self.name

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "PolicyObject":
        """Read an object as it came from the API server."""
        metadata = raw["metadata"]
        try:
            spec: AgentSandboxPolicySpec | Problem = AgentSandboxPolicySpec.model_validate(
                raw.get("spec") or {}
            )
        except ValidationError as error:
            spec = _problem(f"AgentSandboxPolicy {metadata['namespace']}/{metadata['name']}: spec", error)
        try:
            status = AgentSandboxPolicyStatus.model_validate(raw.get("status") or {})
        except ValidationError:
            status = AgentSandboxPolicyStatus()  # only somebody else's hand can have written it
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            generation=int(metadata.get("generation", 1)),
            spec=spec,
            status=status,
        )


@dataclass(frozen=True, kw_only=True)
class NamespaceObject:
    """A Namespace: its UID tells it from an earlier one of the same name."""

    name: str
    uid: str
    terminating: bool

    @property
    def id(self) -> ObjectId:
        """An empty namespace, and the name."""
        return "", self.name

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "NamespaceObject":
        """Read an object as it came from the API server."""
        metadata = raw["metadata"]
        return cls(name=metadata["name"], uid=metadata["uid"], terminating="deletionTimestamp" in metadata)
