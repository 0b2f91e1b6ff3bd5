"""What a proxy may do to a request instead of passing it on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

__all__ = ["PASS", "Asked", "Fate", "Judge", "Refusal"]


@dataclass(frozen=True)
class Asked:
    """A request, in the words of Kubernetes' own rules of access."""

    verb: str
    resource: str

    @property
    def writes(self) -> bool:
        """Whether it is to change something."""
        return self.verb not in {"get", "list", "watch"}


@dataclass(frozen=True)
class Refusal:
    """An answer in the API server's stead, as it would give it."""

    status: int
    reason: str = ""
    """Its word for why, such as Conflict."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Write it as it goes over the wire."""
        told = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": f"the proxy says so ({self.status})",
            "reason": self.reason,
            "code": self.status,
        }
        body = json.dumps(told).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True)
class Fate:
    """What becomes of a request."""

    delay: float = 0
    """Seconds before anything else."""
    refusal: Refusal | None = None
    """It is never passed on, and answered by this."""
    lost: bool = False
    """It is passed on and takes effect, and whoever asked never knows: the connection ends before the answer."""


PASS = Fate()
"""It is passed on, and its answer too."""

Judge = Callable[[Asked], Fate]
"""Asked about every request, in the proxy's own thread."""
