"""How one Sandbox is used: its last use, its hold, and what its annotations are worth.

An intent (an annotation, ``spec.state``) is compared with the value that was recorded, never with a clock: whether a
client's clock is slow must not decide whether its sandbox comes back. See docs/explanation/rules-of-life.md.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.api.names import Annotation
from sandkeeper.lifecycle.instants import after, parse_instant
from sandkeeper.lifecycle.model import Claimant, Hold, Observed, Record, RuntimeState

__all__ = ["ALIVE", "Claim", "is_busy", "is_hot", "mark_of", "read_claim", "wipe_digest"]

ALIVE: Final = frozenset({RuntimeState.STARTING, RuntimeState.RUNNING})
"""The states in which somebody may rely on a runtime."""

_RAN: Final = frozenset({RuntimeState.RUNNING, RuntimeState.STOPPED})
"""The states in which a runtime is past all that comes before its first use."""

_AHEAD: Final = timedelta(seconds=60)
"""How far ahead of our clock a last use may be; clocks of honest clients differ."""

_SHOWN: Final = 40
"""Characters of a bad value that a message repeats."""

_LONGEST_MARK: Final = 256
"""Characters of a recreate or wipe value that are recorded as they are; the status takes no text of any length."""

_WIPE_DIGEST: Final = 16
"""Hex digits of a wipe's digest. A runtime may carry hundreds, and whoever makes two of his own alike only misses the
second."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claimant, as it is to be understood at this moment."""

    claimant: Claimant
    last_use: datetime
    last_used_raw: str | None
    """The last-used annotation if it is valid: the value that a prune records."""
    hold: Hold | None
    """What is to be recorded of hold-until."""
    held_until: datetime | None
    """When the hold ends; None: not held now."""
    woken: bool
    """It was pruned, and has been used since."""
    wipe_asked: bool = False
    """The wipe annotation has a value that neither its record nor the runtime knows: it is still to be done."""
    wipe_done: bool = False
    """The runtime was made with that wipe, or after it, and ran: its copy is fresh."""
    complaints: tuple[str, ...] = ()
    """One sentence for each annotation that is ignored."""
    valid_at: datetime | None = None
    """When a last use that is too far ahead stops being so."""

    @property
    def uid(self) -> str:
        """The Sandbox's UID."""
        return self.claimant.uid

    @property
    def record(self) -> Record:
        """What its status says."""
        return self.claimant.record

    @property
    def recreate_asked(self) -> bool:
        """The recreate annotation has a value that was not honoured yet."""
        mark = mark_of(self.claimant.recreate)
        return mark is not None and mark != self.record.recreate


def read_claim(
    claimant: Claimant,
    *,
    observed: Observed | None,
    now: datetime,
    max_hold: timedelta,
    clock_trusted: bool = True,
) -> Claim:
    """Understand one claimant. ``max_hold`` caps its hold; zero is without a cap."""
    annotated, valid_at, complaint = _read_last_used(claimant, now)
    hold, held_until, hold_complaint = _read_hold(claimant, now, max_hold, may_begin=clock_trusted)
    pruned = claimant.record.pruned
    in_use = observed is not None and observed.in_use
    used_again = pruned is not None and annotated is not None and claimant.last_used != pruned.last_used
    started_again = claimant.record.stopped and not claimant.stopped
    lost = observed is not None and not claimant.has_status
    instants = [claimant.created_at]
    if annotated is not None:
        instants.append(annotated)
    recorded = claimant.record.last_used_at
    if recorded is not None:
        # A use that was recorded by a clock that was ahead would keep a runtime until that time has really come.
        instants.append(now if clock_trusted and recorded - now > _AHEAD else recorded)
    # Somebody wants it at this moment, whatever his clock says; or the registry's row was lost, and the use with it.
    if used_again or started_again or in_use or lost:
        instants.append(now)
    return Claim(
        claimant=claimant,
        last_use=max(instants),
        last_used_raw=claimant.last_used if annotated is not None else None,
        hold=hold,
        held_until=held_until,
        woken=pruned is not None and (used_again or started_again or in_use),
        wipe_asked=_is_wipe_asked(claimant, observed),
        wipe_done=observed is not None and observed.state in _RAN and _knows_wipe(observed, claimant),
        complaints=tuple(text for text in (complaint, hold_complaint) if text is not None),
        valid_at=valid_at,
    )


