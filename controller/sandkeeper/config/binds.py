"""Binds: host directories inside a sandbox. Parsed, normalised, and refused unless all speaks for them.

A bind is the shortest way out of a sandbox, so this fails closed: a source has to lie below a bind root of
the operator's ceilings, and even there nothing passes that is, is under, or contains a path that runs the
host.

A configuration holds the normalised path, the same text that was checked. Where links lead only the host knows:
:func:`check_real_directory` checks what a backend found there. Nothing is bound that lies in a directory to which a
sandbox writes, for it could be swapped for a link at any moment, after every check.
"""

import posixpath
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.resolution import Problem

__all__ = [
    "AGENT_MOUNT",
    "SKILLS",
    "Mount",
    "Taken",
    "check",
    "check_directory",
    "check_real_directory",
    "check_target",
    "is_below",
    "is_kernel_path",
    "normalise_binds",
    "normalise_path",
    "parse",
    "swappable",
    "swappable_in",
    "taken_targets",
]

Resolve = Callable[[str], str]
"""Gives the real path: links followed through the deepest ancestor that exists, the rest appended."""

BLOCKED_PATHS: Final = (
    # the system's own configuration, devices, kernel and boot files
    "/etc",
    "/private/etc",
    "/proc",
    "/sys",
    "/dev",
    "/root",
    "/boot",
    # sockets of daemons, the container engines' among them
    "/run",
    "/var/run",
    "/private/var/run",
    "/var/run/docker.sock",
    "/private/var/run/docker.sock",
    "/run/docker.sock",
    # what engines and Kubernetes keep: other containers' file systems, Pods' tokens, the cluster's database
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/kubelet",
    "/var/lib/etcd",
    "/var/lib/rancher",
    "/var/lib/k0s",
    "/var/snap",
    # followed by privileged daemons: logs through links, cron tables by content
    "/var/log",
    "/var/spool/cron",
)
"""Host paths that no ceiling opens."""

BLOCKED_HOME_PARTS: Final = frozenset(
    {".aws", ".cargo", ".config", ".docker", ".gnupg", ".kube", ".netrc", ".npm", ".ssh"}
)
"""Where homes keep credentials. Refused anywhere in a path: which directories are homes, only the host
knows."""

BLOCKED_SOCKETS: Final = frozenset(
    {"containerd.sock", "cri-dockerd.sock", "crio.sock", "docker.sock", "dockershim.sock", "podman.sock"}
)
"""Names of engines' sockets, wherever they were put: whoever holds one owns the host."""

_PARENTS_OF_HOMES: Final = ("/home", "/users", "/var/home")
"""Where homes usually lie. A whole home contains the directories above, whether or not we can see them."""

_KERNEL_PATHS: Final = ("/proc", "/sys", "/dev")

AGENT_MOUNT: Final = "/agent"
"""Where a sandbox that may read its agent's own workspace finds it."""
SKILLS: Final = "skills"
"""The directory of a workspace that is shown read-only, whatever the access."""
_WORKSPACE: Final = "/workspace"
"""Where agents look for their files, even where the working directory is another."""

_ROOT: Final = "/"


@dataclass(frozen=True)
class Mount:
    """One bind, normalised."""

    source: str
    target: str
    mode: str
    """``ro`` or ``rw``."""

    def __str__(self) -> str:
        return f"{self.source}:{self.target}:{self.mode}"


def normalise_path(path: str) -> str:
    """Collapse ``//``, ``.`` and ``..`` by text. ValueError: it is not absolute, or has a NUL character."""
    if not path.startswith(_ROOT) or "\0" in path:
        raise ValueError(f"{path!r} is not an absolute path")
    # POSIX lets exactly two slashes at the beginning mean something special, so normpath keeps them.
    return posixpath.normpath(_ROOT + path.lstrip(_ROOT))


def parse(bind: str) -> Mount:
    """Parse ``/host:/container[:ro|rw]``. ValueError: it is something else, a named volume for example."""
    source, _, rest = bind.partition(":")
    target, _, mode = rest.partition(":")
    if mode not in {"", "ro", "rw"}:
        raise ValueError(f"{bind!r} is not of the form /host:/container[:ro|rw]")
    return Mount(normalise_path(source), normalise_path(target), mode or "ro")


def normalise_binds(binds: Iterable[str]) -> tuple[str, ...]:
    """Return the binds in one spelling, one per target: the last one wins. ValueError as :func:`parse`."""
    by_target: dict[str, Mount] = {}
    for mount in map(parse, binds):
        by_target.pop(mount.target, None)
        by_target[mount.target] = mount
    return tuple(map(str, by_target.values()))


@dataclass(frozen=True)
class Taken:
    """Places in a sandbox at which something else is mounted, or looked for."""

    alone: frozenset[str] = frozenset()
    """There is room for more below."""
    with_all_below: frozenset[str] = frozenset()
    """Read-only, and to stay so."""

    def __contains__(self, target: object) -> bool:
        return target in self.alone or any(is_below(str(target), place) for place in self.with_all_below)


