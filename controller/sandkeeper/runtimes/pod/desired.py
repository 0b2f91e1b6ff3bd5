"""From an order to the Pod that fulfils it: a pure function, and the only place that knows both.

A Pod is admitted by the ``restricted`` Pod Security Standard unless the policy asks for more (root, another seccomp
profile, capabilities, a directory of the node). Stated always, whatever the configuration or the image says: no token
of a service account, no privilege escalation, no restarts by the kubelet, and a command in place of the image's
entrypoint. Of the node's network, process and IPC namespaces nothing is ever shared.

What a Pod cannot have is refused before it comes to this.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from sandkeeper.api.names import Label
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import pod_annotations, pod_labels, runtime_name
from sandkeeper.config.pod import ClaimTemplate, ClaimVolume, EmptyDirVolume, HostPathVolume, WorkspaceVolume
from sandkeeper.config.quantities import memory_bytes
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.config.tmpfs import parse_tmpfs
from sandkeeper.runtimes.pod.claims import claim_name, has_workspace, owner_references
from sandkeeper.runtimes.pod.network import network_hash
from sandkeeper.runtimes.protocol import Order

__all__ = ["COMMAND", "CONTAINER", "TMPFS_SIZE", "owner_references", "pod_body"]

COMMAND: Final = ("sleep", "infinity")
CONTAINER: Final = "sandbox"
"""The name of the one container."""

TMPFS_SIZE: Final = 256 << 20
"""Bytes of a tmpfs that states no size. What is in it counts against the container's memory, so a container without
a memory limit could fill the node's through it."""

_GRACE_SECONDS: Final = 5
"""For what runs in the sandbox to end by itself, once it was told to; the main process needs none of it."""


@dataclass(frozen=True)
class _Volume:
    """A volume and where it is mounted."""

    name: str
    source: dict[str, Any]
    path: str
    sub_path: str | None = None
    is_read_only: bool = False


def pod_body(order: Order, *, installation: str) -> dict[str, Any]:
    """Return the Pod as it is sent to the API server."""
    config = order.config
    network = network_hash(order.key, config.pod.egress, config.dns, installation)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": runtime_name(config.container_prefix, order.key, installation),
            "namespace": order.key.namespace,
            "labels": {
                **config.pod.labels,
                **pod_labels(order.key, installation=installation),
                Label.NETWORK.value: network,
            },
            "annotations": {
                **config.pod.annotations,
                **pod_annotations(
                    order.key, config_hash=order.config_hash, has_setup=config.setup_command is not None
                ),
            },
            **_present({"ownerReferences": owner_references(order.owners)}),
        },
        "spec": _spec(config, _volumes(order.key, config, installation)),
    }


def _spec(config: RuntimeConfig, volumes: list[_Volume]) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "automountServiceAccountToken": False,
        # One variable for every Service of the namespace would tell the sandbox about its neighbours.
        "enableServiceLinks": False,
        # The pause process becomes process 1 and reaps orphaned children, as an init does.
        "shareProcessNamespace": config.init,
        "securityContext": _pod_security(config),
        "containers": [_container(config, volumes)],
        **_present(
            {
                "volumes": [{"name": volume.name, **volume.source} for volume in volumes],
                "hostAliases": _host_aliases(config.extra_hosts),
            }
        ),
        **_dns(config.dns),
        **_placement(config),
    }


def _pod_security(config: RuntimeConfig) -> dict[str, Any]:
    security: dict[str, Any] = {
        "seccompProfile": _profile(config.seccomp_profile) or {"type": "RuntimeDefault"}
    }
    if (apparmor := _profile(config.apparmor_profile)) is not None:
        security["appArmorProfile"] = apparmor
    if config.user == "auto":
        # Nothing is bound whose owner it could be; so it is the image's own user, as long as that is not root.
        return security | {"runAsNonRoot": True}
    uid, _, gid = config.user.partition(":")
    group = int(gid or uid)
    return security | {
        "runAsNonRoot": int(uid) != 0,
        "runAsUser": int(uid),
        "runAsGroup": group,
        # Volumes are made by root. This gives them to the group, file by file only where the top is not its already.
        "fsGroup": group,
        "fsGroupChangePolicy": "OnRootMismatch",
    }


def _profile(name: str | None) -> dict[str, str] | None:
    """Write a seccomp or AppArmor profile; the kubelet looks a name up on its node."""
    if name is None:
        return None
    return {"type": "Unconfined"} if name == "unconfined" else {"type": "Localhost", "localhostProfile": name}


def _container(config: RuntimeConfig, volumes: list[_Volume]) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": config.image,
        "imagePullPolicy": config.pod.image_pull_policy,
        "command": list(COMMAND),
        "workingDir": config.workdir,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": config.read_only_root,
            **({"capabilities": {"drop": list(config.cap_drop)}} if config.cap_drop else {}),
        },
        **_present(
            {
                "env": [
                    {"name": name, "value": _literal(value)} for name, value in sorted(config.env.items())
                ],
                # Requests that are not stated follow the limits.
                "resources": _present({"limits": _limits(config)}),
                "volumeMounts": list(map(_mount, volumes)),
            }
        ),
    }


