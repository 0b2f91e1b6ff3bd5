"""What a Sandbox comes down to once every level has had its say."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandkeeper.api.conditions import Reason
from sandkeeper.api.policy import Backend
from sandkeeper.api.workspace import Access
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.pod import DEFAULT_POD, DEFAULT_WORKSPACE, PodShape, WorkspaceVolume
from sandkeeper.config.sources import AgentSource
from sandkeeper.config.windows import Windows

__all__ = ["Problem", "Resolution", "RuntimeConfig", "UlimitValue"]


@dataclass(frozen=True, order=True)
class UlimitValue:
    """One resource limit; -1 is without a limit."""

    soft: int
    hard: int


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """What shapes a runtime, resolved; :func:`~sandkeeper.config.canonical.config_hash` is taken of it.

    Sizes are in bytes, CPUs in thousandths. None means that the engine's own default applies.
    """

    backend: Backend
    image: str
    container_prefix: str
    workdir: str
    read_only_root: bool
    tmpfs: tuple[str, ...]
    network: str
    user: str
    cap_drop: tuple[str, ...]
    env: Mapping[str, str]
    """Already cleaned of secret-like names."""
    setup_command: str | None
    setup_timeout_seconds: int
    pids_limit: int | None
    memory: int | None
    memory_swap: int | None
    """-1: without a limit."""
    milli_cpus: int | None
    gpus: str | None
    ulimits: Mapping[str, UlimitValue]
    seccomp_profile: str | None
    apparmor_profile: str | None
    dns: tuple[str, ...]
    extra_hosts: tuple[str, ...]
    binds: tuple[str, ...]
    """Normalised; one per target, the last one wins."""
    init: bool
    image_fallback: bool
    pod: PodShape = DEFAULT_POD
    access: Access = Access.NONE
    """What the sandbox sees of its agent's own workspace."""
    agent: AgentSource | None = None
    """The agent's own workspace."""
    workspace: WorkspaceVolume = DEFAULT_WORKSPACE
    """Where the sandbox's own workspace is kept; with access rw it has none."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why the desired state cannot be resolved. The message names the field and the fix."""

    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """The outcome for one Sandbox."""

    policy: str | None
    """The policy as applied: ``namespace/name`` or ``built-in``; None: not found."""
    key: RuntimeKey | None
    """None: it is not sandboxed, or its policy was not found."""
    windows: Windows
    config: RuntimeConfig | None
    """None: nothing is wanted, or there is a problem."""
    config_hash: str | None
    problem: Problem | None = None
    network_enforced: bool = False
    """Whether the network policy of a Pod is certainly enforced: the installer says so."""
    filtered_env: tuple[str, ...] = field(default=())
    """Names of environment variables that were left out."""
