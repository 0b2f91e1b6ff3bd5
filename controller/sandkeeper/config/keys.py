"""Which Sandboxes share a runtime: the runtime key."""

from dataclasses import dataclass

__all__ = ["RuntimeKey"]


@dataclass(frozen=True, order=True, slots=True)
class RuntimeKey:
    """One runtime per key: namespace (by UID too, for names come again), policy's name and scope key."""

    namespace: str
    namespace_uid: str
    policy: str
    scope: str
    """``shared``, ``agent:ID`` or ``agent:ID:session:KEY``; see :func:`sandkeeper.config.scope.scope_key`."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.policy}/{self.scope}"