def _literal(value: str) -> str:
    """Write a value so that the container gets it as it is.

    The kubelet replaces $(NAME) by another variable's value, and makes one $ of two (third_party/forked/golang/
    expansion of Kubernetes). With every $ doubled it never sees a reference, and undoes just the doubling.
    """
    return value.replace("$", "$$")


def _limits(config: RuntimeConfig) -> dict[str, str]:
    limits = {}
    if config.memory is not None:
        limits["memory"] = str(config.memory)
    if config.milli_cpus is not None:
        limits["cpu"] = f"{config.milli_cpus}m"
    if config.pod.ephemeral_storage is not None:
        limits["ephemeral-storage"] = str(config.pod.ephemeral_storage)
    if config.gpus is not None:
        # Anything but a count was refused; and would be by the API server.
        limits[config.pod.gpu_resource] = config.gpus
    return limits


def _volumes(key: RuntimeKey, config: RuntimeConfig, installation: str) -> list[_Volume]:
    """Return the volumes in the order in which they are mounted: a parent before what lies in it."""
    volumes = [_tmpfs(f"tmpfs-{number}", text) for number, text in enumerate(config.tmpfs)]
    if has_workspace(config):
        # Below a shared volume each key has a directory of its own, which the kubelet makes.
        directory = runtime_name("", key, installation)
        source, sub_path = _workspace(
            config.workspace, claim=claim_name(key, installation), directory=directory
        )
        volumes.append(_Volume("workspace", source, config.workdir, sub_path))
    return sorted(volumes, key=lambda volume: PurePosixPath(volume.path).parts)


def _workspace(
    workspace: WorkspaceVolume, *, claim: str, directory: str
) -> tuple[dict[str, Any], str | None]:
    match workspace:
        case EmptyDirVolume(size_limit):
            return {"emptyDir": {} if size_limit is None else {"sizeLimit": str(size_limit)}}, None
        case ClaimVolume(name):
            return {"persistentVolumeClaim": {"claimName": name}}, directory
        case ClaimTemplate():
            return {"persistentVolumeClaim": {"claimName": claim}}, None
        case HostPathVolume(path):
            # Where it is missing the Pod has to wait, and not start in a directory that the kubelet made.
            return {"hostPath": {"path": path, "type": "Directory"}}, directory


def _tmpfs(name: str, text: str) -> _Volume:
    """Make a volume in memory of a tmpfs.

    The options that come here mean what is so already, but for ``size`` and ``ro``: a volume is ``rw`` and ``exec``
    where nothing else is said; ``nosuid``, because without privilege escalation a set-user-ID bit has no effect; and
    ``nodev``, because no device may be opened that the container was not given.
    """
    tmpfs = parse_tmpfs(text)
    size, is_read_only = TMPFS_SIZE, False
    for option in tmpfs.options.split(","):
        if option.startswith("size="):
            size = _tmpfs_size(option.removeprefix("size="))
        elif option in {"ro", "rw"}:
            is_read_only = option == "ro"
    source = {"emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}
    return _Volume(name, source, tmpfs.path, is_read_only=is_read_only)


def _tmpfs_size(text: str) -> int:
    """Return bytes, and never none: 0 would be without a bound, as would a number that nobody can count."""
    try:
        return memory_bytes(text) or TMPFS_SIZE
    except ValueError:
        return TMPFS_SIZE


def _mount(volume: _Volume) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": volume.name, "mountPath": volume.path}
    if volume.sub_path is not None:
        mount["subPath"] = volume.sub_path
    if volume.is_read_only:
        mount["readOnly"] = True
    return mount


def _dns(servers: tuple[str, ...]) -> dict[str, Any]:
    if not servers:
        return {"dnsPolicy": "ClusterFirst"}
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": list(servers)}}


def _host_aliases(lines: Iterable[str]) -> list[dict[str, Any]]:
    names: dict[str, list[str]] = {}
    for line in lines:
        name, _, address = line.partition(":")
        # Kubernetes takes small letters only; to those who look a name up they are the same.
        names.setdefault(address, []).append(name.lower())
    return [{"ip": address, "hostnames": hostnames} for address, hostnames in names.items()]


def _placement(config: RuntimeConfig) -> dict[str, Any]:
    pod = config.pod
    return _present(
        {
            "runtimeClassName": pod.runtime_class_name,
            "nodeSelector": dict(pod.node_selector),
            "affinity": dict(pod.affinity or {}),
            "tolerations": [dict(toleration) for toleration in pod.tolerations],
            "priorityClassName": pod.priority_class_name,
            "imagePullSecrets": [{"name": name} for name in pod.image_pull_secrets],
        }
    )


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is empty."""
    return {name: value for name, value in fields.items() if value}
