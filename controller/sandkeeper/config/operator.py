"""The operator's own configuration, and with it the ceilings that stand above every policy.

Whoever may create a policy or a Sandbox must not own the node. So whatever reaches the host (directories,
networks, root, capabilities, unconfined profiles) is allowed by the installer or not at all; by default none
of it is.
"""

from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from sandkeeper.api.base import Spec
from sandkeeper.api.egress import is_cidr
from sandkeeper.api.policy import Backend, BreakGlass
from sandkeeper.api.types import Cpus, ImagePattern, Memory
from sandkeeper.config.quantities import MINIMUM_MEMORY, memory_bytes

__all__ = [
    "Ceilings",
    "DockerSettings",
    "OperatorConfig",
    "PodSettings",
    "RemovalRate",
    "Removals",
    "ShardingSettings",
    "TracingSettings",
]


def _absolute(path: str) -> str:
    if not path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise ValueError(f"{path!r} has to be an absolute path without '..'")
    return path


def _reachable(item: str) -> str:
    if item not in {"dns", "internet"} and not is_cidr(item):
        raise ValueError(f"{item!r} has to be dns, internet or a network such as 192.0.2.0/24")
    return item


def _user_number(user: str) -> str:
    if not (user.isascii() and user.isdecimal()):
        raise ValueError(f"{user!r} has to be the number of a user, such as 0")
    return str(int(user))


def _container_memory(memory: str) -> str:
    if memory_bytes(memory) < MINIMUM_MEMORY:
        raise ValueError(f"{memory} is below 6m, the least that an engine takes")
    return memory


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
ContainerMemory = Annotated[Memory, AfterValidator(_container_memory)]
Reachable = Annotated[str, AfterValidator(_reachable)]
UserNumber = Annotated[str, AfterValidator(_user_number)]


class Ceilings(Spec):
    """What policies may do at the very most.

    Of what reaches the host, the default of each is nothing. Images and amounts are not limited by default.
    """

    bind_roots: tuple[AbsolutePath, ...] = ()
    """Host directories below which binds may lie, and `hostPath` workspaces on the nodes."""
    networks: tuple[str, ...] = ()
    """Docker networks that may be named, besides `none`."""
    users: tuple[UserNumber, ...] = ()
    """User ids below 1 that may be named, as text: `"0"` allows root, and the group of root."""
    capabilities: tuple[str, ...] = ()
    """Capabilities that a policy may leave undropped; `ALL` is every one."""
    apparmor_profiles: tuple[str, ...] = ()
    """AppArmor profiles of the host that may be named, besides `docker-default`: some confine nothing."""
    break_glass: tuple[BreakGlass, ...] = ()
    """Dangerous settings that a policy may turn on."""
    gpus: bool = False
    """Whether GPUs may be given."""
    gpu_resources: tuple[str, ...] = ()
    """What a policy may ask for as GPUs of Pods, besides `nvidia.com/gpu`. Device plugins offer other things in the
    same way, so each is named."""
    egress: tuple[Reachable, ...] = ()
    """What Pods may reach at the very most: `dns` (of the cluster), `internet`, and networks such as `10.1.0.0/16`,
    within which policies may name theirs. DNS servers that a policy names for Pods with `egress.dns` have to lie in
    such a network too."""
    images: tuple[ImagePattern, ...] | None = None
    """Images that may be run: full names, or beginnings that end in `*`; not set: any. The built-in image and what
    `imageFallback` runs are among them. Compared as they are written, so `debian:12` is not
    `docker.io/library/debian:12`. End a beginning with `/` before the `*`, or it is also the beginning of names that
    others may register."""
    memory: ContainerMemory | None = None
    """Largest memory limit, and the limit of whoever states none; not set: any. Swap is not counted."""
    cpus: Cpus | None = None
    """Largest CPU limit in cores, and the limit of whoever states none; not set: any."""
    pids_limit: Annotated[int, Field(ge=1, le=4_194_304)] | None = None
    """Largest pidsLimit of a Docker container, and the limit of whoever states none; not set: any. Pods have no such
    limit: set `podPidsLimit` in the nodes' kubelets."""


