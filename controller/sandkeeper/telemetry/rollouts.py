"""How far rollouts are, read from memory when somebody scrapes."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["RolloutMetrics"]

_MOST = 100
"""Policies that are told apart; whoever may write policies could otherwise make any number of time series."""
_OTHER = "other"

Counts = Mapping[str, int]
"""By state: total, current, drifted, replacing, replaced, blocked."""


class RolloutMetrics(Collector):
    """``sandkeeper_rollout_runtimes`` and ``sandkeeper_removals_forbidden``."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        read: Callable[[], Iterable[tuple[str, Counts]]],
        forbidden: bool,
    ) -> None:
        self._read = read
        self._forbidden = forbidden
        self._policies: set[str] = set()
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Tell the names, without which the registry would read the values to learn them."""
        return [_runtimes(), _forbidden()]

    def collect(self) -> Iterable[Metric]:
        """Read the counts: those of policies of one name, in several namespaces, are added up."""
        sums: dict[tuple[str, str], int] = {}
        for policy, counts in self._read():
            for state, count in counts.items():
                label = self._label(policy), state
                sums[label] = sums.get(label, 0) + count
        runtimes = _runtimes()
        for labels, count in sums.items():
            runtimes.add_metric(labels, count)
        forbidden = _forbidden()
        forbidden.add_metric([], self._forbidden)
        return [runtimes, forbidden]

    def _label(self, policy: str) -> str:
        if policy not in self._policies and len(self._policies) < _MOST:
            self._policies.add(policy)
        return policy if policy in self._policies else _OTHER


def _runtimes() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "sandkeeper_rollout_runtimes",
        "Runtimes under a policy, by how they stand to what it says now. Told by whoever leads.",
        labels=("policy", "state"),
    )


def _forbidden() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "sandkeeper_removals_forbidden", "1 where the operator's configuration forbids removals."
    )
