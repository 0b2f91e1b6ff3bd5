"""What is said about Pods, in whole units and one spelling, so that what means the same hashes the same.

The order of rules, taints and terms means nothing to Kubernetes, so it is ours to choose.
"""

import ipaddress
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sandkeeper.api.affinity import Affinity
from sandkeeper.api.egress import EgressTarget, PodEgress, PortRange
from sandkeeper.api.pod import PodMount, PodTemplate, Toleration
from sandkeeper.api.workspace import AgentWorkspace, Retention, Volume, VolumeTemplate
from sandkeeper.config.binds import normalise_path
from sandkeeper.config.levels import present
from sandkeeper.config.pod import (
    DEFAULT_POD,
    ClaimTemplate,
    ClaimVolume,
    Egress,
    EgressPort,
    EgressRule,
    EmptyDirVolume,
    HostPathVolume,
    PodShape,
    SharedMount,
    WorkspaceVolume,
)
from sandkeeper.config.quantities import memory_bytes
from sandkeeper.config.sources import AgentSource, ClaimSource, ConfigMapSource, HostSource

__all__ = ["shape_agent", "shape_pod", "shape_volume"]


def shape_pod(pod: PodTemplate, *, gpus: str | None) -> PodShape:
    """Resolve a merged and checked ``pod`` section. Without ``gpus`` it does not matter what they are called."""
    return PodShape(
        runtime_class_name=pod.runtime_class_name,
        node_selector=dict(pod.node_selector or {}),
        affinity=_affinity(pod.affinity),
        tolerations=_tolerations(pod.tolerations or ()),
        priority_class_name=pod.priority_class_name,
        image_pull_secrets=tuple(sorted(set(pod.image_pull_secrets or ()))),
        image_pull_policy=str(pod.image_pull_policy or DEFAULT_POD.image_pull_policy),
        labels=dict(pod.labels or {}),
        annotations=dict(pod.annotations or {}),
        ephemeral_storage=_size(pod.ephemeral_storage),
        gpu_resource=DEFAULT_POD.gpu_resource
        if gpus is None
        else pod.gpu_resource or DEFAULT_POD.gpu_resource,
        mounts=_mounts(pod.mounts or ()),
        egress=_egress(pod.egress),
    )


def shape_agent(agent: AgentWorkspace) -> AgentSource:
    """Resolve where an agent's own workspace is; its templates are filled in."""
    if agent.claim is not None:
        return ClaimSource(name=agent.claim.name, sub_path=agent.claim.sub_path or "")
    if agent.config_map is not None:
        return ConfigMapSource(agent.config_map.name)
    return HostSource(normalise_path(present(agent.host_path).path))


def shape_volume(volume: Volume) -> WorkspaceVolume:
    """Resolve where a sandbox's own workspace is kept; its templates are filled in."""
    if volume.claim is not None:
        return ClaimVolume(volume.claim.name)
    if volume.template is not None:
        return _claim_template(volume.template)
    if volume.host_path is not None:
        return HostPathVolume(normalise_path(volume.host_path.path))
    return EmptyDirVolume(None if volume.empty_dir is None else _size(volume.empty_dir.size_limit))


def _claim_template(template: VolumeTemplate) -> ClaimTemplate:
    modes = sorted({str(mode) for mode in template.access_modes or ()})
    return ClaimTemplate(
        size=memory_bytes(template.size),
        storage_class=template.storage_class_name,
        access_modes=tuple(modes) or ClaimTemplate.access_modes,
        retain=template.retention is Retention.RETAIN,
    )


def _mounts(mounts: Iterable[PodMount]) -> tuple[SharedMount, ...]:
    """Return one for each path, the last that is said; their order means nothing."""
    by_path: dict[str, SharedMount] = {}
    for mount in mounts:
        path, source = normalise_path(mount.path), _shared(mount)
        by_path[path] = SharedMount(path=path, source=source, read_only=mount.read_only is not False)
    return tuple(by_path[path] for path in sorted(by_path))


def _shared(mount: PodMount) -> ClaimSource | ConfigMapSource:
    if mount.claim is not None:
        return ClaimSource(name=mount.claim.name, sub_path=mount.claim.sub_path or "")
    return ConfigMapSource(present(mount.config_map).name)


def _size(text: str | None) -> int | None:
    return None if text is None else memory_bytes(text)


def _affinity(affinity: Affinity | None) -> Mapping[str, Any] | None:
    if affinity is None:
        return None
    written = _tidied(affinity.model_dump(mode="json", by_alias=True, exclude_none=True))
    return {kind: said for kind, said in written.items() if said} or None


def _tidied(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Sort what is a set, and leave out what is an empty one.

    An empty object stays: as a selector it takes everything, which is not what an absent one does. Nothing is taken
    for said twice, because weights add up.
    """
    if isinstance(value, list):
        return sorted(map(_tidied, value), key=_json)
    if isinstance(value, dict):
        return {
            name: _tidied(part)
            for name, part in value.items()
            if part != [] and not (name == "matchLabels" and part == {})
        }
    return value


def _tolerations(tolerations: Iterable[Toleration]) -> tuple[Mapping[str, Any], ...]:
    written = {}
    for toleration in tolerations:
        fields = toleration.model_dump(mode="json", by_alias=True, exclude_none=True)
        # What Kubernetes takes for granted. An empty value is one, too: of a taint without any.
        fields = {
            name: said
            for name, said in fields.items()
            if (name, said) != ("operator", "Equal") and said != ""
        }
        written[_json(fields)] = fields
    return tuple(written[text] for text in sorted(written))


def _egress(egress: PodEgress | None) -> Egress:
    if egress is None:
        return Egress()
    return Egress(dns=bool(egress.dns), internet=bool(egress.internet), to=_rules(egress.to or ()))


def _rules(targets: Iterable[EgressTarget]) -> tuple[EgressRule, ...]:
    """Make one rule of all that is said about one network: what they allow adds up."""
    ports: dict[ipaddress.IPv4Network | ipaddress.IPv6Network, set[EgressPort] | None] = {}
    for target in targets:
        network = ipaddress.ip_network(target.cidr)
        known = ports.setdefault(network, set())
        # No ports are all ports, to which none can be added.
        ports[network] = (
            None if known is None or target.ports is None else known | set(map(_port, target.ports))
        )
    networks = sorted(
        ports, key=lambda network: (network.version, network.network_address.packed, network.prefixlen)
    )
    return tuple(
        EgressRule(str(network), tuple(sorted(ports[network] or (), key=_place))) for network in networks
    )


def _port(ports: PortRange) -> EgressPort:
    end = None if ports.end_port == ports.port else ports.end_port
    return EgressPort(str(ports.protocol or "TCP"), ports.port, end)


def _place(port: EgressPort) -> tuple[str, int, int]:
    return port.protocol, port.port, port.end or port.port


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
