"""From what a sandbox sees to the volumes of its Pod, and to what each container mounts of them: pure functions.

A directory of the node is never a volume by itself. The volume is the bind root that it lies in, and the directory is
a ``subPath`` of that: the kubelet follows the links in a ``subPath``, and starts no container where they lead out of
the volume. So what the installer allows holds on the node as well, into which the operator does not see.

An agent's ``skills`` are a ``subPath`` of a volume that is the agent's workspace, for the same reason: whoever writes
there may put a link in their place, but none that leads anywhere else.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import PurePosixPath
from typing import Any, Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.config.binds import check_directory, is_below, normalise_path
from sandkeeper.config.mounts import (
    AGENT_MOUNT,
    ClaimSource,
    ConfigMapSource,
    HostSource,
    OwnSource,
    Role,
    mount_points,
)
from sandkeeper.config.naming import runtime_name
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.pod import ClaimTemplate, ClaimVolume, EmptyDirVolume, HostPathVolume
from sandkeeper.config.quantities import memory_bytes
from sandkeeper.config.tmpfs import parse_tmpfs
from sandkeeper.runtimes.pod.claims import claim_name
from sandkeeper.runtimes.pod.preparing import COPY_MOUNT, prepares_agent, prepares_copy
from sandkeeper.runtimes.protocol import Order

__all__ = ["TMPFS_SIZE", "Mounting", "mount_all"]

TMPFS_SIZE: Final = 256 << 20
"""Bytes of a tmpfs that states no size. What is in it counts against the container's memory, so a container without
a memory limit could fill the node's through it."""

_Json = dict[str, Any]
_Source = HostSource | ClaimSource | ConfigMapSource | OwnSource
_ROLES: Final = list(Role)


@dataclass(frozen=True, kw_only=True)
class Mounting:
    """All that one Pod mounts, as Kubernetes writes it."""

    volumes: list[_Json]
    sandbox: list[_Json]
    prepare: list[_Json]
    """Of the container that prepares the workspace; empty where nothing has to be prepared."""


@dataclass(frozen=True, kw_only=True)
class _Mount:
    """A volume, or a directory in one, and where it is mounted."""

    name: str
    """What the volume is called, unless another mount of it has named it."""
    volume: _Json
    path: str
    sub_path: str = ""
    read_only: bool = False


def mount_all(order: Order, *, installation: str, ceilings: Ceilings) -> Mounting:
    """Return what the Pod mounts. Permanent with BIND_REFUSED: a directory of the node that the ceilings forbid."""
    finder = _Finder(order, installation, ceilings)
    shown = [*_points(finder), *(_tmpfs(n, text) for n, text in enumerate(order.config.tmpfs))]
    prepared = list(_prepared(finder))
    names = _Names((*shown, *prepared))
    shown.sort(key=lambda mount: PurePosixPath(mount.path).parts)  # a parent before what lies in it
    return Mounting(
        volumes=names.volumes(),
        sandbox=[_written(mount, names.of(mount)) for mount in shown],
        prepare=[_written(mount, names.of(mount)) for mount in prepared],
    )


def _points(finder: "_Finder") -> Iterator[_Mount]:
    """Mount what the sandbox sees, the workspace first, for what comes first names the volumes."""
    agent = finder.order.config.agent
    points = sorted(mount_points(finder.order.config), key=lambda point: _ROLES.index(point.role))
    binds = count()
    for point in points:
        name, roots = point.role.value, finder.roots
        match point.role, agent:
            case Role.BIND, _:
                name = f"bind-{next(binds)}"
            case Role.SKILLS, HostSource(path):
                roots = (path,)
            case Role.SKILLS, _:
                name = Role.AGENT.value
        volume, sub_path = finder.find(point.source, roots)
        yield _Mount(
            name=name, volume=volume, path=point.target, sub_path=sub_path, read_only=point.read_only
        )


def _prepared(finder: "_Finder") -> Iterator[_Mount]:
    """Mount what is prepared and what it is prepared from, where :mod:`preparing` looks for it."""
    config = finder.order.config
    if prepares_agent(config) and config.agent is not None:
        volume, sub_path = finder.find(config.agent, finder.roots)
        # What prepares is of the sandbox's own image, and nothing is mounted over skills here: it could write to them,
        # or put a link in their place that leads to another agent's directory in the same claim.
        yield _Mount(name="agent", volume=volume, path=AGENT_MOUNT, sub_path=sub_path, read_only=True)
    if prepares_copy(finder.order):
        volume, sub_path = finder.find(OwnSource(), finder.roots)
        yield _Mount(name="workspace", volume=volume, path=COPY_MOUNT, sub_path=sub_path)


