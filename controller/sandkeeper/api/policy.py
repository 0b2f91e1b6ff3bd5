"""``AgentSandboxPolicy``: what the sandboxes of a namespace look like and may do."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from sandkeeper.api.base import Spec
from sandkeeper.api.container import BrowserTemplate, ContainerTemplate
from sandkeeper.api.pod import PodTemplate
from sandkeeper.api.rules import ListMap, Rule
from sandkeeper.api.types import (
    AgentId,
    AmountOrShare,
    Capability,
    Cpus,
    HostPath,
    ImagePattern,
    ListedUser,
    Memory,
    Network,
    Seconds,
    SessionKey,
)
from sandkeeper.api.workspace import Workspace

__all__ = [
    "AgentEntry",
    "AgentSandboxPolicySpec",
    "Backend",
    "BreakGlass",
    "Limits",
    "Mode",
    "PolicyLevel",
    "PolicyRollout",
    "Prune",
    "Rollout",
    "Scope",
]


class Mode(StrEnum):
    """Which sessions of an agent are sandboxed."""

    OFF = "off"
    NON_MAIN = "non-main"
    ALL = "all"


class Scope(StrEnum):
    """Who shares a runtime: nobody, all sessions of an agent, or everybody under the policy."""

    SESSION = "session"
    AGENT = "agent"
    SHARED = "shared"


class Backend(StrEnum):
    """What makes the runtimes."""

    DOCKER = "docker"
    POD = "pod"


class BreakGlass(StrEnum):
    """What takes isolation away. Each needs the policy's own break-glass field and the operator's ceilings."""

    CONTAINER_NAMESPACE_JOIN = "containerNamespaceJoin"
    UNCONFINED_SECCOMP = "unconfinedSeccomp"
    UNCONFINED_APPARMOR = "unconfinedApparmor"


class Prune(Spec):
    """When a runtime that nobody uses is removed."""

    idle_seconds: Seconds | None = None
    """Unused for longer than this: pruned. 0 is never. Built in: 86400."""
    max_age_seconds: Seconds | None = None
    """Older than this, and cold: pruned. 0 is never. Built in: 604800."""
    delete_after_seconds: Seconds | None = None
    """Pruned for longer than this: the Sandbox object is deleted. 0 is never. Built in: 0."""


class Rollout(Spec):
    """How a change of configuration reaches the runtimes that run."""

    paused: bool | None = None
    """Hold back every replacement; what runs is kept and shown as drifted. Built in: false."""


class PolicyRollout(Rollout):
    """How a change of configuration reaches the runtimes that run: the coldest first, and so many at once."""

    max_unavailable: AmountOrShare | None = None
    """How many runtimes under the policy may be away at once because they are replaced: a number, or a share of all
    (`10%`), rounded up. Built in: 25%."""
    per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Replacements in a minute, evenly spread. What the operator allows to all policies together (`replacements`) is
    above it. Built in: nothing but that."""
    max_failed: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """How many replacements may have failed, and the rollout goes on nevertheless. Those are not counted as away. Built
    in: 0, so that it stops at the first."""


class Limits(Spec):
    """What the agents of this policy and the Sandboxes under it may not exceed. What is absent is not limited.

    An empty list allows nothing. All of it is below the operator's ceilings.
    """

    memory: Memory | None = None
    """Largest memory limit, and the one of whoever states none."""
    cpus: Cpus | None = None
    """Largest CPU limit in cores, and the one of whoever states none."""
    pids_limit: Annotated[int, Field(ge=1, le=4_194_304)] | None = None
    """Largest pidsLimit, and the one of whoever states none."""
    gpus: bool | None = None
    """False: no GPUs."""
    images: Annotated[list[ImagePattern], Field(max_length=64)] | None = None
    """Images that may be chosen: full names, or beginnings that end in `*`. Compared as they are written. What
    imageFallback runs is one of them."""
    bind_roots: Annotated[list[HostPath], Field(max_length=64)] | None = None
    """Host directories below which binds and workspaces may lie, as they are written: where links lead is for the
    operator's ceilings to judge."""
    networks: Annotated[list[Network], Field(max_length=64)] | None = None
    """Networks that may be named, besides `none`."""
    users: Annotated[list[ListedUser], Field(max_length=64)] | None = None
    """Ids of users and groups that may be named, and `auto`."""
    capabilities: Annotated[list[Capability], Field(max_length=64)] | None = None
    """Capabilities that may be left undropped; `ALL` is every one."""
    break_glass: Annotated[list[BreakGlass], Field(max_length=8)] | None = None
    """Dangerous settings that may be used."""
    max_hold_seconds: Seconds | None = None
    """Longest effect of one value of the hold-until annotation. 0 is without a limit. Built in: 86400."""
    require_network_isolation: bool | None = None
    """True: no runtime that may reach more than is said here, whoever asks for it. A container needs `network: none`;
    a Pod needs an installer who states that the cluster enforces network policies."""