class DockerSettings(Spec):
    """How the operator speaks to its Docker engine."""

    max_containers: Annotated[int, Field(ge=1)] = 200
    """Most containers of this installation on the engine at once; beyond it, EngineFull."""
    seccomp_profiles: AbsolutePath | None = None
    """Directory in which `seccompProfile` names are looked up."""
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30
    """How long one call to the engine may take before it counts as hanging."""
    workers: Annotated[int, Field(ge=1, le=64)] = 8
    """Calls to the engine at once."""
    setup_workers: Annotated[int, Field(ge=1, le=64)] = 8
    """setupCommands at once, in a pool of their own."""
    sweep_seconds: Annotated[int, Field(ge=1)] = 300
    """How often everything is listed, to find what the event stream missed and what nobody claims."""


class PodSettings(Spec):
    """How the operator deals with Pods."""

    network_policy_enforced: bool = False
    """The installer states that the cluster enforces NetworkPolicies; it cannot be seen from inside. While it is not
    stated, `NetworkIsolated` is Unknown, and a policy with `limits.requireNetworkIsolation` gets no Pods."""
    setup_workers: Annotated[int, Field(ge=1, le=256)] = 16
    """setupCommands in Pods at once."""


class RemovalRate(Spec):
    """How fast removals of one kind may follow each other. Deletions by users are never held up."""

    per_minute: Annotated[int, Field(ge=1)] = 60
    """In the long run."""
    burst: Annotated[int, Field(ge=1)] = 20
    """At once."""


class TracingSettings(Spec):
    """Whether passes are traced. Where to, the variables of the environment that OpenTelemetry defines say."""

    enabled: bool = False
    """Traces also where no such variable says where to send them; then it is to this host."""


class ShardingSettings(Spec):
    """Whether several operators of one installation work at the same time."""

    enabled: bool = False
    """Each has a share of the namespaces then. Otherwise one works, and the others wait to take its place. Operators of
    both kinds never work at once: who comes later waits."""


class Removals(StrEnum):
    """Whether the operator may remove what nobody asked it to remove."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"


class OperatorConfig(Spec):
    """The operator's configuration file."""

    namespace: str = "sandkeeper-system"
    """Where the operator is installed. Its lease is there, and a policy `default` there serves namespaces that have
    none."""
    release: str = "sandkeeper"
    """Name of the installation; two in one namespace need two. Part of the installation's id."""
    watch_namespaces: tuple[str, ...] = ()
    """The namespaces that this operator serves; none named: all. Where its own is not among them, an edit of the policy
    `default` there is found within a minute."""
    default_backend: Backend = Backend.DOCKER
    """Where policies do not say."""
    backends: tuple[Backend, ...] = (Backend.DOCKER,)
    """Which backends this operator serves."""
    ceilings: Ceilings = Ceilings()
    """What stands above all policies."""
    docker: DockerSettings = DockerSettings()
    """The Docker engine, where it is served."""
    pod: PodSettings = PodSettings()
    """Pods, where they are served."""
    removals: Removals = Removals.ALLOWED
    """`forbidden`: nothing is pruned, replaced, swept or deleted but what users delete, stop or ask to be new."""
    replacements: RemovalRate = RemovalRate()
    """Replacements. Slow, so that a policy that was edited by mistake has not reached everybody before somebody sees
    it."""
    prunes: RemovalRate = RemovalRate(per_minute=1200, burst=100)
    """Prunes. Quick: nobody uses what is pruned, and nothing takes its place."""
    workers: Annotated[int, Field(ge=1, le=256)] = 16
    """Keys worked on at once."""
    sharding: ShardingSettings = ShardingSettings()
    """How several operators of the installation share the work."""
    tracing: TracingSettings = TracingSettings()
    """Traces of passes."""

    @field_validator("ceilings")
    @classmethod
    def _can_hold(cls, ceilings: Ceilings, info: ValidationInfo) -> Ceilings:
        """Refuse a ceiling that would hold for nothing, and be believed to hold all the same."""
        if ceilings.pids_limit is not None and Backend.DOCKER not in info.data.get(
            "backends", {Backend.DOCKER}
        ):
            raise ValueError(
                "pidsLimit is for Docker containers, which this operator does not serve; set podPidsLimit in the "
                "nodes' kubelets"
            )
        return ceilings
