"""How fast a change may reach the runtimes under a policy, as resolved from it."""

from dataclasses import dataclass

from sandkeeper.api.policy import AgentSandboxPolicySpec, PolicyRollout
from sandkeeper.config.builtin import BUILT_IN
from sandkeeper.config.levels import latest, present

__all__ = ["RolloutLimits", "rollout_limits"]


@dataclass(frozen=True, kw_only=True)
class RolloutLimits:
    """What holds for all runtimes under one policy together."""

    max_unavailable: int | str
    """A number, or a share of all in percent (``25%``)."""
    per_minute: int | None
    """None: as fast as the operator allows."""
    max_failed: int
    paused: bool
    """For the whole policy; an agent's entry may say otherwise for its own."""

    def most_away(self, total: int) -> int:
        """Tell how many of so many runtimes may be away at once: a share is rounded up, and never nothing."""
        if isinstance(self.max_unavailable, int):
            return self.max_unavailable
        return max(1, -(-total * int(self.max_unavailable.removesuffix("%")) // 100))


def rollout_limits(policy: AgentSandboxPolicySpec | None) -> RolloutLimits:
    """Merge what the policy says with what is built in; None: there is no policy, or it cannot be read."""
    said = [BUILT_IN.rollout, policy.rollout if policy is not None else None]
    rollouts = [rollout for rollout in said if isinstance(rollout, PolicyRollout)]
    amounts = [rollout.max_unavailable for rollout in rollouts if rollout.max_unavailable is not None]
    return RolloutLimits(
        max_unavailable=amounts[-1],
        per_minute=latest(rollout.per_minute for rollout in rollouts),
        max_failed=present(latest(rollout.max_failed for rollout in rollouts)),
        paused=present(latest(rollout.paused for rollout in rollouts)),
    )
