"""From a Sandbox and the policies to what is wanted: one pure function over the steps of this package.

The order is the rule: policy, mode and scope, key, then whether the configuration can be made at all (consistency)
and by its backend (unsupported), may be chosen (limits) and may be allowed to anybody (ceilings). Once the key is
known it is told whatever comes after, so that what runs under it is frozen rather than forgotten.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.pod import PodTemplate
from sandkeeper.api.policy import AgentSandboxPolicySpec, Backend, Scope
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.api.workspace import Workspace
from sandkeeper.config import binds, ceilings, consistency, environment, limits, unsupported
from sandkeeper.config.canonical import config_hash
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.levels import (
    Level,
    built_in_level,
    merge_backend,
    merge_containers,
    merge_pods,
    merge_windows,
    merge_workspaces,
)
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.outcomes import Outcome, Outcomes
from sandkeeper.config.policies import Policies, find_policy
from sandkeeper.config.resolution import Problem, Resolution
from sandkeeper.config.scope import applicable_levels, identify, scope_key
from sandkeeper.config.shape import shape
from sandkeeper.config.templates import fill_workspace, names_agent
from sandkeeper.config.windows import Windows

__all__ = ["resolve"]

_TOLD: Final = 5
"""Problems told at once. More would only hide the first ones."""


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What the levels come to, section by section."""

    levels: Sequence[Level]
    backend: Backend
    container: ContainerTemplate
    pod: PodTemplate
    workspace: Workspace | Problem
    """Its templates are filled in; or why they cannot be."""


def resolve(
    *,
    namespace: str,
    namespace_uid: str,
    spec: SandboxSpec,
    policies: Policies,
    recorded_policy: str | None,
    operator: OperatorConfig,
    outcomes: Outcomes | None = None,
) -> Resolution:
    """Resolve one Sandbox. ``recorded_policy`` is ``status.policy``; None: nothing was applied yet.

    ``outcomes``: a memory of what was resolved before under the same operator's configuration.

    Never raises for what users wrote: what is wrong with it is the resolution's problem.
    """
    found = find_policy(
        spec.policy_ref.name,
        namespace=namespace,
        operator_namespace=operator.namespace,
        recorded=recorded_policy,
        policies=policies,
    )
    if isinstance(found.spec, Problem):
        return Resolution(
            policy=found.name,
            key=None,
            windows=merge_windows([built_in_level(operator.default_backend)], max_hold_seconds=None),
            config=None,
            config_hash=None,
            problem=found.spec,
        )
    policy, identity = found.spec, identify(spec, found.spec)
    if not identity.sandboxed:
        levels = _levels(spec, policy, operator, scope=identity.scope)
        windows = _windows(levels, policy)
        return Resolution(policy=found.name, key=None, windows=windows, config=None, config_hash=None)

    def compute() -> Outcome:
        return _come_to(spec, policy, operator, scope=identity.scope)

    memory = Outcomes() if outcomes is None else outcomes
    outcome = memory.find(policy, spec, scope=identity.scope, compute=compute)
    return Resolution(
        policy=found.name,
        key=RuntimeKey(
            namespace=namespace,
            namespace_uid=namespace_uid,
            policy=spec.policy_ref.name,
            scope=scope_key(identity.scope, agent_id=spec.agent_id, session_key=spec.session_key),
        ),
        windows=outcome.windows,
        config=outcome.config,
        config_hash=outcome.config_hash,
        problem=outcome.problem,
        network_enforced=operator.pod.network_policy_enforced,
        filtered_env=outcome.filtered_env,
    )


def _come_to(
    spec: SandboxSpec, policy: AgentSandboxPolicySpec, operator: OperatorConfig, *, scope: Scope
) -> Outcome:
    """Merge the levels, check what comes of it, and take its hash."""
    levels = _levels(spec, policy, operator, scope=scope)
    wanted = _merge(levels, operator, scope=scope, agent_id=spec.agent_id)
    container = wanted.container
    cleaned = environment.clean(container.env or {}, allowed=container.allow_secret_env or ())
    problems = _find_problems(wanted, policy, operator)
    config = None
    if not problems and not isinstance(wanted.workspace, Problem):
        config = shape(
            container, backend=wanted.backend, env=cleaned.env, pod=wanted.pod, workspace=wanted.workspace
        )
    return Outcome(
        windows=_windows(levels, policy),
        config=config,
        config_hash=None if config is None else config_hash(config),
        problem=_as_one(problems),
        filtered_env=cleaned.filtered,
    )


