"""Levels, and how they are merged: binds concatenated, env and ulimits merged, everything else replaced.

Of ``pod`` every field but ``mounts`` is replaced by itself, ``egress`` as a whole; so an empty one takes away what
others said. Of ``workspace`` too every field is replaced by itself.

The levels of one Sandbox are a tuple from the most general (built-in) to the most particular. Which levels
belong to it, :mod:`sandkeeper.config.scope` decides first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from sandkeeper.api.base import Spec
from sandkeeper.api.container import BrowserTemplate, ContainerTemplate, SandboxContainer
from sandkeeper.api.pod import PodTemplate
from sandkeeper.api.policy import (
    AgentEntry,
    AgentSandboxPolicySpec,
    Backend,
    Limits,
    PolicyLevel,
    Prune,
    Rollout,
)
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.api.workspace import Workspace
from sandkeeper.config.builtin import BUILT_IN, MAX_HOLD_SECONDS
from sandkeeper.config.windows import Windows

__all__ = [
    "CONCATENATED",
    "LIMITS",
    "MERGED",
    "Level",
    "agent_level",
    "built_in_level",
    "latest",
    "limits_level",
    "merge_backend",
    "merge_containers",
    "merge_pods",
    "merge_windows",
    "merge_workspaces",
    "policy_level",
    "present",
    "sandbox_level",
    "setter",
]

LIMITS: Final = "the policy's limits"
"""The owner of the level that stands for them."""

CONCATENATED: Final = frozenset({"binds", "mounts"})
"""Fields to whose lists each level adds."""
MERGED: Final = frozenset({"env", "ulimits"})
"""Fields of whose entries each level replaces those that it names."""

# What is merged is put into a copy of nothing: constructing a model looks up every default each time.
_NO_CONTAINER: Final = ContainerTemplate()
_NO_POD: Final = PodTemplate()
_NO_WORKSPACE: Final = Workspace()

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Level:
    """What one level has to say in the sections that all levels share."""

    owner: str
    """Who says it, in words for a message: ``the policy``, ``agents[dev]``, ``the Sandbox``."""
    limited: bool
    """Whether the policy's limits hold for it: they do for everything below the policy."""
    backend: Backend | None = None
    container: SandboxContainer | None = None
    pod: PodTemplate | None = None
    workspace: Workspace | None = None
    browser: BrowserTemplate | None = None
    prune: Prune | None = None
    hot_window_seconds: int | None = None
    rollout: Rollout | None = None


def built_in_level(default_backend: Backend) -> Level:
    """Return the level below all others. The operator says which backend is the default."""
    return _from_sections(BUILT_IN, owner="built-in", limited=False, backend=default_backend)


def limits_level(limits: Limits | None) -> Level:
    """Return the limits as a level of its own: a runtime of which nobody says how much has as much as is allowed.

    Otherwise saying nothing would be the way around a limit.
    """
    container = None
    if limits is not None:
        container = ContainerTemplate(memory=limits.memory, cpus=limits.cpus, pids_limit=limits.pids_limit)
    return Level(owner=LIMITS, limited=False, container=container)


def policy_level(policy: AgentSandboxPolicySpec) -> Level:
    """Return what the policy says for everybody."""
    return _from_sections(policy, owner="the policy", limited=False, backend=policy.backend)


def agent_level(entry: AgentEntry) -> Level:
    """Return what the policy says for one agent."""
    return _from_sections(entry, owner=f"agents[{entry.id}]", limited=True, backend=entry.backend)


def sandbox_level(spec: SandboxSpec) -> Level:
    """Return what the Sandbox says for itself."""
    return Level(owner="the Sandbox", limited=True, backend=spec.backend, container=spec.container)


def _from_sections(sections: PolicyLevel, *, owner: str, limited: bool, backend: Backend | None) -> Level:
    return Level(
        owner=owner,
        limited=limited,
        backend=backend,
        container=sections.container,
        pod=sections.pod,
        workspace=sections.workspace,
        browser=sections.browser,
        prune=sections.prune,
        hot_window_seconds=sections.hot_window_seconds,
        rollout=sections.rollout,
    )


def latest(values: Iterable[T | None]) -> T | None:
    """Return the last value that is there: what the most particular level says."""
    found = None
    for value in values:
        if value is not None:
            found = value
    return found


def present(value: T | None) -> T:
    """Return a value that the built-in level guarantees; a gap there is a mistake of ours, not of a user."""
    if value is None:
        raise AssertionError("the built-in level lacks a default")
    return value


def merge_containers(containers: Iterable[SandboxContainer | None]) -> ContainerTemplate:
    """Merge container sections, the most general first.

    The result is not validated as a whole: concatenated binds may be more than one level may list.
    """
    merged: dict[str, Any] = {}
    for container in containers:
        for name, value in _said(container):
            if name in CONCATENATED:
                merged[name] = [*merged.get(name, ()), *value]
            elif name in MERGED:
                merged[name] = {**merged.get(name, {}), **value}
            else:
                merged[name] = value
    return _NO_CONTAINER.model_copy(update=merged)


def merge_pods(pods: Iterable[PodTemplate | None]) -> PodTemplate:
    """Merge ``pod`` sections, the most general first."""
    merged: dict[str, Any] = {}
    for pod in pods:
        for name, value in _said(pod):
            merged[name] = [*merged.get(name, ()), *value] if name in CONCATENATED else value
    return _NO_POD.model_copy(update=merged)


def merge_workspaces(workspaces: Iterable[Workspace | None]) -> Workspace:
    """Merge ``workspace`` sections, the most general first."""
    merged: dict[str, Any] = {}
    for workspace in workspaces:
        merged |= dict(_said(workspace))
    return _NO_WORKSPACE.model_copy(update=merged)


def _said(section: Spec | None) -> Iterator[tuple[str, Any]]:
    """Give the fields of a section that are set."""
    if section is not None:
        for name in type(section).model_fields:
            if (value := getattr(section, name)) is not None:
                yield name, value


def merge_backend(levels: Iterable[Level]) -> Backend:
    """Return the backend that the most particular level names."""
    return present(latest(level.backend for level in levels))


def merge_windows(levels: Sequence[Level], *, max_hold_seconds: int | None) -> Windows:
    """Merge the lengths of time, field by field. ``max_hold_seconds`` comes from the policy's limits."""
    prunes = [level.prune for level in levels if level.prune is not None]
    rollouts = [level.rollout for level in levels if level.rollout is not None]
    hold = MAX_HOLD_SECONDS if max_hold_seconds is None else max_hold_seconds
    return Windows(
        hot=_seconds(level.hot_window_seconds for level in levels),
        idle=_seconds(prune.idle_seconds for prune in prunes),
        max_age=_seconds(prune.max_age_seconds for prune in prunes),
        delete_after=_seconds(prune.delete_after_seconds for prune in prunes),
        max_hold=timedelta(seconds=hold),
        rollout_paused=present(latest(rollout.paused for rollout in rollouts)),
    )


def _seconds(values: Iterable[int | None]) -> timedelta:
    return timedelta(seconds=present(latest(values)))


def setter(levels: Sequence[Level], field: str, *, section: str = "container") -> Level:
    """Return the most particular level whose section sets the field; where none does, the most general."""
    for level in reversed(levels):
        if getattr(getattr(level, section), field, None) is not None:
            return level
    return levels[0]