class PolicyLevel(Spec):
    """The sections that a policy has for everybody, and an entry of ``agents`` for one agent."""

    mode: Mode | None = None
    """Which sessions are sandboxed. Quote `"off"`: YAML reads a bare off as false. Built in: all."""
    main_session_key: SessionKey | None = None
    """The sessionKey that `mode: non-main` leaves outside. Built in: main."""
    scope: Scope | None = None
    """Who shares a runtime. Built in: agent."""
    backend: Backend | None = None
    """What makes the runtimes. Built in: what the operator was installed with."""
    container: ContainerTemplate | None = None
    """What the containers look like."""
    pod: PodTemplate | None = None
    """What is particular to Pods. Without effect where the backend is another."""
    workspace: Workspace | None = None
    """What is mounted at the working directory, and where it is kept."""
    browser: BrowserTemplate | None = None
    """What is different for a browser's container. Without effect as yet: no browser is run."""
    prune: Prune | None = None
    """When unused runtimes are removed."""
    hot_window_seconds: Seconds | None = None
    """A runtime used within this time is neither replaced nor pruned. Built in: 300."""
    rollout: Rollout | None = None
    """How changes reach the runtimes that run."""


class AgentEntry(PolicyLevel):
    """What is different for one agent. Does not apply where the scope is `shared`."""

    id: AgentId
    """The agentId of the Sandboxes that this entry is for."""


def _swap_needs_memory(level: PolicyLevel, *, above: ContainerTemplate | None) -> bool:
    container = level.container
    if container is None or container.memory_swap in {None, "-1"}:
        return False
    return container.memory is None and (above is None or above.memory is None)


class AgentSandboxPolicySpec(PolicyLevel):
    """What the sandboxes under this policy look like and may do."""

    # An agent's memorySwap may go with the memory of the policy, so one container alone cannot tell.
    rules: ClassVar = (
        Rule(
            cel="!has(self.container) || !has(self.container.memorySwap) || "
            "self.container.memorySwap == '-1' || has(self.container.memory)",
            holds=lambda policy: not _swap_needs_memory(policy, above=None),
            message="container.memorySwap is memory and swap together: set container.memory too, "
            "or leave it out",
            field="container.memorySwap",
            reason="FieldValueRequired",
        ),
        Rule(
            cel="!has(self.agents) || (has(self.container) && has(self.container.memory)) || "
            "self.agents.all(agent, !has(agent.container) || !has(agent.container.memorySwap) || "
            "agent.container.memorySwap == '-1' || has(agent.container.memory))",
            holds=lambda policy: (
                not any(_swap_needs_memory(agent, above=policy.container) for agent in policy.agents or ())
            ),
            message="agents[].container.memorySwap is memory and swap together: set memory beside it or in "
            "spec.container, or leave it out",
            field="agents",
            reason="FieldValueRequired",
        ),
    )

    rollout: PolicyRollout | None = None
    """How changes reach the runtimes that run."""
    limits: Limits | None = None
    """What agents and Sandboxes below may not exceed."""
    agents: Annotated[list[AgentEntry], Field(max_length=128), ListMap("id")] | None = None
    """Differences by agent."""
