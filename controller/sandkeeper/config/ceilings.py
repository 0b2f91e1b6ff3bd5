"""The operator's ceilings, applied: what reaches the host is allowed by the installer, or not at all.

Every check takes merged sections, whoever set the value, and says in one sentence which field is too high, what the
ceiling is, and what would allow it.
"""

import ipaddress
from collections.abc import Iterator
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.egress import is_cidr
from sandkeeper.api.pod import PodTemplate
from sandkeeper.api.policy import Backend
from sandkeeper.api.workspace import Access, Workspace
from sandkeeper.config import binds
from sandkeeper.config.allowlists import capabilities_kept, is_image_listed, shown
from sandkeeper.config.builtin import FALLBACK_IMAGE
from sandkeeper.config.dangers import find_dangers
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.pod import DEFAULT_POD
from sandkeeper.config.quantities import memory_bytes
from sandkeeper.config.resolution import Problem

__all__ = ["allot", "allotted", "check", "check_pod", "is_user_allowed"]

_AGENT: Final = "workspace.agent.hostPath"
_ROOT: Final = "workspace.volume.hostPath"
_ENGINE_APPARMOR: Final = "docker-default"
_UNCONFINED: Final = "unconfined"
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def allot(container: ContainerTemplate, ceilings: Ceilings, *, backend: Backend) -> ContainerTemplate:
    """Give as much as the ceilings allow where nobody says how much: saying nothing is no way around a ceiling."""
    return container.model_copy(update=dict(allotted(container, ceilings, backend=backend)))


def allotted(
    container: ContainerTemplate, ceilings: Ceilings, *, backend: Backend
) -> Iterator[tuple[str, object]]:
    """Tell which fields the ceilings set, and to what. A Pod has no limit on processes of its own."""
    for field in ("memory", "cpus", "pids_limit") if backend is Backend.DOCKER else ("memory", "cpus"):
        if getattr(container, field) is None and (most := getattr(ceilings, field)) is not None:
            yield field, most


def check(container: ContainerTemplate, workspace: Workspace, ceilings: Ceilings) -> Iterator[Problem]:
    """Find everything in the merged sections that is above the ceilings."""
    yield from _check_directories(container, workspace, ceilings)
    yield from _check_network(container, ceilings)
    yield from _check_user(container, ceilings)
    yield from _check_capabilities(container, ceilings)
    yield from _check_apparmor(container, ceilings)
    yield from _check_dangers(container, ceilings)
    yield from _check_images(container, ceilings)
    yield from _check_resources(container, ceilings)


