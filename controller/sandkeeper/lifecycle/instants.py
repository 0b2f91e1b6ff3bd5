"""Moments as people write them, and sums of moments that cannot overflow."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["BEGINNING", "END", "after", "parse_instant", "show_instant"]

BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
END: Final = datetime.max.replace(tzinfo=UTC)

_RFC3339: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
"""RFC 3339, section 5.6, with the space that ``date --rfc-3339`` prints; at most nanoseconds, as Go writes them."""


def parse_instant(raw: str) -> datetime | None:
    """Read an RFC 3339 time with its offset; None where it is something else. The result is in UTC."""
    match = _RFC3339.fullmatch(raw)
    if match is None:
        return None
    date, time, fraction, zone = match.groups()
    microseconds = (fraction or "")[:6].ljust(6, "0")
    offset = "+00:00" if zone in {"Z", "z"} else zone
    try:
        return datetime.fromisoformat(f"{date}T{time}.{microseconds}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):  # the 30th of February, or the last hours of the year 9999
        return None


def show_instant(at: datetime) -> str:
    """Write a moment for a message: RFC 3339 in UTC, to the second, so that it reads the same in every pass."""
    return at.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def after(start: datetime, length: timedelta) -> datetime:
    """Add, stopping at the end of time: whoever sets idleSeconds to ten billion means "never", not a crash."""
    try:
        return start + length
    except OverflowError:
        return END if length > timedelta() else BEGINNING
