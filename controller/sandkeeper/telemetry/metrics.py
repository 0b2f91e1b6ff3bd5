"""The operator's own counters. Labels are bounded: verbs, enum reasons, backends; never a name or a UID."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Every metric of one operator process, on a registry of its own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.api_requests = Counter(
            "sandkeeper_api_requests",
            "Requests to the Kubernetes API.",
            ("verb", "resource", "code"),
            registry=registry,
        )
        self.effects = Counter(
            "sandkeeper_effects",
            "What was done to runtimes.",
            ("effect", "backend", "result"),
            registry=registry,
        )
        self.passes = Counter(
            "sandkeeper_passes",
            "Passes over a key, by the rule of life that settled them.",
            ("rule",),
            registry=registry,
        )
        self.pass_seconds = Histogram(
            "sandkeeper_pass_seconds",
            "Duration of one pass over a key.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.queue_depth = Gauge("sandkeeper_queue_depth", "Keys that wait for a pass.", registry=registry)
        self.leader = Gauge("sandkeeper_leader", "1 while this process holds the lease.", registry=registry)
        self.finalizers_released = Counter(
            "sandkeeper_finalizers_released_unproven",
            "Sandboxes let go although their engine could not say that the container is gone.",
            registry=registry,
        )