class _Finder:
    """Finds the volume that a source is in, and where in it."""

    def __init__(self, order: Order, installation: str, ceilings: Ceilings) -> None:
        self.order = order
        self.roots: Sequence[str] = ceilings.bind_roots
        self._ceilings = ceilings
        self._claim = claim_name(order.key, installation)
        self._directory = runtime_name("", order.key, installation)
        """In a shared volume each key has a directory of its own, which the kubelet makes."""

    def find(self, source: _Source, roots: Sequence[str]) -> tuple[_Json, str]:
        """Return the volume, and the directory in it; empty: all of it. ``roots`` become volumes of the node."""
        match source:
            case HostSource(path):
                return self._find_on_node(path, roots)
            case ClaimSource(name=name, sub_path=sub_path):
                return _of_claim(name), sub_path
            case ConfigMapSource(name):
                return {"configMap": {"name": name}}, ""
            case OwnSource():
                return self._find_own()

    def _find_own(self) -> tuple[_Json, str]:
        match self.order.config.workspace:
            case EmptyDirVolume(size_limit):
                return {"emptyDir": {} if size_limit is None else {"sizeLimit": str(size_limit)}}, ""
            case ClaimVolume(name):
                return _of_claim(name), self._directory
            case ClaimTemplate():
                return _of_claim(self._claim), ""
            case HostPathVolume(path):
                return self._find_on_node(f"{path}/{self._directory}", self.roots)

    def _find_on_node(self, path: str, roots: Sequence[str]) -> tuple[_Json, str]:
        """Find a directory in the narrowest of the roots around it."""
        if (why := check_directory(path, self._ceilings)) is not None:
            raise Permanent(Reason.BIND_REFUSED, f"{path!r} is refused: {why}")
        root = max((root for root in map(normalise_path, roots) if is_below(path, root)), key=len)
        # Where the root is missing the Pod has to wait, and not start in a directory that the kubelet made.
        return {"hostPath": {"path": root, "type": "Directory"}}, path.removeprefix(root).lstrip("/")


class _Names:
    """The volumes of a Pod, each once: of one that is mounted under two names, some kubelets wait for ever."""

    def __init__(self, mounts: Iterable[_Mount]) -> None:
        self._volumes: dict[str, _Json] = {}
        for mount in mounts:
            self._volumes.setdefault(_identity(mount), {"name": mount.name, **mount.volume})

    def of(self, mount: _Mount) -> str:
        return str(self._volumes[_identity(mount)]["name"])

    def volumes(self) -> list[_Json]:
        return list(self._volumes.values())


def _identity(mount: _Mount) -> str:
    """Return what two mounts of one volume have in common: two empty directories are alike, and are two."""
    return mount.name if "emptyDir" in mount.volume else json.dumps(mount.volume)


def _of_claim(name: str) -> _Json:
    return {"persistentVolumeClaim": {"claimName": name}}


def _written(mount: _Mount, name: str) -> _Json:
    written: _Json = {"name": name, "mountPath": mount.path}
    if mount.sub_path:
        written["subPath"] = mount.sub_path
    if mount.read_only:
        written["readOnly"] = True
    if mount.read_only and "hostPath" in mount.volume:
        # What the node has mounted below a directory would else stay as it is there, mostly to be written to.
        written["recursiveReadOnly"] = "IfPossible"
    return written


def _tmpfs(number: int, text: str) -> _Mount:
    """Make a volume in memory of a tmpfs.

    The options that come here mean what is so already, but for ``size`` and ``ro``: a volume is ``rw`` and ``exec``
    where nothing else is said; ``nosuid``, because without privilege escalation a set-user-ID bit has no effect; and
    ``nodev``, because no device may be opened that the container was not given.
    """
    tmpfs = parse_tmpfs(text)
    size, read_only = TMPFS_SIZE, False
    for option in tmpfs.options.split(","):
        if option.startswith("size="):
            size = _tmpfs_size(option.removeprefix("size="))
        elif option in {"ro", "rw"}:
            read_only = option == "ro"
    volume = {"emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}
    return _Mount(name=f"tmpfs-{number}", volume=volume, path=tmpfs.path, read_only=read_only)


def _tmpfs_size(text: str) -> int:
    """Return bytes, and never none: 0 would be without a bound, as would a number that nobody can count."""
    try:
        return memory_bytes(text) or TMPFS_SIZE
    except ValueError:
        return TMPFS_SIZE
