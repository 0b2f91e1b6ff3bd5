"""The lengths of time that govern the life of a runtime."""

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Windows"]


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The lengths of time that govern a life, as resolved from policy. Zero switches a rule off."""

    hot: timedelta
    idle: timedelta
    max_age: timedelta
    delete_after: timedelta
    max_hold: timedelta
    rollout_paused: bool = False
    """The policy holds back replacements; everything else goes on."""
