"""Whether a policy can be followed at all, asked of the policy alone: before any Sandbox comes under it."""

from collections.abc import Iterator

from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import PolicyRef, SandboxSpec
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.resolution import Problem
from sandkeeper.config.resolve import resolve

__all__ = ["find_problem"]

_SESSION = "any"


def find_problem(
    policy: AgentSandboxPolicySpec, *, namespace: str, name: str, operator: OperatorConfig
) -> Problem | None:
    """Return what is wrong with the policy for a Sandbox that says nothing itself: of any agent, or of one it names."""
    for agent in _agents(policy):
        resolution = resolve(
            namespace=namespace,
            namespace_uid="",  # of no consequence here
            spec=SandboxSpec(agent_id=agent, session_key=_SESSION, policy_ref=PolicyRef(name=name)),
            policies={(namespace, name): policy},
            recorded_policy=None,
            operator=operator,
        )
        if resolution.problem is not None:
            return resolution.problem
    return None


def _agents(policy: AgentSandboxPolicySpec) -> Iterator[str]:
    named = [entry.id for entry in policy.agents or ()]
    yield next(f"any-{number}" for number in range(len(named) + 1) if f"any-{number}" not in named)
    yield from named
