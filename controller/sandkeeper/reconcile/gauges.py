"""What is told from memory when somebody scrapes: the queue, the runtimes, the clock, the watches."""

from collections.abc import Callable
from importlib.metadata import version
from platform import python_version

from sandkeeper import __version__
from sandkeeper.cluster.api import KubeApi
from sandkeeper.cluster.connection import Connection
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.reconcile.deadlines import Deadlines
from sandkeeper.reconcile.queue import KeyedQueue
from sandkeeper.reconcile.rollouts import Rollouts
from sandkeeper.reconcile.tally import Tally
from sandkeeper.telemetry import catalogue
from sandkeeper.telemetry.metrics import Metrics

__all__ = ["tell_of_cluster", "tell_of_keys", "tell_of_process", "tell_of_rollouts"]


def tell_of_keys(
    metrics: Metrics,
    *,
    queue: KeyedQueue[RuntimeKey],
    deadlines: Deadlines[RuntimeKey],
    tally: Tally,
    workers: int,
) -> None:
    """Tell what is to be looked at, what is being looked at, and how what was looked at fares."""
    metrics.collect_one(catalogue.QUEUE_DEPTH, lambda: len(queue))
    metrics.collect_one(catalogue.QUEUE_ADDS, lambda: queue.added)
    metrics.collect_one(catalogue.LONGEST_RUNNING, lambda: max(queue.unfinished(), default=0.0))
    metrics.collect_one(catalogue.UNFINISHED, lambda: sum(queue.unfinished()))
    metrics.collect_one(catalogue.ACTIVE_WORKERS, lambda: queue.working)
    metrics.collect_one(catalogue.MAX_WORKERS, lambda: workers)
    metrics.collect_one(catalogue.DEADLINES, lambda: len(deadlines))
    metrics.collect(catalogue.RUNTIMES, lambda: tally.counts)


def tell_of_cluster(metrics: Metrics, *, api: KubeApi, connection: Connection) -> None:
    """Tell how the API server is heard."""
    metrics.collect_one(catalogue.CLOCK_OFFSET, lambda: api.clock.offset)
    metrics.collect_one(catalogue.CLOCK_TRUSTED, lambda: api.clock.is_trusted)
    metrics.collect(
        catalogue.WATCH_AGE, lambda: {(resource,): age for resource, age in connection.watch_ages().items()}
    )


def tell_of_rollouts(metrics: Metrics, *, rollouts: Rollouts, forbidden: bool) -> None:
    """Tell how far each policy's runtimes are, if they may be removed at all."""

    def read() -> dict[tuple[str, ...], float]:
        sums: dict[tuple[str, ...], float] = {}
        for policy, states in rollouts.by_state():
            for state, count in states.items():
                labels = metrics.policies.label(policy), state
                sums[labels] = sums.get(labels, 0) + count
        return sums

    metrics.collect(catalogue.ROLLOUT_RUNTIMES, read)
    metrics.collect_one(catalogue.REMOVALS_FORBIDDEN, lambda: forbidden)


def tell_of_process(metrics: Metrics, *, slots: Callable[[], int]) -> None:
    """Tell what runs, and how much it looks after."""
    metrics.collect_one(catalogue.SHARD_SLOTS, slots)
    metrics.build[__version__, python_version(), version("kopf")].set(1)
