"""The policy's limits: how far its agents' entries and the Sandboxes under it may go.

They hold for what a level below the policy sets. What the policy itself says for everybody is its author's
own decision, limits or not. Isolation is another matter: whoever requires it means everybody.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.policy import Backend, Limits
from sandkeeper.api.workspace import AgentWorkspace, Volume
from sandkeeper.config import binds
from sandkeeper.config.allowlists import capabilities_kept, is_image_listed, is_user_listed, shown
from sandkeeper.config.builtin import FALLBACK_IMAGE
from sandkeeper.config.dangers import find_dangers
from sandkeeper.config.levels import Level, merge_containers, setter
from sandkeeper.config.quantities import memory_bytes
from sandkeeper.config.resolution import Problem

__all__ = ["check", "check_isolation"]


@dataclass(frozen=True, kw_only=True)
class _Excess:
    """Something in the merged container section that is above a limit, whoever set it."""

    set_by: tuple[str, ...]
    """The fields by which it is set."""
    what: str
    limit: str


def check(levels: Sequence[Level], limits: Limits | None) -> Iterator[Problem]:
    """Find every value in force that a level below the policy set, and that is above the limits.

    The sizes in the levels have to be readable: :func:`sandkeeper.config.consistency.check` comes first.
    """
    if limits is None:
        return
    container = merge_containers(level.container for level in levels)
    for excess in chain(
        _find_above(container, limits), _find_unlisted(container, limits), _find_dangerous(container, limits)
    ):
        setters = (setter(levels, field) for field in excess.set_by)
        if (below := next((level for level in setters if level.limited), None)) is not None:
            yield _exceeded(excess.what, below, excess.limit)
    if limits.bind_roots is not None:
        yield from _check_places(levels, limits.bind_roots)


def check_isolation(
    container: ContainerTemplate, limits: Limits | None, *, backend: Backend, enforced: bool
) -> Iterator[Problem]:
    """Find out whether the network is as isolated as is required. ``enforced``: network policies certainly are."""
    if limits is None or not limits.require_network_isolation:
        return
    network = container.network or "none"
    if backend is Backend.POD and not enforced:
        yield _not_isolated(
            "limits.requireNetworkIsolation: nobody states that the cluster enforces NetworkPolicies, without which a "
            "Pod may reach everything; ask the installer to set pod.networkPolicyEnforced, or use backend: docker"
        )
    elif backend is Backend.DOCKER and network != "none":
        yield _not_isolated(
            f"container.network: {network!r} is not isolated, which the policy's limits.requireNetworkIsolation "
            "asks for; use none"
        )


def _not_isolated(message: str) -> Problem:
    return Problem(reason=Reason.NETWORK_NOT_ISOLATED, message=message)


def _find_above(container: ContainerTemplate, limits: Limits) -> Iterator[_Excess]:
    """Find what is more than it may be."""
    memory, cpus, pids = container.memory, container.cpus, container.pids_limit
    if (
        memory is not None
        and limits.memory is not None
        and memory_bytes(memory) > memory_bytes(limits.memory)
    ):
        yield _excess("memory", memory, f"memory: {limits.memory}")
    # Both are floats that were read from decimals, by the same rule: comparing them as they are is exact.
    if cpus is not None and limits.cpus is not None and cpus > limits.cpus:
        yield _excess("cpus", cpus, f"cpus: {limits.cpus}")
    if pids is not None and limits.pids_limit is not None and pids > limits.pids_limit:
        yield _excess("pids_limit", pids, f"pidsLimit: {limits.pids_limit}")
    if container.gpus is not None and limits.gpus is False:
        yield _excess("gpus", container.gpus, "gpus: none")


def _find_unlisted(container: ContainerTemplate, limits: Limits) -> Iterator[_Excess]:
    """Find what is not on the list of what it may be. A list that is absent has everything on it."""
    if limits.images is not None:
        for field, image in (
            ("image", container.image),
            ("image_fallback", FALLBACK_IMAGE if container.image_fallback else None),
        ):
            if image is not None and not is_image_listed(image, limits.images):
                yield _excess(field, image, f"images: {shown(limits.images)}")
    network = container.network or "none"
    if limits.networks is not None and network not in {"none", *limits.networks}:
        yield _excess("network", network, f"networks: {shown(limits.networks)}")
    user = container.user or "auto"
    if limits.users is not None and not is_user_listed(user, limits.users):
        yield _excess("user", user, f"users: {shown(limits.users)}")
    if limits.capabilities is not None:
        kept = capabilities_kept(container.cap_drop or (), limits.capabilities)
        if kept:
            yield _excess(
                "cap_drop", f"{', '.join(kept)} not dropped", f"capabilities: {shown(limits.capabilities)}"
            )


def _find_dangerous(container: ContainerTemplate, limits: Limits) -> Iterator[_Excess]:
    """Find what takes isolation away. Whoever turns the policy's key for it sets it as well."""
    if limits.break_glass is None:
        return
    for danger in find_dangers(container):
        if danger.glass not in limits.break_glass:
            value = getattr(container, danger.field)
            limit = f"breakGlass: {shown(limits.break_glass)}"
            yield _excess(danger.field, value, limit, also_by=danger.key)


def _check_places(levels: Sequence[Level], roots: Sequence[str]) -> Iterator[Problem]:
    """Find directories of hosts that lie elsewhere, as they are written."""
    for level, what, path in _host_paths(levels):
        if level.limited and not _lies_in(path, roots):
            yield _exceeded(what, level, f"bindRoots: {shown(roots)}")


def _host_paths(levels: Sequence[Level]) -> Iterator[tuple[Level, str, str]]:
    """Give every directory of a host that is in force, and who says so. Of binds those of all levels are."""
    for level in levels:
        for name, section in (("container", level.container), ("browser", level.browser)):
            for bind in getattr(section, "binds", None) or ():
                yield level, f"{name}.binds: {bind}", bind.partition(":")[0]
    for name in ("agent", "volume"):
        level = setter(levels, name, section="workspace")
        place: AgentWorkspace | Volume | None = getattr(level.workspace, name, None)
        if place is not None and place.host_path is not None:
            path = place.host_path.path
            yield level, f"workspace.{name}.hostPath: {path}", path


def _lies_in(path: str, roots: Sequence[str]) -> bool:
    try:
        normal = binds.normalise_path(path)
    except ValueError:
        return False
    return any(binds.is_below(normal, binds.normalise_path(root)) for root in roots)


def _excess(field: str, value: object, limit: str, *, also_by: str | None = None) -> _Excess:
    alias = ContainerTemplate.model_fields[field].alias
    set_by = (field,) if also_by is None else (field, also_by)
    return _Excess(set_by=set_by, what=f"container.{alias}: {value}", limit=limit)


def _exceeded(what: str, level: Level, limit: str) -> Problem:
    return Problem(
        reason=Reason.LIMIT_EXCEEDED,
        message=f"{what}, set by {level.owner}, is not within the policy's limits.{limit}; "
        "choose within that, or have it changed in the policy",
    )
