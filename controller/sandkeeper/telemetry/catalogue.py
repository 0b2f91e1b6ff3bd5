"""Every metric there is, said once: what is exposed and ``docs/reference/metrics.md`` are both made from this.

Units are base units. Labels are bounded: enums, verbs, backends, and the names of policies, of which the first hundred
are told apart; never the name or the UID of a Sandbox. Names begin with ``sandkeeper_``, but for those that every
process has by Prometheus' own conventions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["CATALOGUE", "Family", "Kind"]

_PASS_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_REQUEST_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_READY_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_LAG_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)

_POLICY: Final = "the policy's name; `other` beyond the first hundred"
_BACKEND: Final = "`docker`, `pod`; `none` where nothing is known of a backend"
_REASON: Final = "a [reason](reasons.md)"


class Kind(StrEnum):
    """The types that Prometheus knows."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, kw_only=True)
class Family:
    """One metric. ``labels`` says of each label, in the order in which it is given, which values it has."""

    name: str
    """As it is queried; of a histogram without ``_bucket``, ``_sum`` and ``_count``."""
    kind: Kind
    meaning: str
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    buckets: tuple[float, ...] = ()


def _counter(name: str, meaning: str, **labels: str) -> Family:
    return Family(name=f"sandkeeper_{name}", kind=Kind.COUNTER, meaning=meaning, labels=labels)


def _gauge(name: str, meaning: str, **labels: str) -> Family:
    return Family(name=f"sandkeeper_{name}", kind=Kind.GAUGE, meaning=meaning, labels=labels)


def _histogram(name: str, meaning: str, buckets: tuple[float, ...], **labels: str) -> Family:
    return Family(
        name=f"sandkeeper_{name}", kind=Kind.HISTOGRAM, meaning=meaning, labels=labels, buckets=buckets
    )


# --- passes and their queue -------------------------------------------------------------------------------------------

RECONCILES: Final = _counter(
    "reconcile_total",
    "Passes over a key, by how they ended and by the rule of life that settled them.",
    result="`success`, `error`, `conflict` (somebody wrote meanwhile), `not_leader`",
    rule="the rule's name, such as `reuse`; empty where the pass came to no end",
)
RECONCILE_SECONDS: Final = _histogram(
    "reconcile_time_seconds",
    "Duration of one pass over a key. Where traces are sent, its exemplars name them.",
    _PASS_SECONDS,
)
ACTIVE_WORKERS: Final = _gauge("active_workers", "Keys that are being worked on.")
MAX_WORKERS: Final = _gauge("max_concurrent_reconciles", "Most keys that are worked on at once.")
QUEUE_DEPTH: Final = _gauge("workqueue_depth", "Keys that wait for a pass.")
QUEUE_ADDS: Final = _counter(
    "workqueue_adds_total", "Keys that were put into the queue; one that waits already is not put in again."
)
QUEUE_SECONDS: Final = _histogram(
    "workqueue_queue_duration_seconds", "How long a key waited for its pass.", _PASS_SECONDS
)
QUEUE_RETRIES: Final = _counter(
    "workqueue_retries_total", "Passes that are tried again, for they failed or met with a conflict."
)
LONGEST_RUNNING: Final = _gauge(
    "workqueue_longest_running_processor_seconds", "How long the longest of the passes under way has taken."
)
UNFINISHED: Final = _gauge(
    "workqueue_unfinished_work_seconds", "How long all passes under way have taken, summed."
)
DEADLINES: Final = _gauge("deadlines", "Keys that are to be looked at when a time has come.")
DEADLINE_LAG: Final = _histogram(
    "deadline_lag_seconds", "How long after its time a deadline was told.", _LAG_SECONDS
)

# --- runtimes and what becomes of them --------------------------------------------------------------------------------

RUNTIMES: Final = _gauge(
    "runtimes",
    "Runtimes that Sandboxes claim, each once however many share it, by the phase that they are reported in. What is "
    "Pruned, or not made yet, counts too. From memory, as of the scrape.",
    backend=_BACKEND,
    phase="a [phase](sandbox.md#phases)",
    policy=_POLICY,
)
TIME_TO_READY: Final = _histogram(
    "time_to_ready_seconds",
    "From when this process first saw that a runtime is wanted and not Ready until Ready=True was written: of new "
    "ones, of those that replace another, after a death, after a prune. Not told of what another process began.",
    _READY_SECONDS,
    backend=_BACKEND,
)
CHURN: Final = _counter(
    "churn_total",
    "What became of runtimes; each change is counted once, however many Sandboxes share the runtime and however often "
    "it was tried. `created`: a new one is Ready, in nobody's place. `reused`: a use, or one more Sandbox, found it "
    "running. `started`: a stopped one was started. `stopped`: as spec.state says. `drifted`: it is not what is wanted "
    "any more. `replaced`: it was removed to make way for what is wanted. `pruned`: nobody used it, or it was too old. "
    "`repaired`: one that died has a Ready successor. `failed`: it died, a step failed, or what is wanted cannot be "
    "made; again only for another reason, or once it was Ready in between.",
    change="`created`, `reused`, `started`, `stopped`, `drifted`, `replaced`, `pruned`, `repaired`, `failed`",
    reason="`created`: `Idle`, `TooOld` or `Stopped` where it was that before; `drifted`, `replaced`: in what it "
    "differs, such as `ConfigChanged`; `pruned`: `idle` or `age`; `repaired`: of what the last one died, empty where "
    f"that is not known; `failed`: {_REASON}; else empty",
    backend=_BACKEND,
    policy=_POLICY,
)
HOT_WINDOW: Final = _counter(
    "hot_window_decisions_total",
    "What the hot window decided about a runtime that was to be replaced or pruned. That it is kept is counted once "
    "for as long as it is.",
    decision="`kept_hot`: it is in use; `kept_held`: somebody holds it; `replaced_cold`, `pruned_cold`",
)
ROLLOUT_RUNTIMES: Final = _gauge(
    "rollout_runtimes",
    "Runtimes under a policy, by how they stand to what it says now. What is stopped or pruned is not among them. "
    "Policies of one name in several namespaces are added up. From memory, of whoever leads.",
    policy=_POLICY,
    state="`total`; `current`; `drifted`: to be replaced; `replacing`: away for that; `replaced`: of the current ones, "
    "since the rollout began; `blocked`: their replacement failed",
)
REMOVALS_FORBIDDEN: Final = _gauge(
    "removals_forbidden", "1 where the operator's configuration forbids removals (`removals: forbidden`)."
)
EFFECTS: Final = _counter(
    "effects_total",
    "What was done to runtimes, each try of it.",
    effect="`Create`, `Preflight`, `Remove`, `Setup`, `Start`, `Stop`",
    backend="`docker`, `pod`; `none` where nothing is wanted any more",
    result=f"`ok`, or {_REASON}",
)
RELEASED: Final = _counter(
    "finalizers_released_unproven_total",
    "Sandboxes let go although their engine could not say that the container is gone.",
)

