"""What a Sandbox says of itself, read from the object as the API server gives it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sandkeeper.api.conditions import ConditionType

__all__ = ["Object", "Ready", "now", "ready_of", "timestamp"]

Object = Mapping[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True)
class Ready:
    """The Ready condition."""

    status: str
    reason: str
    message: str

    def __bool__(self) -> bool:
        return self.status == "True"

    def __str__(self) -> str:
        text = f"Ready={self.status} ({self.reason})"
        return f"{text}: {self.message}" if self.message else text


def ready_of(sandbox: Object) -> Ready:
    """Return the Ready condition, or one that says that the operator did not speak yet."""
    for condition in sandbox.get("status", {}).get("conditions", []):
        if condition["type"] == ConditionType.READY:
            return Ready(condition["status"], condition["reason"], condition.get("message", ""))
    return Ready(
        "Unknown",
        "Unseen",
        "no operator has looked at it yet; is one running? (sandkeeper run, or the chart)",
    )


def now() -> str:
    """Return the present time as the annotations have it."""
    return timestamp(datetime.now(UTC))


def timestamp(at: datetime) -> str:
    """Write a time as RFC 3339 in UTC; in microseconds, so that two uses in a row are two values."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
