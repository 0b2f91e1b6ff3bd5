"""What is read from memory when somebody scrapes, instead of being kept up to date all the time."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sandkeeper.telemetry.catalogue import Family, Kind

__all__ = ["Capped", "FromMemory", "Reading"]

Reading = Callable[[], Mapping[tuple[str, ...], float]]
"""Returns a value for each combination of labels, at once: it is called on the event loop."""


class FromMemory(Collector):
    """One family, whose values ``read`` returns at the moment of the scrape."""

    def __init__(self, family: Family, read: Reading) -> None:
        self._family = family
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """Tell the name; without this the registry would read the values to learn it, before there are any."""
        return [self._empty()]

    def collect(self) -> Iterable[Metric]:
        """Read the values."""
        metric = self._empty()
        for labels, value in self._read().items():
            metric.add_metric(labels, value)
        return [metric]

    def _empty(self) -> CounterMetricFamily | GaugeMetricFamily:
        make = CounterMetricFamily if self._family.kind is Kind.COUNTER else GaugeMetricFamily
        return make(self._family.name, self._family.meaning, labels=tuple(self._family.labels))


class Capped:
    """Names that become label values: the first so many that are admitted, and ``other`` for all that come later.

    Whoever may write objects could otherwise make a time series of each name that comes to mind.
    """

    OTHER = "other"

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: set[str] = set()

    def label(self, name: str, *, admit: bool = True) -> str:
        """Return the name itself, or ``other``. ``admit`` False: only if it was admitted before."""
        if name in self._names:
            return name
        if not admit or len(self._names) >= self._most:
            return self.OTHER
        self._names.add(name)
        return name