# --- the API server ---------------------------------------------------------------------------------------------------

API_REQUESTS: Final = _counter(
    "api_requests_total",
    "Requests to the Kubernetes API, but for watches and kopf's lists.",
    verb="the method: `GET`, `POST`, `PUT`, `PATCH`, `DELETE`",
    resource="such as `sandboxes/status`; `?dryRun` where nothing was to be written",
    code="the HTTP status; `0`: there was no answer",
)
API_SECONDS: Final = _histogram(
    "api_request_duration_seconds",
    "How long the Kubernetes API took for one request, until it was answered or given up.",
    _REQUEST_SECONDS,
    verb="as above",
)
WATCH_AGE: Final = _gauge(
    "watch_age_seconds",
    "Since a watch of the resource last heard anything: an event, or the bookmark that comes every minute. Of several "
    "namespaces, the one that heard nothing for longest.",
    resource="such as `sandboxes`",
)
EVENTS_DROPPED: Final = _counter("events_dropped_total", "Events that were not posted, for too many waited.")
CLOCK_OFFSET: Final = _gauge("clock_offset_seconds", "How far our clock is ahead of the API server's.")
CLOCK_TRUSTED: Final = _gauge(
    "clock_trusted",
    "1 while our clock agrees with the API server's, so that what time demands may be removed.",
)

# --- who leads --------------------------------------------------------------------------------------------------------

LEADER: Final = _gauge("leader", "1 while this process holds the lease.")
SHARD_SLOTS: Final = _gauge("shard_slots", "Slots of keys that this process looks after; of 64.")
BUILD_INFO: Final = _gauge(
    "build_info",
    "Always 1.",
    version="of Sandkeeper",
    python="of Python",
    kopf="of kopf",
)

# --- the Docker engine ------------------------------------------------------------------------------------------------

ENGINE_UP: Final = _gauge("engine_up", "1 while the Docker engine answers. Only where Docker is served.")
ENGINE_SECONDS: Final = _histogram(
    "engine_request_duration_seconds",
    "How long the Docker engine took until it began to answer a request, or until that was given up.",
    _REQUEST_SECONDS,
    operation="such as `container_create`, `exec_start`, `ping`; `other`",
)
ENGINE_REQUESTS: Final = _counter(
    "engine_requests_total",
    "Requests to the Docker engine.",
    operation="as above",
    result="`success`; `not_found`; `refused`: any other answer that it is the caller's fault; `error`: the engine's; "
    "`unanswered`",
)
ENGINE_CONTAINERS: Final = _gauge(
    "engine_containers", "Containers of this installation on the Docker engine, as its events tell."
)

# --- the process: as prometheus-client names and words it -----------------------------------------------------------

PROCESS: Final = "process_"
"""What their names begin with."""

PROCESS_CPU: Final = Family(
    name=f"{PROCESS}cpu_seconds_total",
    kind=Kind.COUNTER,
    meaning="Total user and system CPU time spent in seconds.",
)
PROCESS_RESIDENT: Final = Family(
    name=f"{PROCESS}resident_memory_bytes", kind=Kind.GAUGE, meaning="Resident memory size in bytes."
)
PROCESS_VIRTUAL: Final = Family(
    name=f"{PROCESS}virtual_memory_bytes", kind=Kind.GAUGE, meaning="Virtual memory size in bytes."
)
PROCESS_START: Final = Family(
    name=f"{PROCESS}start_time_seconds",
    kind=Kind.GAUGE,
    meaning="Start time of the process since unix epoch in seconds.",
)
PROCESS_DESCRIPTORS: Final = Family(
    name=f"{PROCESS}open_fds", kind=Kind.GAUGE, meaning="Number of open file descriptors."
)
PROCESS_MOST_DESCRIPTORS: Final = Family(
    name=f"{PROCESS}max_fds", kind=Kind.GAUGE, meaning="Maximum number of open file descriptors."
)

CATALOGUE: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Family))
"""All of them, in the order above."""
