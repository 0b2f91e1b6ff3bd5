"""The Pods of this installation, by key: a cache with indexes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from sandkeeper.cluster.caches import Cache, ObjectId
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.lifecycle.model import RuntimeState
from sandkeeper.runtimes.pod.view import PodView

__all__ = ["OnPodChange", "Pods"]

OnPodChange = Callable[[PodView | None, PodView | None], None]
"""Told the view of a Pod before and after, either of them None."""

T = TypeVar("T")


class _Index(Generic[T]):
    """Objects by something that several may have in common."""

    def __init__(self) -> None:
        self._ids: dict[T, set[ObjectId]] = {}

    def put(self, entry: T, object_id: ObjectId) -> None:
        self._ids.setdefault(entry, set()).add(object_id)

    def drop(self, entry: T, object_id: ObjectId) -> None:
        ids = self._ids.get(entry, set())
        ids.discard(object_id)
        if not ids:
            self._ids.pop(entry, None)

    def ids(self, entry: T) -> list[ObjectId]:
        return sorted(self._ids.get(entry, ()))

    def entries(self) -> frozenset[T]:
        return frozenset(self._ids)


class Pods:
    """Filled by whoever watches, and by those who write."""

    def __init__(self, *, installation: str, on_change: OnPodChange) -> None:
        self._installation: Final = installation
        self._on_change = on_change
        self._keys: _Index[RuntimeKey] = _Index()
        self._networks: _Index[tuple[str, str]] = _Index()
        self._places: _Index[str] = _Index()
        self._uids: dict[str, ObjectId] = {}
        self.cache: Cache[PodView] = Cache("Pods", parse=self._parse, on_change=self._changed)

    def of(self, key: RuntimeKey) -> list[PodView]:
        """Return the Pods that are proven the key's: one, but for what somebody forged."""
        return self._found(self._keys.ids(key))

    def under(self, namespace: str, network: str) -> list[PodView]:
        """Return the Pods under one network policy."""
        return self._found(self._networks.ids((namespace, network)))

    def writing(self, place: str) -> list[PodView]:
        """Return the Pods that write to a directory, which is named as :mod:`places` does."""
        return [pod for pod in self._found(self._places.ids(place)) if pod.key is not None]

    def by_uid(self, uid: str) -> PodView | None:
        """Return the Pod with this UID."""
        object_id = self._uids.get(uid)
        return None if object_id is None else self.cache.get(object_id)

    def keys(self) -> frozenset[RuntimeKey]:
        """Return every key that has a Pod."""
        return self._keys.entries()

    def _found(self, ids: list[ObjectId]) -> list[PodView]:
        return [pod for object_id in ids if (pod := self.cache.get(object_id)) is not None]

    def _parse(self, raw: Mapping[str, Any]) -> PodView:
        view = PodView.parse(raw, installation=self._installation)
        known = self.by_uid(view.uid)
        if known is not None and view.state is RuntimeState.TERMINATING and view.ended is None:
            # It died before it was deleted, which its status does not tell from after.
            return replace(view, ended=known.ended, message=known.message if known.ended else view.message)
        return view

    def _changed(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None:
            self._uids.pop(old.uid, None)
            self._networks.drop((old.namespace, old.network), old.id)
            for place in old.writes:
                self._places.drop(place, old.id)
            if old.key is not None:
                self._keys.drop(old.key, old.id)
        if new is not None:
            self._uids[new.uid] = new.id
            self._networks.put((new.namespace, new.network), new.id)
            for place in new.writes:
                self._places.put(place, new.id)
            if new.key is not None:
                self._keys.put(new.key, new.id)
        self._on_change(old, new)