def check_pod(container: ContainerTemplate, pod: PodTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    """Find everything particular to Pods that is above the ceilings. :func:`check` is for Pods as well."""
    yield from _check_egress(container, pod, ceilings)
    resource = pod.gpu_resource or DEFAULT_POD.gpu_resource
    if container.gpus is not None and resource not in {DEFAULT_POD.gpu_resource, *ceilings.gpu_resources}:
        yield _exceeded(
            f"pod.gpuResource: {resource!r}",
            f"gpuResources: {shown(ceilings.gpu_resources)}",
            f"ask the installer to add {resource!r} to ceilings.gpuResources",
        )


def _check_directories(
    container: ContainerTemplate, workspace: Workspace, ceilings: Ceilings
) -> Iterator[Problem]:
    workdir = binds.normalise_path(container.workdir or "/")
    taken = binds.taken_targets(workdir, has_skills=workspace.agent is not None)
    problems = list(binds.check(container.binds or (), ceilings, taken=taken))
    yield from problems
    for field, path in _host_paths(workspace):
        if (why := binds.check_directory(path, ceilings)) is not None:
            problem = Problem(reason=Reason.BIND_REFUSED, message=f"{field}: {path!r} is refused: {why}")
            problems.append(problem)
            yield problem
    if not problems:
        yield from _check_swappable(container, workspace)


def _host_paths(workspace: Workspace) -> Iterator[tuple[str, str]]:
    agent, volume = workspace.agent, workspace.volume
    if agent is not None and agent.host_path is not None:
        yield _AGENT, binds.normalise_path(agent.host_path.path)
    if volume is not None and volume.host_path is not None:
        yield _ROOT, binds.normalise_path(volume.host_path.path)


def _check_swappable(container: ContainerTemplate, workspace: Workspace) -> Iterator[Problem]:
    """Find what lies in a directory to which this very sandbox writes. What others write to, a backend knows."""
    mounts = [binds.parse(bind) for bind in container.binds or ()]
    paths = dict(_host_paths(workspace))
    sources = [("container.binds", mount.source) for mount in mounts]
    # Of the sandbox root it is a directory in it that is mounted.
    sources += [(field, f"{path}/*" if field == _ROOT else path) for field, path in paths.items()]
    writable = [mount.source for mount in mounts if mount.mode == "rw"]
    if workspace.access is Access.RW and _AGENT in paths:
        writable.append(paths[_AGENT])
    for field, source in sources:
        if (root := binds.swappable_in(source, writable)) is not None:
            yield Problem(reason=Reason.BIND_REFUSED, message=f"{field}: {binds.swappable(source, root)}")


def _check_egress(container: ContainerTemplate, pod: PodTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    if pod.egress is None:
        return
    ceiling = f"egress: {shown(ceilings.egress)}"
    for item, said in (("dns", pod.egress.dns), ("internet", pod.egress.internet)):
        if said and item not in ceilings.egress:
            yield _exceeded(
                f"pod.egress.{item}", ceiling, f"ask the installer to add {item!r} to ceilings.egress"
            )
    for target in pod.egress.to or ():
        if not _lies_within(target.cidr, ceilings):
            yield _exceeded(
                f"pod.egress.to: {target.cidr!r}",
                ceiling,
                f"name a network within one that is listed, or ask the installer to add {target.cidr!r} to "
                "ceilings.egress",
            )
    # egress.dns opens the way to the servers that are named. The ceiling `dns` means the cluster's own.
    for server in (container.dns or ()) if pod.egress.dns else ():
        if not _lies_within(server, ceilings):
            yield _exceeded(
                f"container.dns: {server!r}, to which pod.egress.dns opens the way,",
                ceiling,
                "leave it out for the cluster's own DNS, or ask the installer to add its network to ceilings.egress",
            )


def _lies_within(network: str, ceilings: Ceilings) -> bool:
    """Say whether a network, or an address, lies within one that is listed."""
    inner = ipaddress.ip_network(network)
    return any(_contains(ipaddress.ip_network(outer), inner) for outer in ceilings.egress if is_cidr(outer))


def _contains(outer: _Network, inner: _Network) -> bool:
    if isinstance(outer, ipaddress.IPv4Network) and isinstance(inner, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(outer, ipaddress.IPv6Network) and isinstance(inner, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return False


def _check_network(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    network = container.network or "none"
    kind, colon, _ = network.partition(":")
    # Joining another container's network is a danger of its own.
    if network == "none" or kind.casefold() == "container":
        return
    # The engine's own names are lower-case. Another spelling is refused with them: nobody calls a network
    # of their own "Host" for a good reason.
    if kind.casefold() == "host":
        yield _refused(
            f"container.network: {network!r} is refused: the host's network is never given; "
            "name a network of the engine"
        )
    elif colon or network not in ceilings.networks:
        yield _exceeded(
            f"container.network: {network!r}",
            f"networks: {shown(ceilings.networks)}",
            f"ask the installer to add {network!r} to ceilings.networks",
        )


def _check_user(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    user = container.user or ""
    # What `auto` comes to is the owner of a directory: the backend looks, and applies the same rule.
    if user != "auto" and not is_user_allowed(user, ceilings):
        yield _exceeded(
            f"container.user: {user!r}",
            f"users: {shown(ceilings.users)}",
            'name another user and group id, or ask the installer to add "0" to ceilings.users',
        )


def is_user_allowed(user: str, ceilings: Ceilings) -> bool:
    """Say whether ``uid[:gid]`` may run: root, and root's group, only where the ceilings list it.

    What is not a number never may.
    """
    ids = user.split(":")
    if not all(number.isascii() and number.isdecimal() for number in ids):
        return False
    return all(int(number) > 0 for number in ids) or "0" in ceilings.users


def _check_capabilities(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    kept = capabilities_kept(container.cap_drop or (), ceilings.capabilities)
    if kept:
        names = ", ".join(kept)
        yield _exceeded(
            f"container.capDrop: {names} not dropped",
            f"capabilities: {shown(ceilings.capabilities)}",
            "drop ALL, or ask the installer to add what is needed to ceilings.capabilities",
        )


def _check_apparmor(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    profile = container.apparmor_profile
    if profile is None or profile.casefold() == _UNCONFINED:
        return
    if profile not in {_ENGINE_APPARMOR, *ceilings.apparmor_profiles}:
        yield _exceeded(
            f"container.apparmorProfile: {profile!r}",
            f"apparmorProfiles: {shown(ceilings.apparmor_profiles)}",
            f"ask the installer to add {profile!r} to ceilings.apparmorProfiles",
        )


def _check_dangers(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    """Check that both keys are turned: the policy's own field and the installer's."""
    for danger in find_dangers(container):
        what = f"container.{_alias(danger.field)}: {getattr(container, danger.field)!r}"
        if not getattr(container, danger.key):
            yield _refused(
                f"{what} is refused: the policy has to set container.{_alias(danger.key)}: true, or another value here"
            )
        if danger.glass not in ceilings.break_glass:
            yield _exceeded(
                what,
                f"breakGlass: {shown(ceilings.break_glass)}",
                f"ask the installer to add {danger.glass.value!r} to ceilings.breakGlass",
            )


def _check_resources(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    memory, cpus, pids = container.memory, container.cpus, container.pids_limit
    most_memory, most_cpus, most_pids = ceilings.memory, ceilings.cpus, ceilings.pids_limit
    if memory is not None and most_memory is not None and memory_bytes(memory) > memory_bytes(most_memory):
        yield _too_much("memory", memory, most_memory)
    if cpus is not None and most_cpus is not None and cpus > most_cpus:
        yield _too_much("cpus", cpus, most_cpus)
    if pids is not None and most_pids is not None and pids > most_pids:
        yield _too_much("pidsLimit", pids, most_pids)
    if container.gpus is not None and not ceilings.gpus:
        yield _exceeded(
            f"container.gpus: {container.gpus!r}", "gpus: none", "ask the installer to set ceilings.gpus"
        )


def _check_images(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    if ceilings.images is None:
        return
    for field, image in (
        ("image", container.image),
        ("imageFallback", FALLBACK_IMAGE if container.image_fallback else None),
    ):
        if image is not None and not is_image_listed(image, ceilings.images):
            yield _exceeded(
                f"container.{field}: {image!r}",
                f"images: {shown(ceilings.images)}",
                f"choose one of these, or ask the installer to add {image!r} to ceilings.images",
            )


def _too_much(field: str, value: object, most: object) -> Problem:
    # Where the policy's limits are the value of whoever states none, they are what has to be lowered.
    return _exceeded(
        f"container.{field}: {value}",
        f"{field}: {most}",
        f"lower container.{field}, or limits.{field} where nobody states it, or ask the installer to raise "
        f"ceilings.{field}",
    )


def _alias(field: str) -> str | None:
    return ContainerTemplate.model_fields[field].alias


def _exceeded(what: str, ceiling: str, fix: str) -> Problem:
    return _refused(f"{what} is not within the operator's ceilings.{ceiling}; {fix}")


def _refused(message: str) -> Problem:
    return Problem(reason=Reason.CEILING_EXCEEDED, message=message)
