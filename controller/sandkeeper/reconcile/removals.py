"""How fast prunes and replacements may follow each other: a token bucket.

A policy edited for a thousand Sandboxes must not take a thousand runtimes away in the same second. Deletions by users
never ask here.
"""

from datetime import datetime, timedelta

from sandkeeper.config.operator import RemovalRate

__all__ = ["RemovalBudget"]


class RemovalBudget:
    """At most ``burst`` at once, and ``per_minute`` in the long run."""

    def __init__(self, rate: RemovalRate) -> None:
        self._per_second = rate.per_minute / 60
        self._burst = float(rate.burst)
        self._tokens = self._burst
        self._filled_at: datetime | None = None

    def take(self, now: datetime) -> datetime | None:
        """Take one removal and return None; or return when there will be one to take."""
        if self._filled_at is not None:
            passed = max(0.0, (now - self._filled_at).total_seconds())  # a clock set back earns nothing
            self._tokens = min(self._burst, self._tokens + passed * self._per_second)
        self._filled_at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return now + timedelta(seconds=(1 - self._tokens) / self._per_second)
