"""What a Pod mounts of the world outside, read from its own spec: directories of nodes and claims, each as one text.

One that lies in a directory to which another Pod writes could be swapped for a link at any moment, after any check. So
it is refused; the same directory may be shared. A spec cannot be changed once it is there, unlike a label.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

__all__ = ["Place", "Writes", "around", "places", "written_in"]

Writes = Mapping[str, frozenset[str]]
"""Directories that are written to, each with the names in it that are mounted over: those nobody can swap."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One directory, and where a container sees it."""

    path: PurePosixPath
    """As the node has it, or in a claim ``claim:namespace/name`` and on from there."""
    target: PurePosixPath
    read_only: bool


def places(pod: Mapping[str, Any]) -> Iterator[Place]:
    """Find what any container of a Pod mounts that others may mount as well."""
    for container in _containers(pod):
        yield from container


def written_in(pod: Mapping[str, Any]) -> Writes:
    """Return what a Pod writes to."""
    found: dict[str, frozenset[str]] = {}
    for container in map(tuple, _containers(pod)):
        for place in container:
            if not place.read_only:
                over = frozenset(_mounted_over(place, container))
                found[str(place.path)] = over & found.get(str(place.path), over)
    return found


def around(path: PurePosixPath) -> Iterator[tuple[str, str]]:
    """Yield each directory that one lies in, and by which name in it."""
    for parent in path.parents:
        yield str(parent), path.relative_to(parent).parts[0]


def _containers(pod: Mapping[str, Any]) -> Iterator[Iterator[Place]]:
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    roots = {volume["name"]: _root(volume, namespace) for volume in spec.get("volumes") or ()}
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        yield _places(container, roots)


def _places(container: Mapping[str, Any], roots: Mapping[str, str | None]) -> Iterator[Place]:
    for mount in container.get("volumeMounts") or ():
        root = roots.get(mount["name"])
        if root is not None:
            yield Place(
                path=PurePosixPath(root, mount.get("subPath") or ""),
                target=PurePosixPath(mount["mountPath"]),
                read_only=bool(mount.get("readOnly")),
            )


def _mounted_over(place: Place, beside: Iterable[Place]) -> Iterator[str]:
    """Name what of a directory is mounted over itself in the same container."""
    for other in beside:
        if other.target.parent == place.target and other.path == place.path / other.target.name:
            yield other.target.name


def _root(volume: Mapping[str, Any], namespace: str) -> str | None:
    """Name what a volume shows; None: what no other Pod sees, or nobody writes to."""
    if "hostPath" in volume:
        return str(volume["hostPath"]["path"])
    if "persistentVolumeClaim" in volume:
        return f"claim:{namespace}/{volume['persistentVolumeClaim']['claimName']}"
    return None
