"""The two CustomResourceDefinitions, generated from the models.

Run as a program (``python -m sandkeeper.api.crd``), it takes ``--write crds`` or ``--check crds``.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic import BaseModel

from sandkeeper.api import generated
from sandkeeper.api.names import GROUP, VERSION
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.policy_status import AgentSandboxPolicyStatus
from sandkeeper.api.sandbox import SandboxSpec, SandboxStatus
from sandkeeper.api.structural import structural_schema

__all__ = ["POLICY", "SANDBOX", "Column", "Resource", "definition", "files"]

_HEADER: Final = """\
# Generated from the models in controller/sandkeeper/api: change those, then run
#   python -m sandkeeper.api.crd --write crds
"""

_WIDTH: Final = 110
"""Longest line, where a word allows it."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"
    description: str
    wide: bool = False
    """Shown by ``-o wide`` only."""

    def as_manifest(self) -> dict[str, Any]:
        """Return it as the API server wants it."""
        manifest = {
            "name": self.name,
            "type": self.type,
            "description": self.description,
            "jsonPath": self.path,
        }
        return manifest | ({"priority": 1} if self.wide else {})


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One of our kinds, as the cluster gets to know it."""

    kind: str
    plural: str
    short_name: str
    description: str
    spec: type[BaseModel]
    status: type[BaseModel] | None = None
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()
    """Fields that ``kubectl get --field-selector`` and watches can select by."""

    @property
    def singular(self) -> str:
        """The name of one, in lower case."""
        return self.kind.lower()

    @property
    def definition_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


def _ready(part: str) -> str:
    return f'.status.conditions[?(@.type=="Ready")].{part}'


def _rollout(name: str, field: str, description: str, *, wide: bool = False) -> Column:
    return Column(
        name=name, type="integer", path=f".status.rollout.{field}", description=description, wide=wide
    )


_AGE: Final = Column(
    name="Age", type="date", path=".metadata.creationTimestamp", description="Since when the object is there."
)

SANDBOX: Final = Resource(
    kind="Sandbox",
    plural="sandboxes",
    short_name="sbx",
    description="The claim of one agent's session on a runtime. Its status is the registry: what runs, and "
    "how it fares.",
    spec=SandboxSpec,
    status=SandboxStatus,
    columns=(
        Column(name="Agent", path=".spec.agentId", description="Whose sandbox it is."),
        Column(name="Scope", path=".status.scope", description="Who shares the runtime, as applied."),
        Column(name="Backend", path=".status.backend", description="What makes the runtime, as applied."),
        Column(name="Phase", path=".status.phase", description="How it fares, in one word."),
        Column(name="Ready", path=_ready("status"), description="Whether it can be used now."),
        Column(
            name="Last used", type="date", path=".status.lastUsedAt", description="Since when nobody used it."
        ),
        _AGE,
        Column(name="Reason", path=_ready("reason"), description="Why it is ready or not.", wide=True),
        Column(name="Session", path=".spec.sessionKey", description="The agent's session.", wide=True),
        Column(name="Policy", path=".status.policy", description="The policy as applied.", wide=True),
        Column(name="Image", path=".status.image", description="What the runtime was made from.", wide=True),
        Column(name="Runtime", path=".status.runtime.name", description="The runtime's name.", wide=True),
        Column(name="Node", path=".status.runtime.node", description="Where it runs.", wide=True),
        Column(
            name="Next",
            path=".status.nextTransition.what",
            description="What happens next by itself.",
            wide=True,
        ),
        # Not a date: kubectl shows those as an age, and this one lies ahead.
        Column(name="Next at", path=".status.nextTransition.at", description="When it happens.", wide=True),
        Column(name="Message", path=".status.message", description="What there is to say.", wide=True),
    ),
    selectable=(".spec.agentId", ".spec.sessionKey"),
)

POLICY: Final = Resource(
    kind="AgentSandboxPolicy",
    plural="agentsandboxpolicies",
    short_name="asp",
    description="What the sandboxes of a namespace look like and may do.",
    spec=AgentSandboxPolicySpec,
    status=AgentSandboxPolicyStatus,
    columns=(
        Column(name="Mode", path=".spec.mode", description="Which sessions are sandboxed."),
        Column(name="Scope", path=".spec.scope", description="Who shares a runtime."),
        Column(name="Backend", path=".spec.backend", description="What makes the runtimes."),
        Column(name="Ready", path=_ready("status"), description="Whether it can be followed."),
        _rollout("Runtimes", "total", "Runtimes under it."),
        _rollout("Current", "current", "Those made as it says now."),
        _rollout("Drifted", "drifted", "Those that wait to be replaced."),
        _rollout("Blocked", "blocked", "Those whose replacement failed."),
        _AGE,
        _rollout("Replacing", "replacing", "Those that are being replaced.", wide=True),
        Column(
            name="Rollout",
            path='.status.conditions[?(@.type=="Progressing")].reason',
            description="Whether a change goes on.",
            wide=True,
        ),
        Column(
            name="Image", path=".spec.container.image", description="What runtimes are made from.", wide=True
        ),
        Column(name="Network", path=".spec.container.network", description="Their network.", wide=True),
    ),
)


def _object_schema(resource: Resource) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "apiVersion": {
            "description": "The version of the schema that this object is written in.",
            "type": "string",
        },
        "kind": {"description": "The kind of object that this is.", "type": "string"},
        "metadata": {"type": "object"},
        "spec": structural_schema(resource.spec, defaults=True),
    }
    if resource.status is not None:
        # The operator writes the status whole: a value filled in by the API server would be nobody's.
        properties["status"] = structural_schema(resource.status, defaults=False)
    return {
        "description": resource.description,
        "type": "object",
        "required": ["spec"],
        "properties": properties,
    }


def definition(resource: Resource) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column.as_manifest() for column in resource.columns],
    }
    if resource.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in resource.selectable]
    if resource.status is not None:
        version["subresources"] = {"status": {}}
    version["schema"] = {"openAPIV3Schema": _object_schema(resource)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.definition_name},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.singular,
                "shortNames": [resource.short_name],
                "categories": ["sandkeeper"],
            },
            "versions": [version],
        },
    }


def files() -> Mapping[str, str]:
    """Return what is generated: file names, and the text of each."""
    return {
        f"{resource.plural}.yaml": _HEADER
        + yaml.safe_dump(definition(resource), sort_keys=False, width=_WIDTH, allow_unicode=True)
        for resource in (SANDBOX, POLICY)
    }


if __name__ == "__main__":
    sys.exit(generated.main(files(), program="sandkeeper.api.crd", arguments=sys.argv[1:]))
