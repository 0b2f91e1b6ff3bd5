"""The operator's ceilings, applied: what reaches the host is allowed by the installer, or not at all.

Every check takes merged sections, whoever set the value, and says in one sentence which field is too high, and
what would allow it.
"""

import ipaddress
from collections.abc import Iterator
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.egress import is_cidr
from sandkeeper.api.pod import PodTemplate
from sandkeeper.api.workspace import Volume
from sandkeeper.config import binds
from sandkeeper.config.capabilities import ALL, DEFAULT, bare
from sandkeeper.config.operator import BreakGlass, Ceilings
from sandkeeper.config.pod import DEFAULT_POD
from sandkeeper.config.resolution import Problem

__all__ = ["check", "check_pod", "is_user_allowed"]

_ENGINE_APPARMOR: Final = "docker-default"
_UNCONFINED: Final = "unconfined"
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_SAID: Final = {
    BreakGlass.CONTAINER_NAMESPACE_JOIN: "dangerouslyAllowContainerNamespaceJoin",
    BreakGlass.UNCONFINED_SECCOMP: "dangerouslyAllowUnconfinedSeccomp",
    BreakGlass.UNCONFINED_APPARMOR: "dangerouslyAllowUnconfinedApparmor",
}
"""The policy's own half of each break-glass."""


def check(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    """Find everything in the merged container section that is above the ceilings."""
    yield from binds.check(container.binds or (), ceilings)
    yield from _check_network(container, ceilings)
    yield from _check_user(container, ceilings)
    yield from _check_capabilities(container, ceilings)
    yield from _check_seccomp(container, ceilings)
    yield from _check_apparmor(container, ceilings)
    if container.gpus is not None and not ceilings.gpus:
        yield _exceeded("gpus", container.gpus, "ask the installer to set ceilings.gpus")


def check_pod(
    container: ContainerTemplate, pod: PodTemplate, volume: Volume | None, ceilings: Ceilings
) -> Iterator[Problem]:
    """Find everything particular to Pods that is above the ceilings. :func:`check` is for Pods as well."""
    yield from _check_host_path(volume, ceilings)
    yield from _check_egress(container, pod, ceilings)
    resource = pod.gpu_resource or DEFAULT_POD.gpu_resource
    if container.gpus is not None and resource not in {DEFAULT_POD.gpu_resource, *ceilings.gpu_resources}:
        yield _above(
            f"pod.gpuResource: {resource!r}",
            f"ask the installer to add {resource!r} to ceilings.gpuResources",
        )


def _check_host_path(volume: Volume | None, ceilings: Ceilings) -> Iterator[Problem]:
    if volume is None or volume.host_path is None:
        return
    path = volume.host_path.path
    if (why := binds.check_directory(path, ceilings)) is not None:
        yield Problem(
            reason=Reason.BIND_REFUSED, message=f"workspace.volume.hostPath: {path!r} is refused: {why}"
        )


def _check_egress(container: ContainerTemplate, pod: PodTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    if pod.egress is None:
        return
    for item, said in (("dns", pod.egress.dns), ("internet", pod.egress.internet)):
        if said and item not in ceilings.egress:
            yield _above(f"pod.egress.{item}", f"ask the installer to add {item!r} to ceilings.egress")
    for target in pod.egress.to or ():
        if not _lies_within(target.cidr, ceilings):
            yield _above(
                f"pod.egress.to: {target.cidr!r}",
                f"name a network within one that is listed, or ask the installer to add {target.cidr!r} to "
                "ceilings.egress",
            )
    # egress.dns opens the way to the servers that are named. The ceiling `dns` means the cluster's own.
    for server in (container.dns or ()) if pod.egress.dns else ():
        if not _lies_within(server, ceilings):
            yield _above(
                f"container.dns: {server!r}, to which pod.egress.dns opens the way,",
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
    if network == "none":
        return
    # The engine's own names are lower-case. Another spelling is refused with them: nobody calls a network
    # of their own "Host" for a good reason.
    if kind.casefold() == "host":
        yield _exceeded("network", network, "the host's network is never given; name a network of the engine")
    elif kind.casefold() == "container":
        yield from _check_break_glass(
            BreakGlass.CONTAINER_NAMESPACE_JOIN,
            field="network",
            value=network,
            said=container.dangerously_allow_container_namespace_join,
            ceilings=ceilings,
        )
    elif colon or network not in ceilings.networks:
        yield _exceeded("network", network, f"ask the installer to add {network!r} to ceilings.networks")


def _check_user(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    user = container.user or ""
    # What `auto` comes to is the owner of a directory: the backend looks, and applies the same rule.
    if user != "auto" and not is_user_allowed(user, ceilings):
        yield _exceeded(
            "user", user, 'name another user and group id, or ask the installer to add "0" to ceilings.users'
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
    dropped = {bare(capability) for capability in container.cap_drop or ()}
    allowed = {bare(capability) for capability in ceilings.capabilities}
    if ALL in dropped or ALL in allowed:
        return
    kept = [name for name in DEFAULT if name not in dropped and name not in allowed]
    if kept:
        names = ", ".join(kept)
        yield Problem(
            reason=Reason.CEILING_EXCEEDED,
            message=f"container.capDrop keeps {names}: drop ALL, or ask the installer to add what is needed "
            "to ceilings.capabilities",
        )


def _check_seccomp(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    profile = container.seccomp_profile
    if profile is not None and profile.casefold() == _UNCONFINED:
        yield from _check_break_glass(
            BreakGlass.UNCONFINED_SECCOMP,
            field="seccompProfile",
            value=profile,
            said=container.dangerously_allow_unconfined_seccomp,
            ceilings=ceilings,
        )


def _check_apparmor(container: ContainerTemplate, ceilings: Ceilings) -> Iterator[Problem]:
    profile = container.apparmor_profile
    if profile is None or profile == _ENGINE_APPARMOR:
        return
    if profile.casefold() == _UNCONFINED:
        yield from _check_break_glass(
            BreakGlass.UNCONFINED_APPARMOR,
            field="apparmorProfile",
            value=profile,
            said=container.dangerously_allow_unconfined_apparmor,
            ceilings=ceilings,
        )
    elif profile not in ceilings.apparmor_profiles:
        yield _exceeded(
            "apparmorProfile",
            profile,
            f"ask the installer to add {profile!r} to ceilings.apparmorProfiles",
        )


def _check_break_glass(
    glass: BreakGlass, *, field: str, value: str, said: bool | None, ceilings: Ceilings
) -> Iterator[Problem]:
    """Check that both keys are turned: the policy's own field and the installer's."""
    if not said:
        yield _exceeded(field, value, f"the policy has to set container.{_SAID[glass]}")
    if glass not in ceilings.break_glass:
        yield _exceeded(field, value, f"ask the installer to add {glass.value!r} to ceilings.breakGlass")


def _exceeded(field: str, value: str, fix: str) -> Problem:
    return _above(f"container.{field}: {value!r}", fix)


def _above(what: str, fix: str) -> Problem:
    return Problem(reason=Reason.CEILING_EXCEEDED, message=f"{what} is above the operator's ceilings: {fix}")
