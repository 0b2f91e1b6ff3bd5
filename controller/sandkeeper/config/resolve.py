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
from sandkeeper.api.policy import AgentSandboxPolicySpec, Backend
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.api.workspace import Volume
from sandkeeper.config import ceilings, consistency, environment, limits, unsupported
from sandkeeper.config.canonical import config_hash
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.levels import (
    Level,
    built_in_level,
    merge_backend,
    merge_containers,
    merge_pods,
    merge_volumes,
    merge_windows,
)
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.policies import Policies, find_policy
from sandkeeper.config.resolution import Problem, Resolution
from sandkeeper.config.scope import applicable_levels, identify, scope_key
from sandkeeper.config.shape import shape

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
    volume: Volume | None


def resolve(
    *,
    namespace: str,
    namespace_uid: str,
    spec: SandboxSpec,
    policies: Policies,
    recorded_policy: str | None,
    operator: OperatorConfig,
) -> Resolution:
    """Resolve one Sandbox. ``recorded_policy`` is ``status.policy``; None: nothing was applied yet.

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
    return _resolve_under(
        found.spec, found.name, namespace=namespace, namespace_uid=namespace_uid, spec=spec, operator=operator
    )


def _resolve_under(
    policy: AgentSandboxPolicySpec,
    policy_name: str | None,
    *,
    namespace: str,
    namespace_uid: str,
    spec: SandboxSpec,
    operator: OperatorConfig,
) -> Resolution:
    """Resolve the Sandbox under a policy that was found."""
    identity = identify(spec, policy)
    levels = applicable_levels(spec, policy, scope=identity.scope, default_backend=operator.default_backend)
    max_hold = None if policy.limits is None else policy.limits.max_hold_seconds
    windows = merge_windows(levels, max_hold_seconds=max_hold)
    if not identity.sandboxed:
        return Resolution(policy=policy_name, key=None, windows=windows, config=None, config_hash=None)
    key = RuntimeKey(
        namespace=namespace,
        namespace_uid=namespace_uid,
        policy=spec.policy_ref.name,
        scope=scope_key(identity.scope, agent_id=spec.agent_id, session_key=spec.session_key),
    )
    wanted = _merge(levels)
    container = wanted.container
    cleaned = environment.clean(container.env or {}, allowed=container.allow_secret_env or ())
    problems = _find_problems(wanted, policy, operator)
    config = None
    if not problems:
        config = shape(
            container, backend=wanted.backend, env=cleaned.env, pod=wanted.pod, volume=wanted.volume
        )
    return Resolution(
        policy=policy_name,
        key=key,
        windows=windows,
        config=config,
        config_hash=None if config is None else config_hash(config),
        problem=_as_one(problems),
        network_enforced=operator.pod.network_policy_enforced,
        filtered_env=cleaned.filtered,
    )


def _merge(levels: Sequence[Level]) -> _Wanted:
    return _Wanted(
        levels=levels,
        backend=merge_backend(levels),
        container=merge_containers(level.container for level in levels),
        pod=merge_pods(level.pod for level in levels),
        volume=merge_volumes(level.workspace for level in levels),
    )


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
    # What cannot be read cannot be compared with anything; and what has to go anyway need not be allowed first.
    return (
        list(_find_inconsistent(wanted, policy))
        or list(unsupported.check(wanted.levels, policy.limits, backend=backend))
        or list(_find_exceeding(wanted, policy, operator))
    )


def _find_inconsistent(wanted: _Wanted, policy: AgentSandboxPolicySpec) -> Iterator[Problem]:
    problems = list(consistency.check(wanted.container, policy.limits))
    yield from problems
    if wanted.backend is Backend.POD and not problems:
        yield from consistency.check_pod(wanted.container, wanted.pod, wanted.volume)


def _find_exceeding(
    wanted: _Wanted, policy: AgentSandboxPolicySpec, operator: OperatorConfig
) -> Iterator[Problem]:
    container, backend, enforced = wanted.container, wanted.backend, operator.pod.network_policy_enforced
    yield from limits.check(wanted.levels, policy.limits)
    yield from limits.check_isolation(container, policy.limits, backend=backend, enforced=enforced)
    yield from ceilings.check(container, operator.ceilings)
    if backend is Backend.POD:
        yield from ceilings.check_pod(container, wanted.pod, wanted.volume, operator.ceilings)


def _as_one(problems: Sequence[Problem]) -> Problem | None:
    """Tell several problems at once, under the first one's reason: nobody likes to find them one by one."""
    if not problems:
        return None
    messages = [problem.message for problem in problems[:_TOLD]]
    if (rest := len(problems) - _TOLD) > 0:
        messages.append(f"and {rest} more")
    return Problem(reason=problems[0].reason, message="; ".join(messages))
