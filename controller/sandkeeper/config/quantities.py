"""Sizes and CPUs as users write them, in whole units: bytes and thousandths of a core.

Exact throughout: a binary float would make two ways to write one size into two configurations.
"""

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

__all__ = ["MINIMUM_DISK", "MINIMUM_MEMORY", "UNLIMITED", "memory_bytes", "milli_cpus", "swap_bytes"]

MINIMUM_MEMORY: Final = 6 * 1024**2
"""Bytes. Docker refuses to make a container with less (moby's ``linuxMinMemory``)."""

MINIMUM_DISK: Final = 1024**2
"""Bytes. Whoever writes less forgot the unit; and to Kubernetes a limit of 0 is none."""

UNLIMITED: Final = -1
"""memorySwap without a limit."""

_MOST: Final = 2**63 - 1
"""What an engine counts bytes in is a signed 64-bit number."""

_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)([bkmgt]|[kmgt]i)?", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def memory_bytes(text: str) -> int:
    """Return the bytes in a text like ``512m``, ``0.5g`` or ``2Gi``.

    All units are powers of 1024, as Docker has it. A fraction of a byte is cut off.
    ValueError: not a size, or more than an engine can count.
    """
    if (match := _SIZE.fullmatch(text)) is None:
        raise ValueError(f"{text!r} is not a size like 512m or 2g")
    number, unit = match.groups(default="")
    power = _POWERS[unit.lower().removesuffix("i")]
    size = int(Fraction(number) * 1024**power)
    if size > _MOST:
        raise ValueError(f"{text!r} is more than an engine can count")
    return size


def swap_bytes(text: str) -> int:
    """Return the bytes of a memorySwap, where ``-1`` is :data:`UNLIMITED`.

    ValueError as :func:`memory_bytes`.
    """
    return UNLIMITED if text == str(UNLIMITED) else memory_bytes(text)


def milli_cpus(cores: float) -> int:
    """Return thousandths of a core. Finer parts are cut off, so that the result is never above what was said.

    The float is taken for the shortest decimal that it prints as, which is what the user wrote.
    """
    return int(Decimal(repr(cores)) * 1000)
