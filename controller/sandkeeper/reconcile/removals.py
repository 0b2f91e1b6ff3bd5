"""How fast replacements may follow each other, and how fast prunes: a token bucket for each.

A policy edited for a thousand Sandboxes must not take a thousand runtimes away in the same second. Deletions by users
never ask here.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from sandkeeper.config.operator import RemovalRate

__all__ = ["RemovalBudget"]

_LEAST_SHARE: Final = 1 / 64
"""Whoever has nothing any more may be finishing what is in hand."""

K = TypeVar("K")


class RemovalBudget(Generic[K]):
    """At most ``burst`` at once, and ``per_minute`` in the long run; who has to wait is given a turn of its own.

    The rate is what the whole installation does. ``share`` tells which part of it is ours to do, from 0 to 1.
    """

    def __init__(self, rate: RemovalRate, *, share: Callable[[], float] = lambda: 1.0) -> None:
        self._rate = rate
        self._share = share
        self._tokens = float(rate.burst)
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
        share = self._present_share
        self._fill(now, share)
        self._tokens -= 1
        if self._tokens >= 0:
            return None
        turn = self._turns[key] = now + timedelta(seconds=-self._tokens / self._per_second(share))
        return turn

    def draw(self, now: datetime) -> datetime | None:
        """Take one removal for whoever is first in a line that is kept elsewhere, or return when there may be one."""
        share = self._present_share
        self._fill(now, share)
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return now + timedelta(seconds=(1 - self._tokens) / self._per_second(share))

    def put_back(self) -> None:
        """Give back one that was drawn: it was not needed."""
        self._tokens += 1

    def give_up(self, key: K) -> None:
        """Give the key's turn back: there is nothing to remove any more."""
        if self._turns.pop(key, None) is not None:
            self.put_back()

    def _fill(self, now: datetime, share: float) -> None:
        if self._filled_at is not None:
            passed = max(0.0, (now - self._filled_at).total_seconds())  # a clock set back earns nothing
            self._tokens += passed * self._per_second(share)
        self._tokens = min(self._tokens, max(1.0, self._rate.burst * share))
        self._filled_at = now

    @property
    def _present_share(self) -> float:
        return max(self._share(), _LEAST_SHARE)

    def _per_second(self, share: float) -> float:
        return self._rate.per_minute / 60 * share
