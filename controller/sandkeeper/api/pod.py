"""What is particular to Pods: where they run, what they carry, what they may reach.

None of the fields has a default here; what holds where nobody says anything is in :mod:`sandkeeper.config.pod`.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from sandkeeper.api.affinity import Affinity
from sandkeeper.api.base import Spec
from sandkeeper.api.egress import PodEgress
from sandkeeper.api.metadata import LabelKey, LabelValue, NodeLabels, PodAnnotations, PodLabels
from sandkeeper.api.rules import Rule
from sandkeeper.api.types import Memory, MountPath, ObjectName, Seconds, SubPath

__all__ = ["ImagePullPolicy", "MountedClaim", "MountedConfigMap", "PodMount", "PodTemplate", "Toleration"]


class ImagePullPolicy(StrEnum):
    """When a node asks the registry for the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


PriorityClassName = Annotated[
    ObjectName,
    Rule(
        cel="!self.startsWith('system-')",
        holds=lambda name: not name.startswith("system-"),
        message="priorityClassName must not begin with system-, which is for what keeps a cluster alive: "
        "name another class",
        reason="FieldValueForbidden",
    ),
]
ExtendedResource = Annotated[
    str,
    StringConstraints(
        min_length=3,
        max_length=253,
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
        r"/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
    ),
    Rule(
        cel="!self.matches('^([^/]*[.])?kubernetes[.]io/')",
        holds=lambda name: not f".{name.partition('/')[0]}".endswith(".kubernetes.io"),
        message="gpuResource must be what a device plugin offers, such as nvidia.com/gpu, and none of Kubernetes' own: "
        "name the plugin's resource",
    ),
]


class Toleration(Spec):
    """A taint of nodes that does not keep the Pod away. As in Kubernetes."""

    rules: ClassVar = (
        Rule(
            cel="(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            holds=lambda toleration: bool(toleration.key) or toleration.operator == "Exists",
            message="operator must be Exists where key is absent, which tolerates every taint: "
            "name a key or set operator: Exists",
            field="operator",
        ),
        Rule(
            cel="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            holds=lambda toleration: toleration.operator != "Exists" or not toleration.value,
            message="value must be absent with operator Exists, which takes any: leave value out or set "
            "operator: Equal",
            field="value",
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            holds=lambda toleration: (
                toleration.toleration_seconds is None or toleration.effect == "NoExecute"
            ),
            message="tolerationSeconds is for the effect NoExecute: set effect: NoExecute or leave it out",
            field="tolerationSeconds",
        ),
    )

    key: LabelKey | None = None
    """The taint's key. Absent, with operator Exists: every taint."""
    operator: Literal["Exists", "Equal"] | None = None
    """How the taint's value is compared. Absent: Equal."""
    value: LabelValue | None = None
    """The taint's value, with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect. Absent: every effect."""
    toleration_seconds: Seconds | None = None
    """How long a taint NoExecute is borne. Absent: for ever."""


class MountedClaim(Spec):
    """A PersistentVolumeClaim of the Sandbox's namespace, or a directory in one."""

    name: ObjectName
    """Its name."""
    sub_path: SubPath | None = None
    """The directory in it, for example `shared`. Absent: all of it."""


class MountedConfigMap(Spec):
    """A ConfigMap of the Sandbox's namespace. Nobody writes to it."""

    name: ObjectName
    """Its name."""


class PodMount(Spec):
    """What container.binds are on a Docker host: a directory that sandboxes share, from a volume."""

    rules: ClassVar = (
        Rule(
            cel="has(self.claim) != has(self.configMap)",
            holds=lambda mount: (mount.claim is None) != (mount.config_map is None),
            message="a mount must be exactly one of claim and configMap: name one and leave the other out",
        ),
        Rule(
            cel="!has(self.configMap) || !has(self.readOnly) || self.readOnly",
            holds=lambda mount: mount.config_map is None or mount.read_only is not False,
            message="readOnly must not be false for a configMap, to which nobody writes: leave it out",
            field="readOnly",
        ),
    )

    path: MountPath
    """Where it is mounted in the sandbox; not at the working directory itself, nor at /workspace or /agent."""
    claim: MountedClaim | None = None
    """A claim."""
    config_map: MountedConfigMap | None = None
    """A ConfigMap."""
    read_only: bool | None = None
    """Whether it may only be read. Built in: true."""


class PodTemplate(Spec):
    """What is particular to Pods. With another backend it has no effect: one policy may serve agents of both."""

    runtime_class_name: ObjectName | None = None
    """The RuntimeClass, for example one for gVisor or Kata. Absent: the nodes' own runtime."""
    node_selector: NodeLabels | None = None
    """Labels that a node has to have."""
    affinity: Affinity | None = None
    """Which nodes and neighbours are wanted or shunned."""
    tolerations: Annotated[list[Toleration], Field(max_length=16)] | None = None
    """Taints of nodes that do not keep the Pod away."""
    priority_class_name: PriorityClassName | None = None
    """The PriorityClass. Absent: the cluster's default."""
    image_pull_secrets: Annotated[list[ObjectName], Field(max_length=8)] | None = None
    """Secrets of the Sandbox's namespace with which nodes pull the image. They do not reach the Pod."""
    image_pull_policy: ImagePullPolicy | None = None
    """When a node asks the registry for the image. Built in: IfNotPresent."""
    labels: PodLabels | None = None
    """Further labels of the Pod."""
    annotations: PodAnnotations | None = None
    """Further annotations of the Pod."""
    ephemeral_storage: Memory | None = None
    """Most of the node's disk that may be written, for example `2g`; beyond it the Pod is evicted."""
    gpu_resource: ExtendedResource | None = None
    """What a count in container.gpus is a count of. Built in: nvidia.com/gpu."""
    mounts: Annotated[list[PodMount], Field(max_length=16)] | None = None
    """Directories that sandboxes share. Those of all levels together; of several at one path the narrowest's."""
    egress: PodEgress | None = None
    """What the Pod may reach. Replaced as a whole by a narrower level."""
