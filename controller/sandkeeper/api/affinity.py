"""Which nodes a Pod prefers or needs, and which other Pods it is to be near: ``affinity`` as in core/v1.

The names, and what they mean, are those of Kubernetes. The bounds are ours, and small: all of this may be said once
for the policy and once for each agent. matchLabelKeys and mismatchLabelKeys are not there: they tell the revisions of
a Deployment apart.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StringConstraints

from sandkeeper.api.base import Spec
from sandkeeper.api.metadata import LabelKey, LabelValue, MatchLabels
from sandkeeper.api.rules import Rule
from sandkeeper.api.types import ObjectName

__all__ = [
    "Affinity",
    "LabelRequirement",
    "LabelSelector",
    "NodeAffinity",
    "NodeFieldRequirement",
    "NodeRequirement",
    "NodeSelector",
    "NodeTerm",
    "PodAffinity",
    "PodAntiAffinity",
    "PodTerm",
    "PreferredNodes",
    "PreferredPods",
]

_FEW: Final = 8
_MOST_VALUES: Final = 32

Values = Annotated[list[LabelValue], Field(max_length=_MOST_VALUES)]
Weight = Annotated[int, Field(ge=1, le=100)]


def _is_number(values: list[str] | None) -> bool:
    return values is not None and len(values) == 1 and values[0].isascii() and values[0].isdecimal()


def _values_fit(requirement: "NodeRequirement | LabelRequirement") -> bool:
    return bool(requirement.values) == (requirement.operator in {"In", "NotIn", "Gt", "Lt"})


_VALUES_FIT: Final = Rule(
    cel="(has(self.values) && size(self.values) > 0) == (self.operator in ['In', 'NotIn', 'Gt', 'Lt'])",
    holds=_values_fit,
    message="values must go with In, NotIn, Gt and Lt, and with no other operator: change one or the other",
    field="values",
)


class NodeRequirement(Spec):
    """What a label of a node has to be."""

    rules: ClassVar = (
        _VALUES_FIT,
        Rule(
            cel="!(self.operator in ['Gt', 'Lt']) || "
            "(has(self.values) && size(self.values) == 1 && self.values[0].matches('^[0-9]+$'))",
            holds=lambda requirement: (
                requirement.operator not in {"Gt", "Lt"} or _is_number(requirement.values)
            ),
            message="values must be one whole number with the operators Gt and Lt: list that number alone",
            field="values",
        ),
    )

    key: LabelKey
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label's value is compared."""
    values: Values | None = None
    """With In and NotIn any number of them, with Gt and Lt one whole number, else none."""


class NodeFieldRequirement(Spec):
    """What a field of a node has to be. Kubernetes knows one: its name."""

    key: Annotated[str, StringConstraints(max_length=13, pattern=r"^metadata[.]name$")]
    """`metadata.name`."""
    operator: Literal["In", "NotIn"]
    """How the name is compared."""
    values: Annotated[list[ObjectName], Field(min_length=1, max_length=1)]
    """One name."""


class NodeTerm(Spec):
    """What has to hold together. Empty, it selects no node."""

    match_expressions: Annotated[list[NodeRequirement], Field(max_length=_FEW)] | None = None
    """By the nodes' labels."""
    match_fields: Annotated[list[NodeFieldRequirement], Field(max_length=_FEW)] | None = None
    """By the nodes' names."""


class NodeSelector(Spec):
    """The nodes that are fit."""

    node_selector_terms: Annotated[list[NodeTerm], Field(min_length=1, max_length=_FEW)]
    """One of these has to hold."""


class PreferredNodes(Spec):
    """Nodes that are better than others."""

    weight: Weight
    """How much better."""
    preference: NodeTerm
    """Which nodes."""


class NodeAffinity(Spec):
    """On which nodes a Pod runs."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Where it may run at all."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredNodes], Field(max_length=_FEW)] | None
    ) = None
    """Where it had better run."""


class LabelRequirement(Spec):
    """What a label has to be."""

    rules: ClassVar = (_VALUES_FIT,)

    key: LabelKey
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value is compared."""
    values: Values | None = None
    """With In and NotIn, the values."""


class LabelSelector(Spec):
    """What is selected by labels. Empty, it selects everything."""

    match_labels: MatchLabels | None = None
    """Labels, and the value that each has to have."""
    match_expressions: Annotated[list[LabelRequirement], Field(max_length=_FEW)] | None = None
    """Further conditions; all have to hold."""


class PodTerm(Spec):
    """Other Pods, and how near is near."""

    label_selector: LabelSelector | None = None
    """Which Pods. Absent: none."""
    namespaces: Annotated[list[ObjectName], Field(max_length=_FEW)] | None = None
    """In which namespaces. Absent, and without a namespaceSelector: the Sandbox's own."""
    namespace_selector: LabelSelector | None = None
    """In which namespaces, by their labels."""
    topology_key: LabelKey
    """The label that nodes share where they are near each other, for example `kubernetes.io/hostname`."""


class PreferredPods(Spec):
    """Pods that are better neighbours than others."""

    weight: Weight
    """How much better."""
    pod_affinity_term: PodTerm
    """Which Pods."""


class PodAffinity(Spec):
    """Which Pods a Pod runs near."""

    required_during_scheduling_ignored_during_execution: (
        Annotated[list[PodTerm], Field(max_length=_FEW)] | None
    ) = None
    """All of these have to be near."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredPods], Field(max_length=_FEW)] | None
    ) = None
    """These had better be near."""


class PodAntiAffinity(Spec):
    """Which Pods a Pod runs away from."""

    required_during_scheduling_ignored_during_execution: (
        Annotated[list[PodTerm], Field(max_length=_FEW)] | None
    ) = None
    """None of these may be near."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredPods], Field(max_length=_FEW)] | None
    ) = None
    """These had better not be near."""


class Affinity(Spec):
    """Where Pods run, by nodes and by other Pods. As in Kubernetes."""

    node_affinity: NodeAffinity | None = None
    """By nodes."""
    pod_affinity: PodAffinity | None = None
    """Near other Pods."""
    pod_anti_affinity: PodAntiAffinity | None = None
    """Away from other Pods."""
