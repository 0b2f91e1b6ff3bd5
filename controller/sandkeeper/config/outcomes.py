"""What levels come to, and a memory of it: most Sandboxes of a policy come to the same.

An outcome says nothing of who claims it. So thousands of Sandboxes under one policy share one, in memory as well, and
an edit of that policy is merged, checked and hashed once instead of thousands of times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sandkeeper.api.policy import AgentSandboxPolicySpec, Scope
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config.resolution import Problem, RuntimeConfig
from sandkeeper.config.templates import names_agent
from sandkeeper.config.windows import Windows

__all__ = ["Outcome", "Outcomes"]

_MOST: Final = 1024
"""Kept at once. Beyond it all are forgotten: whoever has more has a policy of which each agent makes its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What the levels of a Sandbox come to."""

    windows: Windows
    config: RuntimeConfig | None
    """None: there is a problem."""
    config_hash: str | None
    problem: Problem | None
    filtered_env: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Policy:
    """A policy, and whom it treats apart. It is kept, because it is known again by its identity."""

    spec: AgentSandboxPolicySpec
    agents: frozenset[str]
    """Those with an entry of their own."""
    each: bool
    """Whether it comes to something else for every agent."""

    @classmethod
    def of(cls, spec: AgentSandboxPolicySpec) -> "_Policy":
        return cls(
            spec=spec,
            agents=frozenset(entry.id for entry in spec.agents or ()),
            each=spec.workspace is not None and names_agent(spec.workspace),
        )


class Outcomes:
    """Remembers them, for one operator's configuration."""

    def __init__(self) -> None:
        self._policies: dict[int, _Policy] = {}
        self._known: dict[tuple[int, Scope, str | None], Outcome] = {}

    def find(
        self,
        policy: AgentSandboxPolicySpec,
        spec: SandboxSpec,
        *,
        scope: Scope,
        compute: Callable[[], Outcome],
    ) -> Outcome:
        """Return what ``compute`` returned for the same levels; it is asked where they are new."""
        if scope is Scope.SESSION and (spec.container is not None or spec.backend is not None):
            return compute()  # a level of its own
        known = self._policies.get(id(policy))
        if known is None:
            known = self._policies[id(policy)] = _Policy.of(policy)
        apart = scope is not Scope.SHARED and (known.each or spec.agent_id in known.agents)
        key = (id(policy), scope, spec.agent_id if apart else None)
        outcome = self._known.get(key)
        if outcome is None:
            if len(self._known) >= _MOST:
                self._forget()
                self._policies[id(policy)] = known
            outcome = self._known[key] = compute()
        return outcome

    def _forget(self) -> None:
        self._known.clear()
        self._policies.clear()
