"""Looking a Sandbox's policy up: in its namespace, for `default` in the operator's, then the built-in one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.config.resolution import Problem

__all__ = ["BUILT_IN_NAME", "DEFAULT_NAME", "FoundPolicy", "Policies", "find_policy"]

DEFAULT_NAME: Final = "default"
"""The policy's name that leads to the operator's own, and to the built-in one."""

BUILT_IN_NAME: Final = "built-in"
"""What a status records where no policy applies. No namespaced name looks like it, for it has no slash."""

_EMPTY: Final = AgentSandboxPolicySpec()
"""One for all who have none, so that what comes of it is found out once."""

Policies = Mapping[tuple[str, str], AgentSandboxPolicySpec | Problem]
"""By namespace and name. A Problem stands for a policy that is there and cannot be read."""


@dataclass(frozen=True, kw_only=True)
class FoundPolicy:
    """The outcome: a policy under its full name, or why there is none."""

    name: str | None
    """``namespace/name`` or ``built-in``; None: not found."""
    spec: AgentSandboxPolicySpec | Problem


def find_policy(
    name: str,
    *,
    namespace: str,
    operator_namespace: str,
    recorded: str | None,
    policies: Policies,
) -> FoundPolicy:
    """Find the policy that applies. ``recorded`` is the one that did, by the Sandbox's status.

    A policy that applied and is gone is not found, however many are further down: it was deleted by mistake
    more often than in order to fall back on another, and the fallback would replace every sandbox under it.
    """
    namespaces = [namespace]
    if name == DEFAULT_NAME and operator_namespace != namespace:
        namespaces.append(operator_namespace)
    for candidate in namespaces:
        full = f"{candidate}/{name}"
        if (found := policies.get((candidate, name))) is not None:
            return FoundPolicy(name=full, spec=found)
        if full == recorded:
            return _gone(full)
    if name != DEFAULT_NAME:
        return FoundPolicy(
            name=None,
            spec=Problem(
                reason=Reason.POLICY_NOT_FOUND,
                message=f"there is no AgentSandboxPolicy {name!r} in the namespace {namespace!r}; create it",
            ),
        )
    if recorded not in {None, BUILT_IN_NAME}:
        # It came from a namespace where we no longer look: the operator was moved.
        return _gone(str(recorded))
    return FoundPolicy(name=BUILT_IN_NAME, spec=_EMPTY)


def _gone(full: str) -> FoundPolicy:
    return FoundPolicy(
        name=None,
        spec=Problem(
            reason=Reason.POLICY_NOT_FOUND,
            message=f"the AgentSandboxPolicy {full!r}, which applied so far, is gone; create it again, or "
            "delete this Sandbox and create it anew",
        ),
    )
