"""Specs to start from: tests say only what matters to them."""

from typing import Any

from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.pod import PodTemplate
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.api.workspace import Workspace
from sandkeeper.config.operator import Ceilings, OperatorConfig
from sandkeeper.config.policies import Policies
from sandkeeper.config.resolution import Resolution, RuntimeConfig
from sandkeeper.config.resolve import resolve

NAMESPACE = "team"
OPERATOR_NAMESPACE = "sandkeeper-system"

Json = dict[str, Any]


def sandbox(**fields: Any) -> SandboxSpec:
    """A Sandbox's spec in the spelling of YAML."""
    return SandboxSpec.model_validate({"agentId": "dev", **fields})


def policy(**fields: Any) -> AgentSandboxPolicySpec:
    """A policy's spec in the spelling of YAML."""
    return AgentSandboxPolicySpec.model_validate(fields)


def container(**fields: Any) -> ContainerTemplate:
    """A policy's container section in the spelling of YAML."""
    return ContainerTemplate.model_validate(fields)


def pod(**fields: Any) -> PodTemplate:
    """A policy's pod section in the spelling of YAML."""
    return PodTemplate.model_validate(fields)


def workspace(**fields: Any) -> Workspace:
    """A policy's workspace section in the spelling of YAML."""
    return Workspace.model_validate(fields)


def ceilings(**fields: Any) -> Ceilings:
    """Ceilings in the spelling of YAML."""
    return Ceilings.model_validate(fields)


def operator(**fields: Any) -> OperatorConfig:
    """An operator's configuration in the spelling of YAML."""
    return OperatorConfig.model_validate({"namespace": OPERATOR_NAMESPACE, **fields})


def pods(**fields: Any) -> OperatorConfig:
    """The configuration of an operator that makes Pods unless told otherwise, in the spelling of YAML."""
    return operator(defaultBackend="pod", backends=["pod", "docker"], **fields)


def resolved(
    spec: SandboxSpec | None = None,
    *,
    under: AgentSandboxPolicySpec | None = None,
    policies: Policies | None = None,
    recorded: str | None = None,
    operated: OperatorConfig | None = None,
) -> Resolution:
    """Resolve a Sandbox under its namespace's default policy."""
    found = dict(policies or {})
    if under is not None:
        found[NAMESPACE, "default"] = under
    return resolve(
        namespace=NAMESPACE,
        namespace_uid="0f6c",
        spec=spec or sandbox(),
        policies=found,
        recorded_policy=recorded,
        operator=operated or operator(),
    )


def made_from(resolution: Resolution) -> RuntimeConfig:
    """The configuration of a resolution that has no problem."""
    assert resolution.problem is None, resolution.problem
    assert resolution.config is not None
    return resolution.config