def is_busy(claim: Claim, *, observed: Observed | None, now: datetime, hot: timedelta) -> bool:
    """Whether this claimant by itself makes the runtime hot, or holds it."""
    return claim.held_until is not None or is_hot(observed, last_use=claim.last_use, now=now, hot=hot)


def is_hot(observed: Observed | None, *, last_use: datetime, now: datetime, hot: timedelta) -> bool:
    """Whether it runs, and was used less than the hot window ago: at exactly five minutes it is cold.

    A last use in the future (the clock was put back) is hot: better a runtime too long than one too short.
    """
    if observed is None or observed.state not in ALIVE:
        return False
    return observed.in_use or now - last_use < hot


def mark_of(raw: str | None) -> str | None:
    """Tell what is recorded of a recreate or wipe value: itself, or a digest where it is too long for the status."""
    if raw is None or len(raw) <= _LONGEST_MARK:
        return raw
    return f"sha256:{_digest(raw)}"


def wipe_digest(claimant: Claimant) -> str | None:
    """Tell what a runtime carries of a claimant's wipe: something else for each Sandbox and each value."""
    if claimant.wipe is None:
        return None
    return _digest(f"{claimant.uid}\n{claimant.wipe}")[:_WIPE_DIGEST]


def _is_wipe_asked(claimant: Claimant, observed: Observed | None) -> bool:
    """Whether a wipe is still to be done. Its status may be older than the runtime, or lost: the runtime knows too."""
    if claimant.wipe is None or mark_of(claimant.wipe) == claimant.record.wipe:
        return False
    return observed is None or not _knows_wipe(observed, claimant)


def _knows_wipe(observed: Observed, claimant: Claimant) -> bool:
    return wipe_digest(claimant) in observed.wiped_for


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read_last_used(claimant: Claimant, now: datetime) -> tuple[datetime | None, datetime | None, str | None]:
    """Read last-used: its time if it is valid, else when it becomes valid (if ever), and a complaint."""
    raw = claimant.last_used
    if raw is None:
        return None, None, None
    at = parse_instant(raw)
    if at is None:
        return None, None, _not_an_instant(Annotation.LAST_USED, raw)
    if at - now > _AHEAD:
        complaint = (
            f"{Annotation.LAST_USED}={_shortened(raw)} is ignored: it is more than 60 s ahead of the operator's "
            "clock; write the present time."
        )
        return None, at - _AHEAD, complaint
    return at, None, None


def _read_hold(
    claimant: Claimant, now: datetime, max_hold: timedelta, *, may_begin: bool
) -> tuple[Hold | None, datetime | None, str | None]:
    """Read hold-until: what to record, when the hold ends (None: not held), and a complaint.

    A hold lasts until its value says, but at most ``max_hold`` from when that value was first seen; so a value has to
    be recorded only where the cap can matter. One that is renewed every minute then costs no write. By a clock that is
    wrong nothing begins (``may_begin``): if that was behind, the hold would be over as soon as it is right.
    """
    raw = claimant.hold_until
    if raw is None:
        return None, None, None
    until = parse_instant(raw)
    if until is None:
        return None, None, _not_an_instant(Annotation.HOLD_UNTIL, raw)
    known = claimant.record.hold
    hold = known if known is not None and known.until == raw else None
    if hold is None and may_begin and max_hold > timedelta() and until - now > max_hold:
        hold = Hold(until=raw, since=now)
    end = min(until, after(hold.since, max_hold)) if hold is not None and max_hold > timedelta() else until
    return hold, end if end > now else None, None


def _not_an_instant(annotation: Annotation, raw: str) -> str:
    return (
        f"{annotation}={_shortened(raw)} is ignored: it is not a time with an offset (RFC 3339); "
        "write it like 2026-01-02T03:04:05Z."
    )


def _shortened(raw: str) -> str:
    """Repeat a value for a message: one line of harmless characters, and not too many."""
    shown = raw if len(raw) <= _SHOWN else raw[: _SHOWN - 1] + "…"
    return repr(shown)
