"""What the status of an ``AgentSandboxPolicy`` says: whether it can be followed, and how far a change has come."""

from typing import Annotated

from pydantic import AwareDatetime, Field

from sandkeeper.api.base import Status
from sandkeeper.api.rules import ListMap
from sandkeeper.api.sandbox import Condition

__all__ = ["AgentSandboxPolicyStatus", "RolloutProgress"]

Count = Annotated[int, Field(ge=0)]


class RolloutProgress(Status):
    """How far the runtimes under the policy are, wherever they are. What is stopped or pruned is not among them."""

    total: Count = 0
    """How many there are, those that are being replaced included."""
    current: Count = 0
    """Made as the policy says now."""
    drifted: Count = 0
    """Made as it said before, and kept until their turn comes: they are in use, or others go first."""
    replacing: Count = 0
    """Away at the moment, because they are being replaced."""
    replaced: Count = 0
    """Of the current ones, those that were replaced since the rollout began."""
    blocked: Count = 0
    """Whose replacement failed: kept as they are, or away because the new one does not come up."""
    started_at: AwareDatetime | None = None
    """When the rollout began, or the last one did."""


class AgentSandboxPolicyStatus(Status):
    """Whether the policy can be followed, and how far a change of it has come."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the policy that this status is about."""
    conditions: Annotated[list[Condition], Field(max_length=16), ListMap("type")] = Field(
        default_factory=list
    )
    """How it fares, for programs."""
    rollout: RolloutProgress | None = None
    """How far the runtimes under it are."""
