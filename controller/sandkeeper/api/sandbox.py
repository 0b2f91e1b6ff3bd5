"""``Sandbox``: the claim of one agent's session on a runtime; its status is the registry."""

import sys
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, StringConstraints, WithJsonSchema

from sandkeeper.api.base import Spec, Status
from sandkeeper.api.conditions import Phase
from sandkeeper.api.container import SandboxContainer
from sandkeeper.api.policy import Backend, Scope
from sandkeeper.api.rules import ListMap, Rule
from sandkeeper.api.types import AgentId, PolicyName, SessionKey

__all__ = [
    "Condition",
    "DesiredState",
    "HoldRecord",
    "NextTransition",
    "PolicyRef",
    "PruneRecord",
    "RuntimeRecord",
    "SandboxSpec",
    "SandboxStatus",
]

_COMMON = AfterValidator(sys.intern)
"""Of what many objects say in the same words: it is kept once."""
Text = Annotated[str, StringConstraints(max_length=1024)]
CommonText = Annotated[Text, _COMMON]
Message = Annotated[str, StringConstraints(max_length=4096), _COMMON]


def _known_phase(value: object) -> object:
    """Read a phase that only a newer operator knows, which must not cost us the rest of the status."""
    return value if value is None or value in Phase.__members__.values() else Phase.UNKNOWN


KnownPhase = Annotated[
    Phase, BeforeValidator(_known_phase), WithJsonSchema({"type": "string", "maxLength": 64})
]


def _immutable(field: str) -> Rule:
    return Rule(
        cel="self == oldSelf",
        message=f"{field} is immutable: delete the Sandbox and create another",
        reason="FieldValueForbidden",
    )


class DesiredState(StrEnum):
    """Whether the runtime is to run."""

    RUNNING = "Running"
    STOPPED = "Stopped"


class PolicyRef(Spec):
    """Names the policy."""

    name: Annotated[PolicyName, _immutable("policyRef.name")] = "default"
    """An AgentSandboxPolicy in the same namespace; `default` may come from the operator's, or be built in."""


class SandboxSpec(Spec):
    """A claim on a runtime."""

    rules: ClassVar = (
        Rule(
            cel="!has(self.backend) || (has(self.scope) && self.scope == 'session')",
            holds=lambda spec: spec.backend is None or spec.scope is Scope.SESSION,
            message="backend is for scope session only, where nobody else shares the runtime: "
            "set scope: session on this Sandbox, or leave backend out",
            field="backend",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="!has(self.container) || (has(self.scope) && self.scope == 'session')",
            holds=lambda spec: spec.container is None or spec.scope is Scope.SESSION,
            message="container is for scope session only, where nobody else shares the runtime: "
            "set scope: session on this Sandbox, or leave container out",
            field="container",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="!has(oldSelf.scope) || (has(self.scope) && self.scope == oldSelf.scope)",
            message="scope is immutable once set: delete the Sandbox and create another",
            field="scope",
            reason="FieldValueForbidden",
        ),
    )

    agent_id: Annotated[AgentId, _immutable("agentId")]
    """Whose sandbox it is. Immutable."""
    session_key: Annotated[SessionKey, _immutable("sessionKey")] = "main"
    """Which session of the agent. Immutable."""
    policy_ref: PolicyRef = PolicyRef()
    """What the sandbox looks like and may do. Immutable."""
    scope: Scope | None = None
    """Who shares the runtime. Absent: what the policy says. Immutable once set."""
    backend: Backend | None = None
    """What makes the runtime. Only with `scope: session` on this object."""
    container: SandboxContainer | None = None
    """What is different for this session. Only with `scope: session` on this object."""
    state: DesiredState = DesiredState.RUNNING
    """Whether the runtime is to run. Stopped keeps it, without running; it is never pruned."""


class Condition(Status):
    """One condition, in the form that all Kubernetes tools know."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=316), _COMMON]
    """What the condition is about. `Ready` sums up the others."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024), _COMMON]
    """Why, in one word for programs."""
    message: Annotated[str, StringConstraints(max_length=32768), _COMMON]
    """Why, in a sentence for people."""
    last_transition_time: AwareDatetime
    """When the status changed last."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object that this was said about."""


class RuntimeRecord(Status):
    """The runtime as it was last seen."""

    backend: CommonText
    """What made it."""
    name: Text
    """The container's or the Pod's name."""
    id: Text
    """The container's id, or the Pod's UID."""
    node: CommonText = ""
    """Where it runs: the Node's name, or the id of the Docker engine."""
    created_at: AwareDatetime
    """When it was made; its age counts from here."""
    user: CommonText = ""
    """The `uid:gid` that it runs as: with `user: auto`, what that came to."""
    setup: Literal["NotNeeded", "Pending", "Complete"] = "NotNeeded"
    """Whether its setupCommand completed."""


class PruneRecord(Status):
    """When and why the runtime was pruned. Any valid last-used but the one recorded here brings it back."""

    at: AwareDatetime
    """When it was pruned."""
    reason: Text
    """Why: Idle or TooOld."""
    last_used: Text | None = None
    """The last-used annotation as it was then."""


class HoldRecord(Status):
    """The hold-until value in force, and when it was first seen; its effect is capped from then on."""

    until: Text
    """The value of the annotation."""
    since: AwareDatetime
    """When it was first seen."""


class NextTransition(Status):
    """What happens next by itself, and when."""

    at: AwareDatetime
    """When."""
    what: CommonText
    """What."""


class SandboxStatus(Status):
    """The registry's row: what runs for this Sandbox, and how it fares."""

    phase: KnownPhase | None = None
    """One word for people; read the conditions in programs."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object that this status is about."""
    conditions: Annotated[list[Condition], Field(max_length=16), ListMap("type")] = Field(
        default_factory=list
    )
    """How it fares, for programs; `Ready` is always there."""
    policy: CommonText | None = None
    """The policy as applied: `namespace/name`, or `built-in`."""
    key: Text | None = None
    """The scope key as applied: `shared`, `agent:ID` or `agent:ID:session:KEY`."""
    scope: CommonText | None = None
    """The scope as applied."""
    backend: CommonText | None = None
    """The backend as applied."""
    runtime: RuntimeRecord | None = None
    """The runtime as it was last seen."""
    image: CommonText | None = None
    """What the runtime was made from."""
    config_hash: CommonText | None = None
    """Fingerprint of the configuration that runs."""
    desired_config_hash: CommonText | None = None
    """Fingerprint of the configuration that is wanted."""
    last_used_at: AwareDatetime | None = None
    """The last use that is known; a use within the hot window may not show yet."""
    pruned: PruneRecord | None = None
    """When and why the runtime was pruned."""
    hold: HoldRecord | None = None
    """The hold-until value in force."""
    recreate: Text | None = None
    """The value of the recreate annotation that was honoured last."""
    wipe: Text | None = None
    """The value of the wipe annotation that was honoured last."""
    removing: Text | None = None
    """The id of a runtime whose removal was announced."""
    next_transition: NextTransition | None = None
    """What happens next by itself, and when."""
    recoveries: Annotated[int, Field(ge=0)] = 0
    """How often a runtime died and was made again."""
    message: Message | None = None
    """What there is to say, in a sentence for people."""
