"""Which directories of the host sandboxes write to, so that nothing is mounted that lies in one of them.

Whoever writes to a directory can put a link in the place of what lies in it, at any moment: after every check, and
before the engine follows it. So a source strictly below such a directory is refused, whoever writes there. The same
directory may be shared: nobody can swap what is mounted for themselves. Nor can they swap what is mounted over one of
its entries, as an agent's skills are, for the kernel does not rename places of mounts.

A container carries what it writes to as a label. So it is known of containers that another process made as well, from
the lists and events that come anyway.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.api.names import Label
from sandkeeper.config.binds import Mount, is_below, swappable
from sandkeeper.config.keys import RuntimeKey

__all__ = ["NO_WRITES", "Reservations", "Writes", "labels_of", "writes_by", "writes_in", "writes_of"]

Writes = Mapping[str, frozenset[str]]
"""Directories that are written to from inside, and the names in each that are mounted over."""

NO_WRITES: Final[Writes] = {}


def writes_of(mounts: Iterable[Mount]) -> Writes:
    """Return what a container with these mounts writes to."""
    mounts = tuple(mounts)
    writes: dict[str, frozenset[str]] = {}
    for mount in mounts:
        if mount.mode == "rw":
            over = frozenset(_names_mounted_over(mount, mounts))
            # Mounted twice, it may be open by the one way where it is not by the other.
            writes[mount.source] = writes.get(mount.source, over) & over
    return writes


def labels_of(writes: Writes) -> dict[str, str]:
    """Return the labels that a container carries for what it writes to."""
    return (
        {Label.WRITES.value: json.dumps({path: sorted(names) for path, names in writes.items()})}
        if writes
        else {}
    )


def writes_in(labels: Mapping[str, str]) -> Writes:
    """Read the labels of a container that is proven ours. What is not as we write it counts for nothing."""
    try:
        return {path: frozenset(names) for path, names in json.loads(labels.get(Label.WRITES, "{}")).items()}
    except (ValueError, TypeError, AttributeError):
        return NO_WRITES


def writes_by(source: str, writes: Writes) -> str | None:
    """Return the directory through which a source could be swapped by whoever has these; None: it could not."""
    for directory, mounted_over in sorted(writes.items()):
        if source != directory and is_below(source, directory):
            name, _, _ = source[len(directory) :].lstrip("/").partition("/")
            if name not in mounted_over:
                return directory
    return None


@dataclass(frozen=True)
class _Reservation:
    key: RuntimeKey
    sources: frozenset[str]
    writes: Writes


class Reservations:
    """What is about to be mounted, between its check and the moment that it is: none of it may be swapped meanwhile."""

    def __init__(self) -> None:
        self._taken: list[_Reservation] = []

    @contextmanager
    def take(
        self, key: RuntimeKey, *, sources: Iterable[str], writes: Writes, others: Iterable[Writes]
    ) -> Iterator[None]:
        """Hold the sources as long as it takes to mount them.

        ``others``: what containers of other keys write to. Permanent with BIND_REFUSED where a source could be swapped;
        Transient where somebody else's is not mounted yet, and could be through what we write to.
        """
        mine = _Reservation(key, frozenset(sources), writes)
        held = [one for one in self._taken if one.key != key]
        for source in sorted(mine.sources):
            for theirs in (writes, *others, *(one.writes for one in held)):
                if (directory := writes_by(source, theirs)) is not None:
                    raise Permanent(Reason.BIND_REFUSED, swappable(source, directory))
        for source in sorted(set[str]().union(*(one.sources for one in held))):
            if (directory := writes_by(source, writes)) is not None:
                message = (
                    f"{source}, in {directory}, is being mounted in another sandbox, which is waited for."
                )
                raise Transient(Reason.CREATING, message, delay=1)
        self._taken.append(mine)
        try:
            yield
        finally:
            self._taken.remove(mine)


def _names_mounted_over(mount: Mount, mounts: Iterable[Mount]) -> Iterator[str]:
    """Yield the names in a mounted directory at which the same of them is mounted again, in its own place."""
    for other in mounts:
        name = other.source.removeprefix(mount.source.rstrip("/") + "/")
        if name != other.source and "/" not in name and other.target == f"{mount.target.rstrip('/')}/{name}":
            yield name
