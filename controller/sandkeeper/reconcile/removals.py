"""How fast replacements may follow each other, and how fast prunes: a token bucket for each.

A policy edited for a thousand Sandboxes must not take a thousand runtimes away in the same second. Deletions by users
never ask here.
"""

from datetime import datetime, timedelta
from typing import Generic, TypeVar

from sandkeeper.config.operator import RemovalRate

__all__ = ["RemovalBudget"]

K = TypeVar("K")


class RemovalBudget(Generic[K]):
    """At most ``burst`` at once, and ``per_minute`` in the long run; who has to wait is given a turn of its own."""

    def __init__(self, rate: RemovalRate) -> None:
        self._per_second = rate.per_minute / 60
        self._burst = float(rate.burst)
        self._tokens = self._burst
        self._filled_at: datetime | None = None
        self._turns: dict[K, datetime] = {}

    def take(self, key: K, now: datetime) -> datetime | None:
        """Take one removal for the key and return None; or return when its turn comes."""
        turn = self._turns.get(key)
        if turn is not None and now < turn:
            return turn
        if turn is not None:
            del self._turns[key]
            return None
        self._fill(now)
        self._tokens -= 1
        if self._tokens >= 0:
            return None
        turn = self._turns[key] = now + timedelta(seconds=-self._tokens / self._per_second)
        return turn

    def draw(self, now: datetime) -> datetime | None:
        """Take one removal for whoever is first in a line that is kept elsewhere, or return when there may be one."""
        self._fill(now)
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return now + timedelta(seconds=(1 - self._tokens) / self._per_second)

    def put_back(self) -> None:
        """Give back one that was drawn: it was not needed."""
        self._tokens = min(self._burst, self._tokens + 1)

    def give_up(self, key: K) -> None:
        """Give the key's turn back: there is nothing to remove any more."""
        if self._turns.pop(key, None) is not None:
            self.put_back()

    def _fill(self, now: datetime) -> None:
        if self._filled_at is not None:
            passed = max(0.0, (now - self._filled_at).total_seconds())  # a clock set back earns nothing
            self._tokens = min(self._burst, self._tokens + passed * self._per_second)
        self._filled_at = now
