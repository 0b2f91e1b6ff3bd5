"""What admission cannot see: fields that do not go together, and texts of the right form with a wrong value.

Found here, it is a condition that names the field. Left to the engine, it would be an error after the old
runtime was removed. What admission does see is looked at again: an object may be older than a rule.
"""

import ipaddress
import posixpath
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.pod import PodTemplate
from sandkeeper.api.policy import Limits
from sandkeeper.api.types import ULIMIT_NAMES
from sandkeeper.api.workspace import Access, Workspace
from sandkeeper.config import binds, environment
from sandkeeper.config.capabilities import ALL, KNOWN, bare
from sandkeeper.config.quantities import MINIMUM_DISK, MINIMUM_MEMORY, UNLIMITED, memory_bytes, swap_bytes
from sandkeeper.config.resolution import Problem
from sandkeeper.config.tmpfs import parse_tmpfs

__all__ = ["check", "check_pod"]

_MAX_ID: Final = 2**31 - 1
"""Largest user or group id that a container runtime takes (runc's ``maxID``)."""

_ULIMITS: Final = frozenset(ULIMIT_NAMES.split())


def check(container: ContainerTemplate, workspace: Workspace, limits: Limits | None) -> Iterator[Problem]:
    """Find everything in the merged sections that no engine could make a runtime from."""
    yield from _check_memory(container, limits)
    yield from (paths := list(_check_paths(container)))
    yield from _check_user(container)
    yield from _check_capabilities(container)
    yield from _check_ulimits(container)
    yield from _check_addresses(container)
    yield from environment.check(container.env or {})
    if not paths:
        yield from _check_workspace(container, workspace)


def check_pod(container: ContainerTemplate, pod: PodTemplate, workspace: Workspace) -> Iterator[Problem]:
    """Find everything in the merged sections that no Pod could be made from. :func:`check` comes first."""
    volume = workspace.volume
    sizes = [("pod.ephemeralStorage", pod.ephemeral_storage)]
    if volume is not None and volume.empty_dir is not None:
        sizes.append(("workspace.volume.emptyDir.sizeLimit", volume.empty_dir.size_limit))
    if volume is not None and volume.template is not None:
        sizes.append(("workspace.volume.template.size", volume.template.size))
    for field, text in sizes:
        try:
            size = None if text is None else memory_bytes(text)
        except ValueError as error:
            yield _invalid(f"{field}: {error}")
            continue
        if size is not None and size < MINIMUM_DISK:
            yield _invalid(f"{field}: {text} is below 1m; name more, with a unit such as g")
    yield from _check_mounts(container, pod, workspace)


def _check_mounts(container: ContainerTemplate, pod: PodTemplate, workspace: Workspace) -> Iterator[Problem]:
    """Find out whether each shared volume has a place of its own."""
    taken = binds.taken_targets(_workdir(container), has_skills=workspace.agent is not None)
    others = {parse_tmpfs(text).path: "container.tmpfs" for text in container.tmpfs or ()}
    others |= dict.fromkeys(_targets(container), "container.binds")
    for mount in pod.mounts or ():
        path = binds.normalise_path(mount.path)
        if (why := binds.check_target(path, taken)) is not None:
            yield _invalid(f"pod.mounts: {mount.path!r} is refused: {why}")
        elif path in others:
            yield _invalid(f"pod.mounts and {others[path]} both have {path}; leave one out")


def _check_workspace(container: ContainerTemplate, workspace: Workspace) -> Iterator[Problem]:
    access, agent, workdir = workspace.access or Access.NONE, workspace.agent, _workdir(container)
    if agent is None and access is not Access.NONE:
        yield _invalid(
            f"workspace.access: {access} is access to the agent's own workspace; say in workspace.agent where that is"
        )
    if agent is not None and agent.config_map is not None and access is Access.RW:
        yield _invalid(
            "workspace.access: rw needs a workspace that can be written to, and workspace.agent is a configMap; "
            "name a claim or a directory, or use access: none or ro"
        )
    if access is Access.RO and binds.is_below(workdir, binds.AGENT_MOUNT):
        yield _invalid(
            f"container.workdir: {workdir!r} is where the agent's own workspace is mounted; name another directory"
        )
    if agent is None and workspace.volume is None:
        return
    if workdir == "/":
        yield _invalid("workspace is mounted at container.workdir, which must not be '/'; name a directory")
    elif workdir in {parse_tmpfs(text).path for text in container.tmpfs or ()}:
        yield _invalid(f"container.tmpfs and workspace are both at {workdir}; leave one out")
    yield from _check_tmpfs(container, workspace)


