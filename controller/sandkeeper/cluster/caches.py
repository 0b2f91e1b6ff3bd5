"""What the API server has, as far as we know; exact also after a lost watch.

Events update a cache one object at a time. A watch that was lost and begun anew tells nothing of what vanished in
between, so a cache is filled from a whole list when the process begins (:meth:`Cache.put_listed`, and at the end
:meth:`Cache.complete`), and compared with a list of metadata after every such break, and now and then
(:meth:`Cache.compare`). Older never overwrites newer, whichever way it came.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

logger = logging.getLogger(__name__)

__all__ = ["Cache", "Cached", "ObjectId", "version_of", "versions_in"]

ObjectId = tuple[str, str]
"""Namespace and name; the namespace of a cluster-wide object is empty."""


def version_of(raw: Mapping[str, Any]) -> int:
    """Return the resourceVersion as the number that it is in practice, to tell older from newer."""
    try:
        return int(raw["metadata"]["resourceVersion"])
    except (KeyError, ValueError):
        return 0


def versions_in(page: Iterable[Mapping[str, Any]]) -> dict[ObjectId, int]:
    """Return what a list is compared by: the version of each object."""
    return {_id_of(raw): version_of(raw) for raw in page}


class Cached(Protocol):
    """A typed view of an object."""

    @property
    def id(self) -> ObjectId:
        """Namespace and name."""

    @property
    def uid(self) -> str:
        """What tells it from others of that name."""


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
        self.by_us = False
        """While a change is told: whether whoever acts knows of it, because the API server answered them so."""
        self._parse = parse
        self._on_change = on_change
        self._objects: dict[ObjectId, T] = {}
        self._versions: dict[ObjectId, int] = {}
        self.newest = -1
        """The greatest version that was ever heard of."""
        self._removed_at: dict[ObjectId, int] = {}
        """Versions of what was deleted since the last whole list, so that what is older does not bring it back."""
        self._whole_at = -1
        """The version of that list: an event that is older brings nothing that it lacked."""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def get(self, object_id: ObjectId) -> T | None:
        """Return the view of one object."""
        return self._objects.get(object_id)

    def put(self, raw: Mapping[str, Any]) -> T:
        """Take in an object that an event tells of; return the newest view of it."""
        return self._put(raw, gone_at=self._whole_at)

    def _put(self, raw: Mapping[str, Any], *, gone_at: int = -1) -> T:
        """Take in an object; one that is not known only if it is newer than what is certain to have gone."""
        object_id, version = _id_of(raw), version_of(raw)
        self.newest = max(self.newest, version)
        known = self._objects.get(object_id)
        if known is not None and version <= self._versions[object_id]:
            return known
        view = self._parse(raw)
        if version <= max(self._removed_at.get(object_id, -1), gone_at if known is None else -1):
            return view
        self._objects[object_id] = view
        self._versions[object_id] = version
        self._on_change(known, view)
        return view

    def take_in(self, raw: Mapping[str, Any]) -> T:
        """Take in an object as the API server answered with it; see :attr:`by_us`."""
        with self._answered():
            return self._put(raw)

    def drop(self, raw: Mapping[str, Any]) -> None:
        """Take in that an object was deleted; ``raw`` is its last state."""
        object_id, version = _id_of(raw), version_of(raw)
        self.newest = max(self.newest, version)
        if version < self._versions.get(object_id, -1):
            return  # it has been made again since
        self._removed_at[object_id] = version
        self._forget(object_id)

    def vanish(self, gone: Cached) -> None:
        """Take in the answer that there is no such object: an event that tells so may be lost, or late.

        By the time the answer is here, another may have its name.
        """
        known = self._objects.get(gone.id)
        if known is not None and known.uid != gone.uid:
            return
        self._removed_at[gone.id] = max(self._removed_at.get(gone.id, -1), self._versions.get(gone.id, -1))
        with self._answered():
            self._forget(gone.id)

    def put_listed(self, raw: Mapping[str, Any]) -> ObjectId:
        """Take in one object of a list. One that cannot be read takes neither the others along nor the process."""
        object_id = _id_of(raw)
        try:
            self._put(raw)
        except Exception:
            logger.exception("Cannot read one of the %s: %s/%s", self.what, *object_id)
        return object_id

    def complete(self, listed: Collection[ObjectId], *, version: int) -> None:
        """Take in that this is all there was as of ``version``: what is not among it, and not newer, has vanished."""
        self.newest = max(self.newest, version)
        for object_id in [known for known in self._objects if known not in listed]:
            if self._versions[object_id] <= version:
                self._forget(object_id)
        self._removed_at = {known: at for known, at in self._removed_at.items() if at > version}
        self._whole_at = version
        self.listed = True

    def compare(self, listed: Mapping[ObjectId, int], *, version: int, asked_at: int = -1) -> list[ObjectId]:
        """Forget what a list as of ``version`` lacks; return what has to be read: it is newer, or new.

        ``listed`` has the version of each object (:func:`versions_in`). ``asked_at`` is what :attr:`newest` was before
        the list was asked for: no list is older than that, unless etcd was restored from a backup, and then nothing
        that was known is newer than anything.
        """
        if version < asked_at:
            logger.warning("The versions of %s went back: everything is read anew", self.what)
            self._versions = dict.fromkeys(self._versions, -1)
            self._removed_at, self.newest = {}, version
        stale = [
            object_id
            for object_id, theirs in listed.items()
            if theirs > max(self._versions.get(object_id, -1), self._removed_at.get(object_id, -1))
        ]
        self.complete(listed, version=version)
        return stale

    @contextmanager
    def _answered(self) -> Iterator[None]:
        self.by_us = True
        try:
            yield
        finally:
            self.by_us = False

    def _forget(self, object_id: ObjectId) -> None:
        known = self._objects.pop(object_id, None)
        self._versions.pop(object_id, None)
        if known is not None:
            self._on_change(known, None)
