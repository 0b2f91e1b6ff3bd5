"""The last step of merging: the sections of all levels together become a :class:`RuntimeConfig`."""

from collections.abc import Mapping

from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.pod import PodTemplate
from sandkeeper.api.policy import Backend
from sandkeeper.api.workspace import Access, Workspace
from sandkeeper.config.binds import normalise_binds, normalise_path
from sandkeeper.config.capabilities import bare
from sandkeeper.config.levels import present
from sandkeeper.config.pod import DEFAULT_POD, DEFAULT_WORKSPACE
from sandkeeper.config.pod_shape import shape_agent, shape_pod, shape_volume
from sandkeeper.config.quantities import memory_bytes, milli_cpus, swap_bytes
from sandkeeper.config.resolution import RuntimeConfig, UlimitValue
from sandkeeper.config.tmpfs import normalise_tmpfs

__all__ = ["shape"]


def shape(
    container: ContainerTemplate,
    *,
    backend: Backend,
    env: Mapping[str, str],
    pod: PodTemplate | None = None,
    workspace: Workspace | None = None,
) -> RuntimeConfig:
    """Bring merged and checked sections into whole units and one spelling.

    ``env`` is cleaned, and the templates of ``workspace`` are filled in. What is for Pods counts for Pods only: no
    Docker container is replaced for it.
    """
    is_pod = backend is Backend.POD
    workspace = workspace or Workspace()
    access = workspace.access or Access.NONE
    # With rw there is no copy, so it does not matter where one would be kept.
    volume = None if access is Access.RW else workspace.volume
    return RuntimeConfig(
        backend=backend,
        image=present(container.image),
        container_prefix=present(container.container_prefix),
        workdir=normalise_path(present(container.workdir)),
        read_only_root=present(container.read_only_root),
        tmpfs=normalise_tmpfs(present(container.tmpfs)),
        network=present(container.network),
        user=_one_spelling_of_user(present(container.user)),
        cap_drop=tuple(dict.fromkeys(map(bare, present(container.cap_drop)))),
        env=dict(env),
        setup_command=container.setup_command,
        setup_timeout_seconds=present(container.setup_timeout_seconds),
        pids_limit=container.pids_limit,
        memory=None if container.memory is None else memory_bytes(container.memory),
        memory_swap=None if container.memory_swap is None else swap_bytes(container.memory_swap),
        milli_cpus=None if container.cpus is None else milli_cpus(container.cpus),
        gpus=container.gpus,
        ulimits={
            name: UlimitValue(limit.soft, limit.hard) for name, limit in (container.ulimits or {}).items()
        },
        seccomp_profile=_one_spelling_of_profile(container.seccomp_profile),
        apparmor_profile=_one_spelling_of_profile(container.apparmor_profile),
        dns=tuple(container.dns or ()),
        extra_hosts=tuple(container.extra_hosts or ()),
        binds=normalise_binds(container.binds or ()),
        init=present(container.init),
        image_fallback=present(container.image_fallback),
        pod=shape_pod(pod, gpus=container.gpus) if is_pod and pod is not None else DEFAULT_POD,
        access=access,
        agent=None if workspace.agent is None else shape_agent(workspace.agent),
        workspace=DEFAULT_WORKSPACE if volume is None else shape_volume(volume),
    )


def _one_spelling_of_user(user: str) -> str:
    """Name the group as well: where nobody does, an engine takes root's, and nobody asked the ceilings for that."""
    uid, _, gid = user.partition(":")
    return user if user == "auto" else f"{int(uid)}:{int(gid or uid)}"


def _one_spelling_of_profile(profile: str | None) -> str | None:
    """Write `unconfined` as engines do, so that no backend takes another spelling for a profile's name."""
    return "unconfined" if profile is not None and profile.casefold() == "unconfined" else profile
