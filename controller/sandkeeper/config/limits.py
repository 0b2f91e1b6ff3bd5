"""The policy's limits: how far its agents' entries and the Sandboxes under it may go.

They hold for what a level below the policy sets. What the policy itself says for everybody is its author's
own decision, limits or not. Isolation is another matter: whoever requires it means everybody.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.policy import Backend, Limits
from sandkeeper.config.levels import Level, merge_containers, setter
from sandkeeper.config.quantities import memory_bytes
from sandkeeper.config.resolution import Problem

__all__ = ["check", "check_isolation", "is_image_allowed"]

_TOLD: Final = 5


def check(levels: Sequence[Level], limits: Limits | None) -> Iterator[Problem]:
    """Find every value in force that a level below the policy set, and that is above the limits.

    The sizes in the levels have to be readable: :func:`sandkeeper.config.consistency.check` comes first.
    """
    if limits is None:
        return
    container = merge_containers(level.container for level in levels)
    for field, limits_field, value, limit in _exceeded(container, limits):
        level = setter(levels, field)
        if level.limited:
            alias = ContainerTemplate.model_fields[field].alias
            yield Problem(
                reason=Reason.LIMIT_EXCEEDED,
                message=f"container.{alias}: {value}, set by {level.owner}, is not within the policy's "
                f"limits.{limits_field}: {limit}",
            )


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


def is_image_allowed(image: str, patterns: Sequence[str]) -> bool:
    """Say whether the image is one of the names, or begins like one that ends in ``*``. Compared as text."""
    return any(
        image.startswith(pattern.removesuffix("*")) if pattern.endswith("*") else image == pattern
        for pattern in patterns
    )


def _exceeded(container: ContainerTemplate, limits: Limits) -> Iterator[tuple[str, str, str, str]]:
    """Give field, field of the limits, value and limit of everything above the limits, whoever set it."""
    memory, cpus, pids, image = container.memory, container.cpus, container.pids_limit, container.image
    if (
        memory is not None
        and limits.memory is not None
        and memory_bytes(memory) > memory_bytes(limits.memory)
    ):
        yield "memory", "memory", memory, limits.memory
    # Both are floats that were read from decimals, by the same rule: comparing them as they are is exact.
    if cpus is not None and limits.cpus is not None and cpus > limits.cpus:
        yield "cpus", "cpus", str(cpus), str(limits.cpus)
    if pids is not None and limits.pids_limit is not None and pids > limits.pids_limit:
        yield "pids_limit", "pidsLimit", str(pids), str(limits.pids_limit)
    if container.gpus is not None and limits.gpus is False:
        yield "gpus", "gpus", container.gpus, "none"
    if image is not None and limits.images is not None and not is_image_allowed(image, limits.images):
        yield "image", "images", image, _shown(limits.images)


def _shown(patterns: Sequence[str]) -> str:
    """Name some of the images that are allowed: a message is not the place for all of them."""
    more = len(patterns) - _TOLD
    return (", ".join(patterns[:_TOLD]) or "none") + (f", and {more} more" if more > 0 else "")