def _check_tmpfs(container: ContainerTemplate, workspace: Workspace) -> Iterator[Problem]:
    """Find what would hide something that may only be read, and could be written to in its place."""
    shown = {}
    if workspace.agent is not None and workspace.agent.config_map is None:
        shown[posixpath.join(_workdir(container), binds.SKILLS)] = "the agent's skills are"
    if workspace.access is Access.RO:
        shown[binds.AGENT_MOUNT] = "the agent's own workspace is"
    for path in (parse_tmpfs(text).path for text in container.tmpfs or ()):
        for place, what in shown.items():
            if binds.is_below(path, place):
                yield _invalid(
                    f"container.tmpfs: {path} is where {what} mounted, to be read only; name another directory"
                )


def _workdir(container: ContainerTemplate) -> str:
    return binds.normalise_path(container.workdir or "/")


def _check_memory(container: ContainerTemplate, limits: Limits | None) -> Iterator[Problem]:
    sizes: list[int | None] = []
    for field, text, read in (
        ("limits.memory", None if limits is None else limits.memory, memory_bytes),
        ("container.memory", container.memory, memory_bytes),
        ("container.memorySwap", container.memory_swap, swap_bytes),
    ):
        try:
            sizes.append(None if text is None else read(text))
        except ValueError as error:
            yield _invalid(f"{field}: {error}")
            return
    _, memory, swap = sizes
    if memory is not None and memory < MINIMUM_MEMORY:
        yield _invalid(f"container.memory: {container.memory} is below 6m, the least that an engine takes")
    if swap is None or swap == UNLIMITED:
        return
    if memory is None:
        yield _invalid("container.memorySwap is memory and swap together: it needs container.memory")
    elif swap < memory:
        yield _invalid(
            f"container.memorySwap: {container.memory_swap} is memory and swap together, so it cannot be "
            f"below container.memory, {container.memory}"
        )


def _check_paths(container: ContainerTemplate) -> Iterator[Problem]:
    workdir = container.workdir or "/"
    if ".." in PurePosixPath(workdir).parts or not workdir.startswith("/") or "\0" in workdir:
        yield _invalid(f"container.workdir: {workdir!r} has to be an absolute path without '..'")
    elif binds.is_kernel_path(binds.normalise_path(workdir)):
        # A working directory below /proc/self/fd was a way out of containers (CVE-2024-21626).
        yield _invalid(f"container.workdir: {workdir!r} is the kernel's")
    tmpfs: set[str] = set()
    for text in container.tmpfs or ():
        try:
            tmpfs.add(parse_tmpfs(text).path)
        except ValueError as error:
            yield _invalid(f"container.tmpfs: {error}")
    for target in _targets(container):
        if target in tmpfs:
            yield _invalid(f"container.binds and container.tmpfs both have {target}; leave one out")


def _targets(container: ContainerTemplate) -> Iterator[str]:
    """Give where the binds are mounted; what is none is refused by the ceilings' check, with its own reason."""
    for bind in container.binds or ():
        with suppress(ValueError):
            yield binds.parse(bind).target


def _check_user(container: ContainerTemplate) -> Iterator[Problem]:
    user = container.user or "auto"
    if user != "auto" and not all(
        part.isascii() and part.isdecimal() and int(part) <= _MAX_ID for part in user.split(":", maxsplit=1)
    ):
        yield _invalid(f"container.user: {user!r} has to be auto, uid or uid:gid, each at most {_MAX_ID}")


def _check_capabilities(container: ContainerTemplate) -> Iterator[Problem]:
    for capability in container.cap_drop or ():
        if capability != ALL and bare(capability) not in KNOWN:
            yield _invalid(f"container.capDrop: {capability!r} is no capability")


def _check_ulimits(container: ContainerTemplate) -> Iterator[Problem]:
    for name, ulimit in (container.ulimits or {}).items():
        if name not in _ULIMITS:
            yield _invalid(f"container.ulimits: {name!r} is none of {ULIMIT_NAMES}")
        unlimited_soft = ulimit.soft == UNLIMITED
        if ulimit.hard != UNLIMITED and (unlimited_soft or ulimit.soft > ulimit.hard):
            yield _invalid(f"container.ulimits.{name}: soft is above hard")


def _check_addresses(container: ContainerTemplate) -> Iterator[Problem]:
    for server in container.dns or ():
        if not _is_address(server):
            yield _invalid(f"container.dns: {server!r} is not an IP address")
    for line in container.extra_hosts or ():
        _, _, address = line.partition(":")
        if address != "host-gateway" and not _is_address(address):
            yield _invalid(f"container.extraHosts: {line!r} has to be name:address or name:host-gateway")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # an address with a zone means something on one machine only


def _invalid(message: str) -> Problem:
    return Problem(reason=Reason.INVALID_CONFIG, message=message)
