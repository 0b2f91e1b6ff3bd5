"""What more of everything would cost: a model of queue and watch traffic, with the costs of one Sandbox as measured.

One operator is one event loop, and so one core. The model says how much of it watching and deciding take, how long a
key waits for its turn, what is held in memory and what a list weighs, where the Sandboxes are divided among several
operators (shards): either each of them is sent everything, keeps it, and works on what is its own, or the API server
sends each its own. It is deterministic; what it is made from is in :class:`Costs` and :class:`Work`.
"""

import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from bench.figures import Series

__all__ = [
    "Costs",
    "Load",
    "Wait",
    "Work",
    "by_label",
    "by_range",
    "fnv1a",
    "heaviest",
    "load",
    "sizes",
    "wait",
]

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_RANGE: Final = 1 << 64


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of one Sandbox that is a Pod. Seconds are of the processor."""

    new_seconds: float
    """Of all passes until it is Ready, and of the events meanwhile."""
    touch_seconds: float
    """Of one use: its event, and the pass that changes nothing."""
    foreign_seconds: float
    """Of an event that is read and not worked on, because another shard's Sandbox is meant."""
    new_events: float
    """That a watch tells until it is Ready: of the Sandbox and of its Pod."""
    object_bytes: float
    """Of the Sandbox and its Pod, as in a list."""
    metadata_bytes: float
    """Of both, as in a list of metadata."""
    memory_bytes: float
    """That the operator holds for it."""
    base_memory_bytes: float
    """That the operator needs without any."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What there is to do in the whole cluster."""

    sandboxes: int
    new_per_second: float
    touches_per_second: float


@dataclass(frozen=True, kw_only=True)
class Load:
    """Of one shard."""

    events_per_second: float
    processor: float
    """Part of one core; above 1 it falls behind."""
    memory_bytes: float
    start_bytes: float
    """Of the lists at the start."""
    resync_bytes: float
    """Of the lists that are made now and then, which carry metadata only."""


def load(costs: Costs, work: Work, *, shards: int, selected: bool) -> Load:
    """Return what one of ``shards`` has to bear; ``selected``: the API server sends each its own and nothing else."""
    events = work.new_per_second * costs.new_events + work.touches_per_second
    foreign = 0.0 if selected else events * (1 - 1 / shards)
    own = work.new_per_second * costs.new_seconds + work.touches_per_second * costs.touch_seconds
    listed = work.sandboxes / shards if selected else work.sandboxes
    return Load(
        events_per_second=events / shards + foreign,
        processor=own / shards + foreign * costs.foreign_seconds,
        memory_bytes=costs.base_memory_bytes + costs.memory_bytes * listed,
        start_bytes=listed * costs.object_bytes,
        resync_bytes=listed * costs.metadata_bytes,
    )


@dataclass(frozen=True, kw_only=True)
class Wait:
    """How long what arrives waits for its turn, in seconds."""

    mean: float
    p50: float
    p99: float


def wait(jobs: Sequence[tuple[float, float]], *, count: int, seed: int = 1) -> Wait | None:
    """Simulate one event loop with jobs of several kinds, each (how many a second, seconds that one takes).

    They arrive independently of each other, are done in turn, and each takes as long as all of its kind. None: more
    comes than can be done, so that the queue grows for as long as that lasts.
    """
    arrivals = sum(per_second for per_second, _ in jobs)
    if sum(per_second * seconds for per_second, seconds in jobs) >= 1:
        return None
    chance = random.Random(seed)  # noqa: S311 - a simulation
    kinds, weights = [seconds for _, seconds in jobs], [per_second for per_second, _ in jobs]
    waits, waited = [], 0.0
    for taken in chance.choices(kinds, weights, k=count):
        waits.append(waited)
        waited = max(0.0, waited + taken - chance.expovariate(arrivals))
    series = Series.of(waits)
    return Wait(mean=sum(waits) / count, p50=series.p50, p99=series.percentile(99))


def fnv1a(text: str) -> int:
    """Return the 64-bit hash by which an API server divides objects (shardRange)."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME % _RANGE
    return value


def by_range(text: str, shards: int) -> int:
    """Say into which of equal ranges of an API server's hashes a text falls.

    Texts that differ in their last letters only are close together: little of what comes last reaches the highest bits.
    """
    return fnv1a(text) * shards // _RANGE


def by_label(text: str, shards: int) -> int:
    """Say into which of equal ranges of a hash of our own a text falls; it would be written into a label."""
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8]) * shards // _RANGE


def sizes(sandboxes: int, namespaces: int) -> list[int]:
    """Divide Sandboxes among namespaces as unequally as towns are: the second largest has half of the largest."""
    weights = [1 / rank for rank in range(1, namespaces + 1)]
    bounds = [round(sandboxes * part / sum(weights)) for part in accumulate(weights)]
    return [high - low for low, high in zip([0, *bounds], bounds, strict=False)]


def heaviest(parts: Iterable[tuple[str, int]], shards: int, *, divide: Callable[[str, int], int]) -> float:
    """Return how many times its equal share the fullest shard has, of parts that each stay in one piece."""
    filled = [0] * shards
    for name, size in parts:
        filled[divide(name, shards)] += size
    return max(filled) * shards / sum(filled)
