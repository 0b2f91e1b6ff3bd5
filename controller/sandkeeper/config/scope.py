"""Mode and scope, which resolve before everything else; from them follow the levels and the scope key.

A level narrower than the scope does not apply, because those who share the runtime would disagree about it:
`shared` sees the policy alone, `agent` adds the agent's entry, `session` adds what the Sandbox says for
itself.
"""

from dataclasses import dataclass

from sandkeeper.api.policy import AgentEntry, AgentSandboxPolicySpec, Backend, Mode, PolicyLevel, Scope
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config.builtin import BUILT_IN
from sandkeeper.config.levels import (
    Level,
    agent_level,
    built_in_level,
    latest,
    limits_level,
    policy_level,
    present,
    sandbox_level,
)

__all__ = ["Identity", "applicable_levels", "entry_of", "identify", "scope_key"]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Whether a Sandbox is sandboxed at all, and with whom it shares."""

    sandboxed: bool
    scope: Scope


def entry_of(policy: AgentSandboxPolicySpec, agent_id: str) -> AgentEntry | None:
    """Return the policy's entry for the agent, if it has one."""
    return next((entry for entry in policy.agents or () if entry.id == agent_id), None)


def identify(spec: SandboxSpec, policy: AgentSandboxPolicySpec) -> Identity:
    """Resolve mode and scope over all levels, whatever the scope turns out to be."""
    sections: list[PolicyLevel] = [BUILT_IN, policy]
    if (entry := entry_of(policy, spec.agent_id)) is not None:
        sections.append(entry)
    mode = present(latest(level.mode for level in sections))
    main = present(latest(level.main_session_key for level in sections))
    scope = present(latest([*(level.scope for level in sections), spec.scope]))
    return Identity(
        sandboxed=mode is Mode.ALL or (mode is Mode.NON_MAIN and spec.session_key != main),
        scope=scope,
    )


def applicable_levels(
    spec: SandboxSpec,
    policy: AgentSandboxPolicySpec,
    *,
    scope: Scope,
    default_backend: Backend,
) -> tuple[Level, ...]:
    """Return the levels that apply under the scope, the most general first."""
    levels = [built_in_level(default_backend), limits_level(policy.limits), policy_level(policy)]
    if scope is Scope.SHARED:
        return tuple(levels)
    if (entry := entry_of(policy, spec.agent_id)) is not None:
        levels.append(agent_level(entry))
    if scope is Scope.SESSION:
        levels.append(sandbox_level(spec))
    return tuple(levels)


def scope_key(scope: Scope, *, agent_id: str, session_key: str) -> str:
    """Return who shares the runtime, as text. Unambiguous, because an agent's id has no colon."""
    match scope:
        case Scope.SHARED:
            return "shared"
        case Scope.AGENT:
            return f"agent:{agent_id}"
        case Scope.SESSION:
            return f"agent:{agent_id}:session:{session_key}"
