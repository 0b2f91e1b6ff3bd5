"""What the API server has, as far as we know; exact also after a lost watch.

Events update a cache one object at a time. A watch that was lost and begun anew tells nothing of what vanished in
between, so a cache is also compared with whole lists (:meth:`Cache.sync`): when the process begins, after every such
break, and now and then. Older never overwrites newer, whichever way it came.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

logger = logging.getLogger(__name__)

__all__ = ["Cache", "Cached", "ObjectId", "version_of"]

ObjectId = tuple[str, str]
"""Namespace and name; the namespace of a cluster-wide object is empty."""


def version_of(raw: Mapping[str, Any]) -> int:
    """Return the resourceVersion as the number that it is in practice, to tell older from newer."""
    try:
        return int(raw["metadata"]["resourceVersion"])
    except (KeyError, ValueError):
        return 0


class Cached(Protocol):
    """A typed view of an object."""

    @property
    def id(self) -> ObjectId:
        """Namespace and name."""


T = TypeVar("T", bound=Cached)


def _id_of(raw: Mapping[str, Any]) -> ObjectId:
    return raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


class Cache(Generic[T]):
    """All objects of one kind. ``on_change`` is told the old view and the new one, either of them None."""

    def __init__(
        self,
        what: str,
        *,
        parse: Callable[[Mapping[str, Any]], T],
        on_change: Callable[[T | None, T | None], None],
    ) -> None:
        self.what = what
        self.listed = False
        """Whether a whole list was taken in since the process began."""
        self._parse = parse
        self._on_change = on_change
        self._objects: dict[ObjectId, T] = {}
        self._versions: dict[ObjectId, int] = {}
        self._removed_at: dict[ObjectId, int] = {}
        """Versions of what was deleted, so that a list that is older does not bring it back."""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def get(self, object_id: ObjectId) -> T | None:
        """Return the view of one object."""
        return self._objects.get(object_id)

    def put(self, raw: Mapping[str, Any]) -> T:
        """Take in an object that was read, written or announced; return the newest view of it."""
        object_id, version = _id_of(raw), version_of(raw)
        known = self._objects.get(object_id)
        if known is not None and version <= self._versions[object_id]:
            return known
        view = self._parse(raw)
        if version <= self._removed_at.get(object_id, -1):
            return view
        self._objects[object_id] = view
        self._versions[object_id] = version
        self._on_change(known, view)
        return view

    def drop(self, raw: Mapping[str, Any]) -> None:
        """Take in that an object was deleted; ``raw`` is its last state."""
        object_id, version = _id_of(raw), version_of(raw)
        if version < self._versions.get(object_id, -1):
            return  # it has been made again since
        self._removed_at[object_id] = version
        self._forget(object_id)

    def vanish(self, object_id: ObjectId) -> None:
        """Take in that the API server does not know the object: an event that tells so may be lost, or late."""
        self._removed_at[object_id] = max(
            self._removed_at.get(object_id, -1), self._versions.get(object_id, -1)
        )
        self._forget(object_id)

    def sync(self, raws: Iterable[Mapping[str, Any]], *, version: int) -> None:
        """Take in a whole list, as of ``version``: what it lacks and is not newer has vanished."""
        seen = set()
        for raw in raws:
            seen.add(_id_of(raw))
            try:
                self.put(raw)
            except Exception:
                # One object that cannot be read must not take all the others along, nor the process.
                logger.exception("Cannot read one of the %s: %s/%s", self.what, *_id_of(raw))
        for object_id in [known for known in self._objects if known not in seen]:
            if self._versions[object_id] <= version:
                self._forget(object_id)
        self._removed_at = {known: at for known, at in self._removed_at.items() if at > version}
        self.listed = True

    def _forget(self, object_id: ObjectId) -> None:
        known = self._objects.pop(object_id, None)
        self._versions.pop(object_id, None)
        if known is not None:
            self._on_change(known, None)
