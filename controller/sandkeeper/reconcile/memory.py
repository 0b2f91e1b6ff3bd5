"""What a process remembers of a key between passes, and may forget with the process: mostly what failed, and when."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import SandkeeperError
from sandkeeper.api.sandbox import RuntimeRecord
from sandkeeper.lifecycle import (
    STEADY,
    Create,
    Effect,
    Failure,
    Observed,
    Preflight,
    PreflightCheck,
    Remove,
    RuntimeState,
    Setup,
    Start,
    next_failure,
)
from sandkeeper.lifecycle.churn import Told
from sandkeeper.runtimes.protocol import Notice

__all__ = ["Memory"]

_LONGEST_WAIT: Final = timedelta(seconds=330)
"""The longest back-off there is, and its jitter."""


@dataclass(slots=True)
class Memory:
    """Of one key."""

    failure: Failure | None = None
    failed_hash: str | None = None
    """Of the configuration that failed: another one is tried at once."""
    preflight: PreflightCheck | None = None
    """The last one that found a problem. One that found none is not remembered: tomorrow it may find one."""
    preflight_failure: Failure | None = None
    fresh: str | None = None
    """Id of a runtime that this process made or started, and whose setupCommand has certainly not begun before."""
    made: str | None = None
    """Id of the runtime that this process made or started last."""
    setup_done: str | None = None
    mourned: str | None = None
    """Id of the last runtime whose death was counted as a failure."""
    died_of: Reason | None = None
    """Of what that one died."""
    notices: Sequence[Notice] | None = None
    """What is not as it should be in the workspace; None: not known, so what the statuses say may still hold."""
    going: Observed | None = None
    """The last runtime that said why it goes: once it is gone nothing else tells."""
    told: Told | None = None
    """What was counted of it; None: this process has not looked at it yet."""
    was: Reason | None = None
    """Why there was no runtime when the next one began to be made: it was pruned, or stopped."""
    wanted_since: float | None = None
    """Since when (by the queue's clock) a runtime is wanted and not Ready; None: neither, or this is not known."""

    def is_backing_off(self, now: datetime) -> bool:
        """Whether the next attempt has to wait."""
        return self.failure is not None and now < self.failure.retry_at

    def freshen(self, wanted: Collection[str | None], now: datetime) -> None:
        """Forget what is out of date: of what nobody wants, of long ago, or waits that the clock left behind."""
        check = self.preflight
        if check is not None and check.retry_at is not None and check.retry_at - now > _LONGEST_WAIT:
            self.preflight = replace(check, retry_at=now)
        if self.failure is None:
            return
        is_unwanted = self.failed_hash is not None and self.failed_hash not in wanted
        if is_unwanted or now - self.failure.retry_at > STEADY:
            self.failure = self.failed_hash = None
        elif self.failure.retry_at - now > _LONGEST_WAIT:
            self.failure = replace(self.failure, retry_at=now)

    def see(self, observed: Observed) -> None:
        """Remember why a runtime goes, if it says so."""
        if observed.ended is not None:
            self.going = observed

    def mourn(
        self, effect: Effect, *, observed: Observed | None, recorded: RuntimeRecord | None, now: datetime
    ) -> None:
        """Count the death of a runtime once, so that one that keeps dying is made again ever more slowly."""
        if isinstance(effect, Remove) and observed is not None and observed.state is RuntimeState.FAILED:
            dead, made_at = observed.id, observed.created_at
            reason, message = observed.ended or Reason.EXITED, observed.message
        elif isinstance(effect, Create) and effect.recovery and recorded is not None:
            dead, made_at = recorded.id, recorded.created_at
            reason, message = Reason.EXITED, "the runtime vanished"
            if self.going is not None and self.going.id == dead and self.going.ended is not None:
                reason, message = self.going.ended, self.going.message
        else:
            return
        if self.mourned != dead:
            self.mourned, self.died_of = dead, reason
            self.failure = _next(self.failure, reason, message, now=now, ran_for=now - made_at)

    def succeed(self, effect: Effect) -> None:
        """Forget the problems of what has worked by now."""
        if isinstance(effect, Preflight):
            self.preflight = self.preflight_failure = None

    def fail(self, effect: Effect, error: SandkeeperError, *, config_hash: str | None, now: datetime) -> None:
        """Remember that a step failed, and when to try it again."""
        if isinstance(effect, Preflight):
            failure = self.preflight_failure = _next(
                self.preflight_failure, error.reason, error.message, now=now
            )
            if config_hash is not None:
                self.preflight = PreflightCheck(
                    config_hash=config_hash,
                    problem=error.reason,
                    message=error.message,
                    retry_at=failure.retry_at,
                )
            return
        if isinstance(effect, (Setup, Start)):
            # It is removed for this failure, not for one more.
            self.mourned, self.died_of = effect.id, error.reason
        if self.failure is not None and self.is_backing_off(now):
            # It was tried before its time, for something else happened: that makes the row no longer.
            self.failure = replace(self.failure, reason=error.reason, message=error.message)
        else:
            self.failure = _next(self.failure, error.reason, error.message, now=now)
        self.failed_hash = config_hash


def _next(
    previous: Failure | None, reason: Reason, message: str, *, now: datetime, ran_for: timedelta | None = None
) -> Failure:
    jitter = random.uniform(0.9, 1.1)  # noqa: S311 - spreads load; guards nothing
    return next_failure(previous, reason=reason, message=message, now=now, ran_for=ran_for, jitter=jitter)
