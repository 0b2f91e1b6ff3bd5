"""The metrics of one operator process, made from the catalogue."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from sandkeeper.telemetry import catalogue
from sandkeeper.telemetry.catalogue import Family
from sandkeeper.telemetry.memory import Capped, FromMemory, Reading

__all__ = ["EngineMetrics", "Labelled", "Metrics"]

_MOST_POLICIES: Final = 100

disable_created_metrics()  # type: ignore[no-untyped-call] # it has none; a series more for each, that nobody asks for

M = TypeVar("M", Counter, Gauge, Histogram)


class Labelled(dict[tuple[str, ...], M], Generic[M]):
    """The children of a metric by the values of its labels, in their order. Found like any item of a dict: fast."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self._child: Callable[..., M] = metric.labels

    def __missing__(self, labels: tuple[str, ...]) -> M:
        child = self[labels] = self._child(*labels)
        return child


class Metrics:
    """Every metric of one operator process, on a registry of its own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.policies = Capped(_MOST_POLICIES)
        """Names of policies, as label values."""

        self.reconciles = _counters(registry, catalogue.RECONCILES)
        self.reconcile_seconds = _histogram(registry, catalogue.RECONCILE_SECONDS)
        self.queue_seconds = _histogram(registry, catalogue.QUEUE_SECONDS)
        self.retries = _counter(registry, catalogue.QUEUE_RETRIES)
        self.deadline_lag = _histogram(registry, catalogue.DEADLINE_LAG)

        self.time_to_ready = _histograms(registry, catalogue.TIME_TO_READY)
        self.churn = _counters(registry, catalogue.CHURN)
        self.hot_window = _counters(registry, catalogue.HOT_WINDOW)
        self.effects = _counters(registry, catalogue.EFFECTS)
        self.finalizers_released = _counter(registry, catalogue.RELEASED)

        self.api_requests = _counters(registry, catalogue.API_REQUESTS)
        self.api_seconds = _histograms(registry, catalogue.API_SECONDS)
        self.events_dropped = _counter(registry, catalogue.EVENTS_DROPPED)

        self.leader = _gauge(registry, catalogue.LEADER)
        self.build = Labelled(_gauge(registry, catalogue.BUILD_INFO))

    def collect(self, family: Family, read: Reading) -> None:
        """Have a family read from memory at each scrape."""
        self.registry.register(FromMemory(family, read))

    def collect_one(self, family: Family, read: Callable[[], float | None]) -> None:
        """Have a family without labels read from memory at each scrape; None: there is no value now."""

        def one() -> dict[tuple[str, ...], float]:
            value = read()
            return {} if value is None else {(): value}

        self.collect(family, one)


class EngineMetrics:
    """What is only there where a Docker engine is served. Threads count here, too."""

    def __init__(self, metrics: Metrics) -> None:
        self.seconds = _histograms(metrics.registry, catalogue.ENGINE_SECONDS)
        self.requests = _counters(metrics.registry, catalogue.ENGINE_REQUESTS)


def _counter(registry: CollectorRegistry, family: Family) -> Counter:
    return Counter(family.name, family.meaning, tuple(family.labels), registry=registry)


def _counters(registry: CollectorRegistry, family: Family) -> Labelled[Counter]:
    return Labelled(_counter(registry, family))


def _gauge(registry: CollectorRegistry, family: Family) -> Gauge:
    return Gauge(family.name, family.meaning, tuple(family.labels), registry=registry)


def _histogram(registry: CollectorRegistry, family: Family) -> Histogram:
    return Histogram(
        family.name, family.meaning, tuple(family.labels), registry=registry, buckets=family.buckets
    )


def _histograms(registry: CollectorRegistry, family: Family) -> Labelled[Histogram]:
    return Labelled(_histogram(registry, family))