def _levels(
    spec: SandboxSpec, policy: AgentSandboxPolicySpec, operator: OperatorConfig, *, scope: Scope
) -> Sequence[Level]:
    return applicable_levels(spec, policy, scope=scope, default_backend=operator.default_backend)


def _windows(levels: Sequence[Level], policy: AgentSandboxPolicySpec) -> Windows:
    max_hold = None if policy.limits is None else policy.limits.max_hold_seconds
    return merge_windows(levels, max_hold_seconds=max_hold)


def _merge(levels: Sequence[Level], operator: OperatorConfig, *, scope: Scope, agent_id: str) -> _Wanted:
    backend = merge_backend(levels)
    container = merge_containers(level.container for level in levels)
    return _Wanted(
        levels=levels,
        backend=backend,
        container=ceilings.allot(container, operator.ceilings, backend=backend),
        pod=merge_pods(level.pod for level in levels),
        workspace=_fill(
            merge_workspaces(level.workspace for level in levels), scope=scope, agent_id=agent_id
        ),
    )


def _fill(workspace: Workspace, *, scope: Scope, agent_id: str) -> Workspace | Problem:
    """Put the agent's id in its places; where agents share the runtime, it could be any of theirs."""
    if scope is Scope.SHARED and names_agent(workspace):
        return Problem(
            reason=Reason.WORKSPACE_AMBIGUOUS,
            message="workspace: a template names {agentId}, and with scope: shared all agents have one runtime; "
            "name one directory for all of them, or use scope: agent",
        )
    if not names_agent(workspace):
        return workspace
    try:
        return fill_workspace(workspace, agent_id)
    except ValueError as error:
        return Problem(reason=Reason.INVALID_CONFIG, message=str(error))


def _find_problems(
    wanted: _Wanted, policy: AgentSandboxPolicySpec, operator: OperatorConfig
) -> list[Problem]:
    backend = wanted.backend
    if backend not in operator.backends:
        served = ", ".join(operator.backends) or "none"
        return [
            Problem(
                reason=Reason.BACKEND_UNAVAILABLE,
                message=f"backend: this operator does not serve {backend}; it serves {served}",
            )
        ]
    workspace = wanted.workspace
    if isinstance(workspace, Problem):
        return [workspace]
    # What cannot be read cannot be compared with anything; and what has to go anyway need not be allowed first.
    return (
        list(_find_inconsistent(wanted, workspace, policy))
        or list(unsupported.check(wanted.levels, workspace, policy.limits, backend=backend))
        or list(_find_exceeding(wanted, workspace, policy, operator))
    )


def _find_inconsistent(
    wanted: _Wanted, workspace: Workspace, policy: AgentSandboxPolicySpec
) -> Iterator[Problem]:
    problems = list(consistency.check(wanted.container, workspace, policy.limits))
    yield from problems
    if wanted.backend is Backend.POD and not problems:
        yield from consistency.check_pod(wanted.container, wanted.pod, workspace)


def _find_exceeding(
    wanted: _Wanted, workspace: Workspace, policy: AgentSandboxPolicySpec, operator: OperatorConfig
) -> Iterator[Problem]:
    container, backend, enforced = wanted.container, wanted.backend, operator.pod.network_policy_enforced
    yield from limits.check(wanted.levels, policy.limits)
    yield from limits.check_isolation(container, policy.limits, backend=backend, enforced=enforced)
    yield from ceilings.check(container, workspace, operator.ceilings)
    for level in wanted.levels:
        if level.browser is not None:
            yield from binds.check(level.browser.binds or (), operator.ceilings, field="browser.binds")
    if backend is Backend.POD:
        yield from ceilings.check_pod(container, wanted.pod, operator.ceilings)


def _as_one(problems: Sequence[Problem]) -> Problem | None:
    """Tell several problems at once, under the first one's reason: nobody likes to find them one by one."""
    if not problems:
        return None
    messages = [problem.message for problem in problems[:_TOLD]]
    if (rest := len(problems) - _TOLD) > 0:
        messages.append(f"and {rest} more")
    return Problem(reason=problems[0].reason, message="; ".join(messages))
