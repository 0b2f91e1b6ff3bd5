"""A rollout: how all runtimes under one policy come to what is wanted by now, a few at a time.

:func:`~sandkeeper.lifecycle.decide.decide` looks at one runtime and says that it is to be replaced. How many of a
policy may be away for that at once, and when no more go, is said here, of nothing but counts: so it costs the same for
ten runtimes and for ten thousand, and follows from what their statuses say, whoever reads them.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sandkeeper.config.rollouts import RolloutLimits

__all__ = ["Counts", "Failed", "Member", "Standing", "is_stopped", "room"]


class Standing(StrEnum):
    """How one runtime stands to what is wanted."""

    CURRENT = "Current"
    DRIFTED = "Drifted"
    """It is there, made from something else, and is to be replaced."""
    REPLACING = "Replacing"
    """Its removal was announced, and no other is ready yet."""
    UNKNOWN = "Unknown"
    """It is there, and what is wanted cannot be said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A replacement that failed, and for which no other begins."""

    namespace: str
    sandbox: str
    reason: str

    def told_in(self, namespace: str) -> str:
        """Name it for whoever reads that in a namespace: the Sandboxes of others are nobody's business."""
        where = self.sandbox if self.namespace == namespace else "one in another namespace"
        return f"{where} ({self.reason})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One runtime under a policy, as the statuses of its Sandboxes have it."""

    standing: Standing
    last_use: datetime
    claimed_at: datetime
    """When the Sandbox that rules it was created."""
    made_at: datetime
    """When the runtime was made that the statuses name."""
    failed: Failed | None = None
    """Its replacement failed: it is still as it was, or away."""
    may_go: bool = False
    """It is drifted, and as far as the statuses tell nothing but its turn keeps it from being replaced."""

    def was_replaced_since(self, start: datetime) -> bool:
        """Whether it is one of a Sandbox that was there before that moment, and was made anew after it."""
        return self.standing is Standing.CURRENT and self.claimed_at < start <= self.made_at


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How many runtimes under a policy stand how."""

    total: int = 0
    current: int = 0
    drifted: int = 0
    replacing: int = 0
    failed_kept: int = 0
    """Of the drifted ones: another cannot be made for them, so they were left as they are."""
    failed_away: int = 0
    """Of those that are being replaced: the new one does not come up."""

    @property
    def failed(self) -> int:
        """Replacements that failed."""
        return self.failed_kept + self.failed_away

    @property
    def unknown(self) -> int:
        """Of which cannot be said what is wanted."""
        return self.total - self.current - self.drifted - self.replacing

    def changed(self, member: Member, by: int) -> "Counts":
        """Count one runtime in (1) or out (-1)."""
        standing, failed = member.standing, member.failed is not None
        return Counts(
            total=self.total + by,
            current=self.current + by * (standing is Standing.CURRENT),
            drifted=self.drifted + by * (standing is Standing.DRIFTED),
            replacing=self.replacing + by * (standing is Standing.REPLACING),
            failed_kept=self.failed_kept + by * (failed and standing is Standing.DRIFTED),
            failed_away=self.failed_away + by * (failed and standing is Standing.REPLACING),
        )


def is_stopped(counts: Counts, limits: RolloutLimits) -> bool:
    """Whether more replacements have failed than may: no other begins until one of those comes up, or is given up."""
    return counts.failed > limits.max_failed


def room(counts: Counts, limits: RolloutLimits, *, going: int = 0) -> int:
    """Tell how many more may be away. ``going`` are about to be, and are not counted as being replaced yet.

    Those that failed, as far as that is allowed, are not counted: otherwise the first of them would stop a rollout that
    has room for one. Where more failed than may, there is room only for what was tried before.
    """
    away = counts.replacing - min(counts.failed_away, limits.max_failed) + going
    return max(0, limits.most_away(counts.total) - away)