def taken_targets(workdir: str, *, has_skills: bool = False) -> Taken:
    """Return the places that the workspace takes."""
    skills = {posixpath.join(workdir, SKILLS)} if has_skills else set()
    return Taken(alone=frozenset({workdir, _WORKSPACE}), with_all_below=frozenset({AGENT_MOUNT} | skills))


def check(
    binds: Sequence[str],
    ceilings: Ceilings,
    *,
    taken: Container[str] = (),
    field: str = "container.binds",
) -> Iterator[Problem]:
    """Find what is wrong with the binds as they are written. ``taken``: see :func:`taken_targets`."""
    for bind in binds:
        try:
            mount = parse(bind)
        except ValueError as error:
            yield _refused(bind, str(error), field=field)
            continue
        why = check_target(mount.target, taken) or check_directory(mount.source, ceilings)
        if why is not None:
            yield _refused(bind, why, field=field)


def check_target(target: str, taken: Container[str]) -> str | None:
    """Say why nothing may be mounted at a normalised path inside the sandbox; None: something may."""
    if target == _ROOT:
        return "it would replace the sandbox's whole file system"
    if is_kernel_path(target):
        return f"its target {target} is the kernel's"
    if target in taken:
        return (
            f"its target {target} is the workspace's; name another, such as a directory below it, "
            "or say in workspace.agent and workspace.volume what is to be there"
        )
    return None


def swappable_in(path: str, writable: Iterable[str]) -> str | None:
    """Return the directory among those that sandboxes write to in which a path lies, and not is; None: none."""
    return next((root for root in sorted(writable) if path != root and is_below(path, root)), None)


def swappable(path: str, root: str) -> str:
    """Say why what :func:`swappable_in` found is refused."""
    return (
        f"{path!r} is refused: it lies in {root}, to which a sandbox writes, so it could be swapped for a link to "
        "anything at any moment; bind that directory itself, or keep the two apart"
    )


def check_directory(path: str, ceilings: Ceilings) -> str | None:
    """Say why a directory of the host is refused, as it is written; None: it is not.

    ValueError as :func:`normalise_path`.
    """
    source = normalise_path(path)
    if (why := _forbidden(source, BLOCKED_PATHS)) is not None:
        return why
    if not any(is_below(source, normalise_path(root)) for root in ceilings.bind_roots):
        return _outside(source)
    return None


def check_real_directory(
    real: str, ceilings: Ceilings, resolve: Resolve, *, blocked: Collection[str] = ()
) -> str | None:
    """Say why a directory is refused, all of whose links were followed; None: it is not.

    Call it as shortly as possible before the mount: a link that changes in between is beyond what a check can see.
    Bind roots and blocked paths are resolved as well: a root that is a link opens where it leads to, and a blocked
    directory that was moved to a larger disk stays blocked there. ``blocked``: what else is, on this very host. Errors
    of ``resolve`` pass through.
    """
    never = [*BLOCKED_PATHS, *blocked]
    if (why := _forbidden(real, {*never, *map(resolve, never)})) is not None:
        return f"it leads to {real}: {why}"
    roots = (normalise_path(resolve(normalise_path(root))) for root in ceilings.bind_roots)
    return None if any(is_below(real, root) for root in roots) else _outside(real)


def is_below(path: str, root: str) -> bool:
    """Compare by components: /srv/agents2 is not below /srv/agents. A path is below itself."""
    return path == root or path.startswith(root if root.endswith(_ROOT) else root + _ROOT)


def is_kernel_path(path: str) -> bool:
    """Say whether a normalised path inside the sandbox is, or lies in, what the kernel shows there."""
    return any(is_below(path, kernel) for kernel in _KERNEL_PATHS)


def _forbidden(source: str, blocked: Iterable[str]) -> str | None:
    """Say why the source is refused whatever the bind roots are.

    Ignores case: on the file systems of some hosts /Etc is /etc.
    """
    folded = source.casefold()
    if folded == _ROOT:
        return "it would show the whole host"
    return (
        _forbidden_by_place(folded, [path.casefold() for path in blocked])
        or _forbidden_by_name(folded)
        or _forbidden_as_home(folded)
    )


def _forbidden_by_place(source: str, blocked: Iterable[str]) -> str | None:
    for path in sorted(blocked):
        if is_below(source, path):
            return f"{path} is never bound"
        if is_below(path, source):
            return f"it contains {path}, which is never bound"
    return None


def _forbidden_by_name(source: str) -> str | None:
    for part in PurePosixPath(source).parts:
        if part in BLOCKED_HOME_PARTS:
            return f"{part} holds credentials and is never bound"
        if part in BLOCKED_SOCKETS:
            return f"{part} is a container engine's socket and is never bound"
    return None


def _forbidden_as_home(source: str) -> str | None:
    if source in _PARENTS_OF_HOMES or posixpath.dirname(source) in _PARENTS_OF_HOMES:
        return "it is a whole home, credentials included; bind a directory inside it"
    return None


def _refused(bind: str, why: str, *, field: str = "container.binds") -> Problem:
    return Problem(reason=Reason.BIND_REFUSED, message=f"{field}: {bind!r} is refused: {why}")


def _outside(source: str) -> str:
    return (
        f"{source} is outside the operator's bind roots; "
        "ask the installer to add its directory to ceilings.bindRoots"
    )
