"""Containers by id and by key: the cache that :mod:`watch` keeps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sandkeeper.config.keys import RuntimeKey
from sandkeeper.runtimes.docker.places import Writes

__all__ = ["Inventory", "Seen"]


@dataclass(frozen=True)
class Seen:
    """A container as the cache knows it."""

    key: RuntimeKey
    running: bool
    writes: Writes = field(default_factory=dict, compare=False)
    """Never changes, so that it is no news."""


class Inventory(Mapping[str, Seen]):
    """Containers by id, and the ids of each key at hand: every claim of every pass asks for those."""

    def __init__(self, containers: Mapping[str, Seen] | None = None) -> None:
        self._containers: dict[str, Seen] = {}
        self._ids: dict[RuntimeKey, set[str]] = {}
        for container_id, seen in (containers or {}).items():
            self.put(container_id, seen)

    def __getitem__(self, container_id: str) -> Seen:
        return self._containers[container_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._containers)

    def __len__(self) -> int:
        return len(self._containers)

    def put(self, container_id: str, seen: Seen) -> None:
        """Take in how a container is now."""
        before = self._containers.get(container_id)
        if before is not None and before.key != seen.key:
            self.drop(container_id)
        self._containers[container_id] = seen
        self._ids.setdefault(seen.key, set()).add(container_id)

    def drop(self, container_id: str) -> None:
        """Take in that a container is gone, if it was there."""
        seen = self._containers.pop(container_id, None)
        if seen is None:
            return
        ids = self._ids[seen.key]
        ids.discard(container_id)
        if not ids:
            del self._ids[seen.key]

    def ids(self, key: RuntimeKey) -> list[str]:
        """Return the ids of the key's containers."""
        return sorted(self._ids.get(key, ()))

    def of_keys(self) -> frozenset[RuntimeKey]:
        """Return the keys of all containers."""
        return frozenset(self._ids)
