"""What the status of a policy says of its rollout: pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from sandkeeper.api.conditions import PolicyConditionType, Reason
from sandkeeper.api.policy_status import AgentSandboxPolicyStatus, RolloutProgress
from sandkeeper.api.sandbox import Condition
from sandkeeper.cluster.events import Note
from sandkeeper.config.resolution import Problem
from sandkeeper.config.rollouts import RolloutLimits
from sandkeeper.reconcile.objects import PolicyObject
from sandkeeper.reconcile.rollouts import Progress

__all__ = ["news_in", "policy_status"]

_MOST_NAMED: Final = 5
"""Replacements that failed and are named; hundreds may."""
_LONGEST: Final = 4096
"""Characters of a message."""

_Said = tuple[PolicyConditionType, str, Reason, str]


def policy_status(
    policy: PolicyObject,
    progress: Progress,
    *,
    problem: Problem | None,
    limits: RolloutLimits,
    forbidden: bool,
    now: datetime,
) -> AgentSandboxPolicyStatus:
    """Build the whole status. ``now`` goes only into times of transition."""
    counts = progress.counts
    before = {condition.type: condition for condition in policy.status.conditions}
    now = now.replace(microsecond=0)  # as Kubernetes writes it
    conditions = []
    for kind, value, reason, message in _conditions(policy, progress, problem, limits, forbidden=forbidden):
        old = before.get(kind)
        conditions.append(
            Condition(
                type=kind.value,
                status=value,
                reason=reason.value,
                message=message[:_LONGEST],
                last_transition_time=old.last_transition_time if old and old.status == value else now,
                observed_generation=policy.generation,
            )
        )
    return AgentSandboxPolicyStatus(
        observed_generation=policy.generation,
        conditions=conditions,
        rollout=RolloutProgress(
            total=counts.total,
            current=counts.current,
            drifted=counts.drifted,
            replacing=counts.replacing,
            replaced=progress.replaced,
            blocked=counts.failed,
            started_at=progress.started_at,
        ),
    )


def _conditions(
    policy: PolicyObject,
    progress: Progress,
    problem: Problem | None,
    limits: RolloutLimits,
    *,
    forbidden: bool,
) -> Iterator[_Said]:
    counts, blocked = progress.counts, _blocked(policy, progress)
    if problem is not None:
        yield PolicyConditionType.READY, "False", problem.reason, problem.message
    elif progress.stopped:
        yield PolicyConditionType.READY, "False", Reason.ROLLOUT_BLOCKED, blocked
    else:
        yield PolicyConditionType.READY, "True", Reason.ACCEPTED, "It can be followed."
    if not progress.rolling and counts.unknown == 0:
        message = "Every runtime under it is made as it says, or anew because somebody asked."
        yield PolicyConditionType.CURRENT, "True", Reason.UP_TO_DATE, message
    else:
        message = f"{counts.total - counts.current} of {counts.total} runtimes are not made as it says."
        yield PolicyConditionType.CURRENT, "False", Reason.OUT_OF_DATE, message
    yield _progressing(progress, limits, blocked=blocked, forbidden=forbidden)


def _progressing(progress: Progress, limits: RolloutLimits, *, blocked: str, forbidden: bool) -> _Said:
    kind, counts = PolicyConditionType.PROGRESSING, progress.counts
    if not progress.rolling:
        return kind, "False", Reason.ROLLOUT_COMPLETE, "Nothing waits to be replaced."
    if forbidden:
        message = "The operator's configuration forbids removals (removals: forbidden)."
        return kind, "False", Reason.REMOVALS_FORBIDDEN, message
    if progress.stopped:
        return kind, "False", Reason.ROLLOUT_BLOCKED, blocked
    if limits.paused:
        return kind, "False", Reason.ROLLOUT_PAUSED, "The policy holds back replacements (rollout.paused)."
    message = f"{counts.drifted} wait until they are cold and it is their turn; {counts.replacing} are being replaced."
    return kind, "True", Reason.ROLLING_OUT, message


def _blocked(policy: PolicyObject, progress: Progress) -> str:
    """Say for whom a rollout waits, and how it goes on."""
    named = [
        failed.told_in(failed.namespace)
        if failed.namespace == policy.namespace
        else f"{failed.namespace}/{failed.told_in(failed.namespace)}"
        for failed in progress.failed[:_MOST_NAMED]
    ]
    more = f" and {len(progress.failed) - _MOST_NAMED} more" if len(progress.failed) > _MOST_NAMED else ""
    return (
        f"The replacement failed of {', '.join(named)}{more}; no other begins. It goes on when that one is up, when "
        "the policy is changed, when that Sandbox is stopped, paused or deleted, or when rollout.maxFailed allows it."
    )


def news_in(policy: PolicyObject, after: AgentSandboxPolicyStatus) -> Iterator[Note]:
    """Yield an Event for each condition of which something changed that is worth one: not what was always so."""
    before = {condition.type: condition for condition in policy.status.conditions}
    for condition in after.conditions:
        old = before.get(condition.type)
        if condition.type == PolicyConditionType.CURRENT or (
            old and (old.status, old.reason) == (condition.status, condition.reason)
        ):
            continue
        is_bad = condition.type == PolicyConditionType.READY and condition.status == "False"
        if old is None and not is_bad:
            continue
        if condition.type == PolicyConditionType.PROGRESSING and condition.reason == Reason.ROLLOUT_BLOCKED:
            continue  # Ready says the same
        yield Note(
            namespace=policy.namespace,
            name=policy.name,
            uid=policy.uid,
            kind="Warning" if is_bad else "Normal",
            reason=condition.reason,
            message=condition.message,
            about="AgentSandboxPolicy",
        )
