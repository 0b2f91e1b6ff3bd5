"""What a sandbox container looks like: the properties, for each of the two kinds of author.

None of the fields has a default here. Defaults exist once, as the built-in level
(:mod:`sandkeeper.config.builtin`); a field that is absent means that the level has nothing to say.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from sandkeeper.api.base import Spec
from sandkeeper.api.rules import Rule
from sandkeeper.api.types import (
    ULIMIT_NAMES,
    AppArmorProfile,
    Bind,
    Capability,
    ContainerPrefix,
    Cpus,
    DnsServer,
    Environment,
    EnvName,
    ExtraHost,
    Gpus,
    Image,
    Memory,
    MemorySwap,
    Network,
    SeccompProfile,
    SetupCommand,
    Tmpfs,
    UlimitName,
    User,
    Workdir,
)

__all__ = ["BrowserTemplate", "ContainerTemplate", "SandboxContainer", "Ulimit", "Ulimits"]

_UNLIMITED: Final = -1


class Ulimit(Spec):
    """One resource limit of processes, as after ``docker run --ulimit``."""

    rules: ClassVar = (
        Rule(
            cel="self.hard == -1 || (self.soft != -1 && self.soft <= self.hard)",
            holds=lambda limit: limit.hard == _UNLIMITED or _UNLIMITED < limit.soft <= limit.hard,
            message="soft must not be above hard (-1 is without a limit): lower soft or raise hard",
            field="soft",
        ),
    )

    soft: Annotated[int, Field(ge=-1, le=2**53 - 1)]
    """The limit in force; -1 is without a limit."""
    hard: Annotated[int, Field(ge=-1, le=2**53 - 1)]
    """How far a process may raise its own; -1 is without a limit."""


Ulimits = Annotated[
    dict[UlimitName, Ulimit],
    Field(max_length=32),
    # A structural schema says nothing about the keys of a map. UlimitName checks them in the models.
    Rule(
        cel=f"self.all(name, name in '{ULIMIT_NAMES}'.split(' '))",
        message=f"ulimits knows the names {ULIMIT_NAMES} only",
    ),
]


class SandboxContainer(Spec):
    """What the author of a Sandbox may choose, with scope `session` only."""

    image: Image | None = None
    """Image to run. It has to support `sleep infinity`."""
    workdir: Workdir | None = None
    """Working directory of every command."""
    tmpfs: Annotated[list[Tmpfs], Field(max_length=16)] | None = None
    """Temporary file systems: `path[:options]`."""
    env: Environment | None = None
    """Environment variables. Names that look like secrets are left out unless the policy lists them."""
    setup_command: SetupCommand | None = None
    """Run once in a new runtime, by `/bin/sh -lc`, before it is ready."""
    pids_limit: Annotated[int, Field(ge=1, le=4_194_304)] | None = None
    """Most processes and threads at once."""
    memory: Memory | None = None
    """Memory limit, for example `512m` (512 MiB) or `2g`."""
    cpus: Cpus | None = None
    """CPU limit in cores, for example `1.5`."""
    gpus: Gpus | None = None
    """GPUs: `all`, a count, or `device=ID[,ID...]`."""


class ContainerTemplate(SandboxContainer):
    """What the author of a policy may choose: every property, below the operator's ceilings."""

    rules: ClassVar = (
        Rule(
            cel="!has(self.network) || !self.network.startsWith('container:') || "
            "(has(self.dangerouslyAllowContainerNamespaceJoin) && "
            "self.dangerouslyAllowContainerNamespaceJoin)",
            holds=lambda container: (
                not (container.network or "").startswith("container:")
                or container.dangerously_allow_container_namespace_join
            ),
            message="network must not be container:..., which would join another container's network, unless "
            "dangerouslyAllowContainerNamespaceJoin: true is set beside it",
            field="network",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="!has(self.seccompProfile) || self.seccompProfile.lowerAscii() != 'unconfined' || "
            "(has(self.dangerouslyAllowUnconfinedSeccomp) && self.dangerouslyAllowUnconfinedSeccomp)",
            holds=lambda container: (
                (container.seccomp_profile or "").lower() != "unconfined"
                or container.dangerously_allow_unconfined_seccomp
            ),
            message="seccompProfile must not be unconfined unless dangerouslyAllowUnconfinedSeccomp: true is "
            "set beside it; leave it out for the engine's default profile",
            field="seccompProfile",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="!has(self.apparmorProfile) || self.apparmorProfile.lowerAscii() != 'unconfined' || "
            "(has(self.dangerouslyAllowUnconfinedApparmor) && self.dangerouslyAllowUnconfinedApparmor)",
            holds=lambda container: (
                (container.apparmor_profile or "").lower() != "unconfined"
                or container.dangerously_allow_unconfined_apparmor
            ),
            message="apparmorProfile must not be unconfined unless dangerouslyAllowUnconfinedApparmor: true "
            "is set beside it; leave it out for the engine's default profile",
            field="apparmorProfile",
            reason="FieldValueForbidden",
        ),
    )

    container_prefix: ContainerPrefix | None = None
    """Begins the runtime's name."""
    read_only_root: bool | None = None
    """Mount the image read-only; tmpfs and binds stay writable."""
    network: Network | None = None
    """`none`, or a network that the operator's ceilings allow."""
    user: User | None = None
    """`uid[:gid]` in numbers, where a group that is not named has the user's number; or `auto`: whoever owns the
    agent's workspace on the host, or else its sandbox root."""
    cap_drop: Annotated[list[Capability], Field(max_length=64)] | None = None
    """Linux capabilities to drop; what is not dropped, the operator's ceilings must allow."""
    memory_swap: MemorySwap | None = None
    """Memory and swap together; `-1` is without a limit."""
    ulimits: Ulimits | None = None
    """Resource limits by name, for example `nofile`."""
    seccomp_profile: SeccompProfile | None = None
    """Name of a profile in the operator's directory of profiles. Absent: the engine's default profile."""
    apparmor_profile: AppArmorProfile | None = None
    """Name of a profile loaded on the host. Absent: the engine's default profile."""
    dns: Annotated[list[DnsServer], Field(max_length=8)] | None = None
    """DNS servers."""
    extra_hosts: Annotated[list[ExtraHost], Field(max_length=64)] | None = None
    """Further lines of /etc/hosts: `name:address`, or `name:host-gateway`."""
    binds: Annotated[list[Bind], Field(max_length=64)] | None = None
    """Host directories: `/host:/container[:ro|rw]`, read-only unless `rw` is said, each below a bind root of the
    operator's ceilings."""
    init: bool | None = None
    """Run a small init as process 1, which reaps orphaned children."""
    setup_timeout_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """How long setupCommand may take."""
    allow_secret_env: Annotated[list[EnvName], Field(max_length=128)] | None = None
    """Environment variables that are passed on although their names look like secrets."""
    image_fallback: bool | None = None
    """Run plain `debian:bookworm-slim`, without its tools, where the image is missing."""
    dangerously_allow_container_namespace_join: bool | None = None
    """Break-glass for `network: container:...`. The operator's ceilings must allow it too."""
    dangerously_allow_unconfined_seccomp: bool | None = None
    """Break-glass for `seccompProfile: unconfined`. The operator's ceilings must allow it too."""
    dangerously_allow_unconfined_apparmor: bool | None = None
    """Break-glass for `apparmorProfile: unconfined`. The operator's ceilings must allow it too."""


class BrowserTemplate(Spec):
    """What a browser's container has in place of what the sandbox's has. Checked as that is, and not used as yet."""

    binds: Annotated[list[Bind], Field(max_length=64)] | None = None
    """Host directories of the browser's container alone. Where it is set, even empty, it replaces container.binds."""
