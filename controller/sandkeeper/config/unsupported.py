"""What a backend has no means for: refused by name, because what is passed over in silence is believed to hold.

Only what is said counts. A Pod that is made without a limit on processes is what its node allows; a policy that asks
for such a limit is told that there is none.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.policy import Backend, Limits
from sandkeeper.api.workspace import Access, Workspace
from sandkeeper.config.levels import LIMITS, Level, merge_containers, setter
from sandkeeper.config.resolution import Problem
from sandkeeper.config.tmpfs import parse_tmpfs

__all__ = ["check"]

_MOST_DNS_SERVERS: Final = 3
"""What Kubernetes takes (``MaxDNSNameservers``), because the resolver of glibc takes no more."""

_HOST_NAME: Final = re.compile(
    r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.IGNORECASE
)
_HOST_GATEWAY: Final = ":host-gateway"

_DOCKERS: Final = "docker-default"

_TMPFS_OPTION: Final = re.compile(r"rw|ro|exec|nosuid|nodev|size=[1-9][0-9]*[kKmMgG]?", re.ASCII)
"""What a volume in memory can be. The rest of what a mount takes, the kubelet decides."""

_OF_PODS: Final[tuple[tuple[str, Callable[[ContainerTemplate], object], str], ...]] = (
    (
        "memory_swap",
        lambda container: container.memory_swap,
        "whether a Pod may swap is the node's decision; leave memorySwap out",
    ),
    (
        "ulimits",
        lambda container: ", ".join(sorted(container.ulimits or {})),
        "a Pod has the ulimits of its node's container runtime; leave them out, or set them there",
    ),
    (
        "network",
        lambda container: None if container.network == "none" else container.network,
        "a Pod has the cluster's network; leave network out and say in pod.egress what may be reached",
    ),
    (
        "gpus",
        lambda container: None if (container.gpus or "1").isdecimal() else container.gpus,
        "a Pod asks for GPUs by number; give a count, of what pod.gpuResource names",
    ),
    (
        "user",
        lambda container: container.user if container.user == "auto" else None,
        "nobody sees the node's directories before the Pod is there; name the user as uid:gid",
    ),
    (
        "apparmor_profile",
        lambda container: container.apparmor_profile if container.apparmor_profile == _DOCKERS else None,
        "that is Docker's own profile; leave apparmorProfile out for the node's, or name one that the nodes have",
    ),
    (
        "image_fallback",
        lambda container: container.image_fallback or None,
        "nodes pull images, and whether they can shows too late for another; leave imageFallback out",
    ),
)
"""Field, the values of it that have no Pod form, and what to do about them."""


def check(
    levels: Sequence[Level], workspace: Workspace, limits: Limits | None, *, backend: Backend
) -> Iterator[Problem]:
    """Find everything that is said and that the backend cannot do. ``workspace`` is what the levels come to.

    The sections have to be readable: :func:`sandkeeper.config.consistency.check` comes first. ``pod`` sections are no
    problem on Docker, nor is an emptyDir: one policy may serve agents of both backends.
    """
    match backend:
        case Backend.POD:
            container = merge_containers(level.container for level in levels)
            yield from _check_processes(levels, limits)
            yield from _check_fields(levels, container)
            yield from _check_names(container)
            yield from _check_tmpfs(container)
        case Backend.DOCKER:
            yield from _check_agent(levels, workspace)
            yield from _check_volume(levels, workspace)
            yield from _check_owner(levels, workspace)


def _check_processes(levels: Sequence[Level], limits: Limits | None) -> Iterator[Problem]:
    why = "a Pod has no limit on processes of its own; leave it out, and set podPidsLimit in the nodes' kubelets"
    if limits is not None and limits.pids_limit is not None:
        yield _unsupported("limits.pidsLimit", limits.pids_limit, why)
    for level in reversed(levels):
        count = None if level.container is None else level.container.pids_limit
        # The limits are a level, too, and were told about just now.
        if count is not None and level.owner != LIMITS:
            yield _unsupported("container.pidsLimit", count, why, owner=level.owner)
            break


def _check_fields(levels: Sequence[Level], container: ContainerTemplate) -> Iterator[Problem]:
    for field, unsupported, why in _OF_PODS:
        if value := unsupported(container):
            alias = ContainerTemplate.model_fields[field].alias
            yield _unsupported(f"container.{alias}", value, why, owner=setter(levels, field).owner)


def _check_names(container: ContainerTemplate) -> Iterator[Problem]:
    servers = container.dns or ()
    if len(servers) > _MOST_DNS_SERVERS:
        yield _unsupported(
            "container.dns", len(servers), f"a Pod has at most {_MOST_DNS_SERVERS} DNS servers; name fewer"
        )
    for line in container.extra_hosts or ():
        if line.endswith(_HOST_GATEWAY):
            yield _unsupported("container.extraHosts", line, "a Pod has no host-gateway; name an IP address")
        elif _HOST_NAME.fullmatch(line.partition(":")[0]) is None:
            yield _unsupported(
                "container.extraHosts",
                line,
                "a Pod takes names of letters, digits, dots and inner dashes; name another",
            )


def _check_tmpfs(container: ContainerTemplate) -> Iterator[Problem]:
    for text in container.tmpfs or ():
        options = parse_tmpfs(text).options
        for option in options.split(",") if options else ():
            if _TMPFS_OPTION.fullmatch(option) is None:
                yield _unsupported(
                    "container.tmpfs",
                    text,
                    f"a Pod's volume in memory has no option {option}; "
                    "it takes size=..., not in percent, ro, rw, exec, nosuid and nodev",
                )


def _check_agent(levels: Sequence[Level], workspace: Workspace) -> Iterator[Problem]:
    agent = workspace.agent
    if agent is None or agent.host_path is not None:
        return
    (kind,) = agent.model_dump(by_alias=True, exclude_none=True)
    yield _of_docker(
        levels, f"agent.{kind}", "a Docker container has no such volume; use workspace.agent.hostPath"
    )


def _check_volume(levels: Sequence[Level], workspace: Workspace) -> Iterator[Problem]:
    volume, access = workspace.volume, workspace.access
    if access is Access.RW:
        return  # there is no copy, which could be kept anywhere
    if volume is None or volume.empty_dir is not None:
        if workspace.agent is not None:
            yield _of_docker(
                levels,
                "agent",
                "the copy of an agent's files is prepared on the host, before the container is there; say where in "
                "workspace.volume.hostPath, or leave workspace.agent out",
            )
        elif volume is not None and volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
            why = "Docker does not limit the size of a directory; leave it out"
            yield _of_docker(levels, "volume.emptyDir.sizeLimit", why)
    elif volume.host_path is None:
        (kind,) = volume.model_dump(by_alias=True, exclude_none=True)
        why = "a Docker container has no such volume; use workspace.volume.hostPath or emptyDir"
        yield _of_docker(levels, f"volume.{kind}", why)


def _check_owner(levels: Sequence[Level], workspace: Workspace) -> Iterator[Problem]:
    """Find out whether there is a directory whose owner `auto` could be."""
    user = merge_containers(level.container for level in levels).user
    if user != "auto" or workspace.agent is not None:
        return
    if workspace.volume is None or workspace.volume.host_path is None:
        yield Problem(
            reason=Reason.UNSUPPORTED_FIELD,
            message=f"container.user: auto, set by {setter(levels, 'user').owner}, is whoever owns the workspace on "
            "the host, and it has none there; name the user as uid:gid, or say in workspace.agent.hostPath or "
            "workspace.volume.hostPath where the workspace is",
        )


def _of_docker(levels: Sequence[Level], field: str, why: str) -> Problem:
    owner = setter(levels, field.partition(".")[0], section="workspace").owner
    return Problem(
        reason=Reason.UNSUPPORTED_FIELD,
        message=f"workspace.{field}, set by {owner}, is not supported by the backend docker: {why}",
    )


def _unsupported(field: str, value: object, why: str, *, owner: str | None = None) -> Problem:
    by = "" if owner is None else f", set by {owner},"
    return Problem(
        reason=Reason.UNSUPPORTED_FIELD,
        message=f"{field}: {value}{by} is not supported by the backend pod: {why}",
    )
