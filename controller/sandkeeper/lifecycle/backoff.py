"""How long to wait after a failure, before the same is tried again."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sandkeeper.api.conditions import Reason
from sandkeeper.lifecycle.model import Failure

__all__ = ["STEADY", "next_failure"]

STEADY: Final = timedelta(minutes=10)
"""A runtime that ran this long did not fail because of how it was made: its death begins a new row."""


class _Pace(NamedTuple):
    """The waits after the first, second, third ... failure in a row: ``first``, then ``base`` doubled each time."""

    first: float
    base: float
    cap: float
    """All in seconds."""


_DIED: Final = _Pace(first=0, base=2, cap=300)
"""It ran and died: 0, 2, 4, 8 ... 300 s. Somebody may be waiting, and most deaths come alone."""

_WORLD: Final = _Pace(first=5, base=10, cap=60)
"""The world lacks something that somebody is about to bring (an image, room): 5, 10, 20, 40, 60 s."""

_MADE: Final = _Pace(first=5, base=10, cap=300)
"""Making it fails, and each attempt costs the engine or the user something: 5, 10, 20 ... 300 s."""

_AWAY: Final = _Pace(first=5, base=5, cap=5)
"""The engine does not answer: 5 s. It says itself when it is back, and until then nothing is tried anyway."""

_PACES: Final = {
    Reason.ENGINE_UNREACHABLE: _AWAY,
    Reason.EXITED: _DIED,
    Reason.OOM_KILLED: _DIED,
    Reason.EVICTED: _DIED,
    Reason.PREEMPTED: _DIED,
    Reason.RECOVERING: _DIED,
    Reason.IMAGE_MISSING: _WORLD,
    Reason.NETWORK_MISSING: _WORLD,
    Reason.ENGINE_FULL: _WORLD,
    Reason.VOLUME_MISSING: _WORLD,
    Reason.VOLUME_BUSY: _WORLD,
    Reason.NAME_CONFLICT: _WORLD,
    Reason.BACKEND_UNAVAILABLE: _WORLD,
}

_MOST_DOUBLINGS: Final = 16
"""Far beyond every cap; a row of thousands must not become a number of thousands of digits."""


def next_failure(
    previous: Failure | None,
    *,
    reason: Reason,
    message: str,
    now: datetime,
    ran_for: timedelta | None,
    jitter: float,
) -> Failure:
    """Tell what the latest failure means for the next attempt.

    ``previous`` is the failure before it, if the two are in a row. ``ran_for`` is how long the runtime had run; None
    where it never did. ``jitter`` is a factor from 0.9 to 1.1, so that what died together does not come back together;
    it spreads the cap as well. That the engine was away says nothing of what was tried, and makes no row longer.
    """
    in_row = previous is not None and (ran_for is None or ran_for < STEADY)
    pace = _PACES.get(reason, _MADE)
    count = (previous.count if previous is not None and in_row else 0) + (pace is not _AWAY)
    wait = pace.first if count <= 1 else min(pace.cap, pace.base * 2.0 ** min(count - 2, _MOST_DOUBLINGS))
    delay = timedelta(seconds=wait * min(max(jitter, 0.9), 1.1))
    return Failure(reason=reason, message=message, count=count, retry_at=now + delay)
