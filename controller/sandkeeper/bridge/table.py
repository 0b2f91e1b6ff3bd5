"""Where a path of the sandbox lies: in which mount, and in which directory of the host. Text only.

Both ways the longest root wins, for a mount hides what lies below it. Where two have the same root, the narrower
purpose does: skills, then binds, then the agent's workspace, then the sandbox's own.
"""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from sandkeeper.bridge.errors import OutsideMounts, Refused, TooLarge
from sandkeeper.config.mounts import ConfigMapSource, HostSource, MountPoint, Role

__all__ = ["Mount", "MountTable", "Place"]

_PRIORITIES: Final = (Role.WORKSPACE, Role.AGENT, Role.BIND, Role.SKILLS)
_LONGEST: Final = 4096
"""Bytes of a path; the kernel takes no longer one at once."""

Parts = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Mount:
    """One mount. Both paths are absolute."""

    role: Role
    target: str
    """Where it is in the sandbox."""
    read_only: bool
    host: str | None = None
    """What it shows: a directory of the engine's host, or of the Pod's node. None: not known, or not a directory."""
    has_links: bool = False
    """Whether its files are links that the kubelet made, as a ConfigMap's are; nobody in the sandbox makes others."""

    @cached_property
    def target_parts(self) -> Parts:
        """The components of :attr:`target`."""
        return _parts_of(self.target)

    @cached_property
    def host_parts(self) -> Parts | None:
        """The components of :attr:`host`."""
        return None if self.host is None else _parts_of(self.host)


@dataclass(frozen=True)
class Place:
    """A path of the sandbox, taken apart at the root of its mount."""

    mount: Mount
    parts: Parts
    """Below the mount's root, which itself has none."""

    @property
    def path(self) -> str:
        """The path, in one spelling."""
        return posixpath.join(self.mount.target, *self.parts)


class MountTable:
    """All mounts of one sandbox that the bridge serves."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self._mounts = sorted(mounts, key=_precedence, reverse=True)

    @classmethod
    def of(cls, points: Iterable[MountPoint], *, hosts: Mapping[str, str] | None = None) -> Self:
        """Make the table of what a configuration mounts.

        ``hosts`` has the host's directories by target, where they are others than the configuration names: the
        sandbox's own copy is kept where the backend says.
        """
        hosts = hosts or {}
        return cls(
            Mount(
                role=point.role,
                target=point.target,
                read_only=point.read_only,
                host=hosts.get(point.target, _host_of(point)),
                has_links=isinstance(point.source, ConfigMapSource),
            )
            for point in points
        )

    def place(self, path: str) -> Place:
        """Find the mount of a path of the sandbox. OutsideMounts: it has none; Refused: it cannot be meant."""
        parts = _parts_of(path)
        around = [mount for mount in self._mounts if _is_below(parts, mount.target_parts)]
        if not around:
            raise OutsideMounts(
                f"{path!r} lies in no mount of the sandbox; there are: {self._targets() or 'none'}"
            )
        mount = max(around, key=lambda mount: len(mount.target_parts))
        return Place(mount, parts[len(mount.target_parts) :])

    def host_path(self, path: str) -> str | None:
        """Return which path of the host a path of the sandbox shows. None: nothing of the host, as far as is known."""
        place = self.place(path)
        return None if place.mount.host is None else posixpath.join(place.mount.host, *place.parts)

    def sandbox_path(self, host_path: str) -> str:
        """Return where the sandbox has a path of the host. OutsideMounts: nowhere."""
        parts = _parts_of(host_path)
        around = [
            (mount, below)
            for mount in self._mounts
            if (below := mount.host_parts) is not None and _is_below(parts, below)
        ]
        for mount, root in sorted(around, key=lambda found: len(found[1]), reverse=True):
            shown = Place(mount, parts[len(root) :]).path
            if self.place(shown).mount is mount:  # and not hidden by another mount
                return shown
        raise OutsideMounts(f"the sandbox does not see {host_path!r} of the host")

    def within(self, place: Place) -> Mount | None:
        """Return a mount whose root is the place, or lies below it; None: there is none."""
        parts = (*place.mount.target_parts, *place.parts)
        return next((mount for mount in self._mounts if _is_below(mount.target_parts, parts)), None)

    def _targets(self) -> str:
        return ", ".join(sorted({repr(mount.target) for mount in self._mounts}))


def _precedence(mount: Mount) -> tuple[int, str, bool, str]:
    """Of two at one place, the greater wins; all of it, so that the order in which they came does not matter."""
    return _PRIORITIES.index(mount.role), mount.target, mount.read_only, mount.host or ""


def _host_of(point: MountPoint) -> str | None:
    return point.source.path if isinstance(point.source, HostSource) else None


def _is_below(parts: Parts, root: Parts) -> bool:
    return parts[: len(root)] == root


def _parts_of(path: str) -> Parts:
    """Take a path apart. ``..`` is refused, not resolved: what it means depends on what is a link at the moment."""
    if not path.startswith("/"):
        raise OutsideMounts(f"{path!r} is not absolute; say where it starts, as in '/workspace/notes.md'")
    if "\0" in path:
        raise Refused(f"{path!r} has a NUL character, which no name of a file can have")
    try:
        length = len(path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise Refused(
            f"{path!r} stands for no sequence of bytes; for names that are not UTF-8 use os.fsdecode"
        ) from None
    if length > _LONGEST:
        raise TooLarge(f"the path {path[:80]!r}... has {length} bytes, and may have {_LONGEST}")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise Refused(f"{path!r} goes up by '..'; name the file by where it is")
    return parts
