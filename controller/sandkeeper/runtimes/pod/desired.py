"""From an order to the Pod that fulfils it: a pure function, and the only place that knows both.

A Pod is admitted by the ``restricted`` Pod Security Standard unless the policy asks for more (root, another seccomp
profile, capabilities, a directory of the node). Stated always, whatever the configuration or the image says: no token
of a service account, no privilege escalation, no restarts by the kubelet, and a command in place of the image's
entrypoint. Of the node's network, process and IPC namespaces nothing is ever shared.

What a Pod cannot have is refused before it comes to this.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sandkeeper.api.names import Label
from sandkeeper.config.naming import pod_annotations, pod_labels, runtime_name
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.pod.claims import owner_references
from sandkeeper.runtimes.pod.mounting import Mounting, mount_all
from sandkeeper.runtimes.pod.network import network_hash
from sandkeeper.runtimes.pod.preparing import PREPARE, prepare_command
from sandkeeper.runtimes.protocol import Order

__all__ = ["COMMAND", "CONTAINER", "owner_references", "pod_body"]

COMMAND: Final = ("sleep", "infinity")
CONTAINER: Final = "sandbox"
"""The name of the one container that stays."""

_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
"""Where there are several, even if only one runs, ``kubectl exec`` says with each command which it has chosen."""

_GRACE_SECONDS: Final = 5
"""For what runs in the sandbox to end by itself, once it was told to; the main process needs none of it."""


def pod_body(order: Order, *, installation: str, ceilings: Ceilings) -> dict[str, Any]:
    """Return the Pod as it is sent to the API server.

    Permanent with BIND_REFUSED: a directory of the node that the ceilings forbid.
    """
    config = order.config
    mounting = mount_all(order, installation=installation, ceilings=ceilings)
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
                **({_DEFAULT_CONTAINER: CONTAINER} if mounting.prepare else {}),
                **config.pod.annotations,
                **pod_annotations(
                    order.key,
                    config_hash=order.config_hash,
                    has_setup=config.setup_command is not None,
                    wiped_for=order.wiped_for,
                ),
            },
            **_present({"ownerReferences": owner_references(order.owners)}),
        },
        "spec": _spec(order, mounting),
    }


def _spec(order: Order, mounting: Mounting) -> dict[str, Any]:
    config = order.config
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "automountServiceAccountToken": False,
        # One variable for every Service of the namespace would tell the sandbox about its neighbours.
        "enableServiceLinks": False,
        # The pause process becomes process 1 and reaps orphaned children, as an init does.
        "shareProcessNamespace": config.init,
        "securityContext": _pod_security(config),
        "containers": [_container(config, mounting.sandbox)],
        **_present(
            {
                "initContainers": [_prepare_container(order, mounting.prepare)] if mounting.prepare else [],
                "volumes": mounting.volumes,
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


def _container(config: RuntimeConfig, mounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": config.image,
        "imagePullPolicy": config.pod.image_pull_policy,
        "command": list(COMMAND),
        "workingDir": config.workdir,
        "securityContext": _container_security(config, read_only_root=config.read_only_root),
        **_present(
            {
                "env": [
                    {"name": name, "value": _literal(value)} for name, value in sorted(config.env.items())
                ],
                # Requests that are not stated follow the limits.
                "resources": _present({"limits": _limits(config) | _gpus(config)}),
                "volumeMounts": list(mounts),
            }
        ),
    }


def _prepare_container(order: Order, mounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make what runs before the sandbox, and may do nothing that the sandbox may not. It is given no environment."""
    config = order.config
    return {
        "name": PREPARE,
        "image": config.image,
        "imagePullPolicy": config.pod.image_pull_policy,
        "command": list(map(_literal, prepare_command(order))),
        "workingDir": "/",
        "securityContext": _container_security(config, read_only_root=True),
        # Where its program cannot even begin, the interpreter says why.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(mounts),
        **_present({"resources": _present({"limits": _limits(config)})}),
    }


def _container_security(config: RuntimeConfig, *, read_only_root: bool) -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": read_only_root,
        **({"capabilities": {"drop": list(config.cap_drop)}} if config.cap_drop else {}),
    }


def _literal(value: str) -> str:
    """Write a value, or a word of a command, so that the container gets it as it is.

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
    return limits


def _gpus(config: RuntimeConfig) -> dict[str, str]:
    # Anything but a count was refused; and would be by the API server.
    return {} if config.gpus is None else {config.pod.gpu_resource: config.gpus}


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
