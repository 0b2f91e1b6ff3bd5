"""From a Sandbox and the policies to what is wanted: one pure function over the steps of this package.

The order is the rule: policy, mode and scope, key, then whether the configuration can be made (consistency),
may be chosen (limits) and may be allowed at all (ceilings). Once the key is known it is told whatever comes
after, so that what runs under it is frozen rather than forgotten.
"""

from collections.abc import Sequence
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config import ceilings, consistency, environment, limits
from sandkeeper.config.canonical import config_hash
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.levels import Level, built_in_level, merge_backend, merge_containers, merge_windows
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.policies import Policies, find_policy
from sandkeeper.config.resolution import Problem, Resolution
from sandkeeper.config.scope import applicable_levels, identify, scope_key
from sandkeeper.config.shape import shape

__all__ = ["resolve"]

_TOLD: Final = 5
"""Problems told at once. More would only hide the first ones."""


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
    container = merge_containers(level.container for level in levels)
    cleaned = environment.clean(container.env or {}, allowed=container.allow_secret_env or ())
    problems = _find_problems(levels, container, policy, operator)
    config = None if problems else shape(container, backend=merge_backend(levels), env=cleaned.env)
    return Resolution(
        policy=policy_name,
        key=key,
        windows=windows,
        config=config,
        config_hash=None if config is None else config_hash(config),
        problem=_as_one(problems),
        filtered_env=cleaned.filtered,
    )


def _find_problems(
    levels: Sequence[Level],
    container: ContainerTemplate,
    policy: AgentSandboxPolicySpec,
    operator: OperatorConfig,
) -> list[Problem]:
    backend = merge_backend(levels)
    if backend not in operator.backends:
        served = ", ".join(operator.backends) or "none"
        return [
            Problem(
                reason=Reason.BACKEND_UNAVAILABLE,
                message=f"backend: this operator does not serve {backend}; it serves {served}",
            )
        ]
    # What cannot be read cannot be compared with a limit either.
    if unreadable := list(consistency.check(container, policy.limits)):
        return unreadable
    return [*limits.check(levels, policy.limits), *ceilings.check(container, operator.ceilings)]


def _as_one(problems: Sequence[Problem]) -> Problem | None:
    """Tell several problems at once, under the first one's reason: nobody likes to find them one by one."""
    if not problems:
        return None
    messages = [problem.message for problem in problems[:_TOLD]]
    if (rest := len(problems) - _TOLD) > 0:
        messages.append(f"and {rest} more")
    return Problem(reason=problems[0].reason, message="; ".join(messages))
