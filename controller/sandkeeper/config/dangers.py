"""What takes isolation away, and is therefore locked twice: by a field of the policy and by the operator's ceilings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.policy import BreakGlass

__all__ = ["Danger", "find_dangers"]


@dataclass(frozen=True, kw_only=True)
class Danger:
    """A field with a value that is dangerous, and the field that says that it is meant."""

    glass: BreakGlass
    field: str
    key: str
    is_meant_by: Callable[[str], bool]


# Engines take these words in any case.
_DANGERS: Final = (
    Danger(
        glass=BreakGlass.CONTAINER_NAMESPACE_JOIN,
        field="network",
        key="dangerously_allow_container_namespace_join",
        is_meant_by=lambda network: network.casefold().partition(":")[0] == "container",
    ),
    Danger(
        glass=BreakGlass.UNCONFINED_SECCOMP,
        field="seccomp_profile",
        key="dangerously_allow_unconfined_seccomp",
        is_meant_by=lambda profile: profile.casefold() == "unconfined",
    ),
    Danger(
        glass=BreakGlass.UNCONFINED_APPARMOR,
        field="apparmor_profile",
        key="dangerously_allow_unconfined_apparmor",
        is_meant_by=lambda profile: profile.casefold() == "unconfined",
    ),
)


def find_dangers(container: ContainerTemplate) -> Iterator[Danger]:
    """Find the dangerous values in a container section, whether or not they are allowed."""
    for danger in _DANGERS:
        value = getattr(container, danger.field)
        if value is not None and danger.is_meant_by(value):
            yield danger
