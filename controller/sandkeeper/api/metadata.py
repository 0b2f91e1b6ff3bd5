"""Labels, annotations and what selects by them, in the form that Kubernetes has for them.

A structural schema says nothing about the keys of a map, so rules check them; the types of the keys check them in
the models.
"""

import re
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from sandkeeper.api.rules import Rule

__all__ = ["LabelKey", "LabelValue", "MatchLabels", "NodeLabels", "PodAnnotations", "PodLabels"]

_DOMAIN: Final = "[a-z0-9]+(([.]|-+)[a-z0-9]+)*"
_KEY: Final = f"^({_DOMAIN}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?$"
_LONGEST_KEY: Final = 253
"""Kubernetes allows this to the domain alone, and 64 characters more to the whole. Nobody needs them."""
_KEY_FORM: Final = f"be label keys: domain/name or name, at most {_LONGEST_KEY} characters"

_OF_OTHERS: Final = "kubernetes[.]io|k8s[.]io|sandkeeper[.]dev"
"""What means something to Kubernetes, security before all, and what proves a runtime ours."""
_OF_NETWORKS: Final = (
    "cni[.]cncf[.]io|multus-cni[.]io|ovn[.]org|projectcalico[.]org|cilium[.]io|istio[.]io|linkerd[.]io"
)
"""What attaches a Pod to further networks, or leads its traffic elsewhere."""
_OF_RUNTIMES: Final = "cri-?o[.]io"
_RUNTIME_NAMES: Final = "dev[.]gvisor|io[.]katacontainers|io[.]kubernetes|run[.]oci"
"""Annotations without a domain that low-level runtimes read: they loosen what the runtime class promises."""

_FORBIDDEN_LABELS: Final = f"(^|[.])({_OF_OTHERS})(/|$)"
_FORBIDDEN_ANNOTATIONS: Final = (
    f"(^|[.])({_OF_OTHERS}|{_OF_NETWORKS}|{_OF_RUNTIMES})(/|$)|^({_RUNTIME_NAMES})[.]"
)

LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_KEY, pattern=_KEY)]
LabelValue = Annotated[
    str, StringConstraints(max_length=63, pattern="^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$")
]
AnnotationValue = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]


def _well_formed(field: str) -> Rule:
    # The type of the keys checks this in the models.
    return Rule(
        cel=f"self.all(key, size(key) <= {_LONGEST_KEY} && key.matches('{_KEY}'))",
        message=f"keys in {field} must {_KEY_FORM}",
    )


def _without(field: str, forbidden: str, *, told: str) -> Rule:
    pattern = re.compile(forbidden)
    return Rule(
        cel=f"!self.exists(key, key.matches('{forbidden}'))",
        holds=lambda entries: not any(pattern.search(key) for key in entries),
        message=f"{field} must not have keys of {told}: use a domain of your own",
        reason="FieldValueForbidden",
    )


NodeLabels = Annotated[
    dict[LabelKey, LabelValue],
    Field(max_length=16),
    _well_formed("nodeSelector"),
]
MatchLabels = Annotated[
    dict[LabelKey, LabelValue],
    Field(max_length=8),
    _well_formed("matchLabels"),
]
PodLabels = Annotated[
    dict[LabelKey, LabelValue],
    Field(max_length=16),
    _well_formed("labels"),
    _without(
        "labels",
        _FORBIDDEN_LABELS,
        told="kubernetes.io, k8s.io or sandkeeper.dev, by which Kubernetes and this operator know a Pod",
    ),
]
PodAnnotations = Annotated[
    dict[LabelKey, AnnotationValue],
    Field(max_length=16),
    _well_formed("annotations"),
    _without(
        "annotations",
        _FORBIDDEN_ANNOTATIONS,
        told="kubernetes.io, k8s.io or sandkeeper.dev, nor of network plugins, service meshes and runtimes "
        "(cni.cncf.io, projectcalico.org, cilium.io, istio.io, linkerd.io and the like), which open a Pod",
    ),
]
