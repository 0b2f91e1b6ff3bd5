"""How the operator fares: who leads, whether passes keep up, how the API server answers."""

from typing import Final

from dashboards.panels import Board, Figure, Graph, Row
from dashboards.queries import (
    Query,
    at_least_none,
    at_most,
    per_minute,
    per_second,
    quantile,
    quantiles,
    selected,
    summed,
)

__all__ = ["HEALTH"]

HEALTH: Final = Board(
    name="operator",
    title="Operator",
    meaning="Whether the operator is well: who leads, whether passes keep up, how the API server answers.",
    has_policies=False,
    rows=[
        Row(
            "Replicas",
            [
                Figure(
                    title="Replicas",
                    meaning="Operators that Prometheus sees.",
                    queries=(Query(f"count({selected('build_info')})", "replicas"),),
                ),
                Figure(
                    title="Slots looked after",
                    meaning="64 is all. Fewer: nobody looks after some Sandboxes. More: two replicas do the same.",
                    queries=(summed("shard_slots", legend="slots"),),
                ),
                Figure(
                    title="Waiting",
                    meaning="Keys that wait for a pass, with those who work.",
                    queries=(
                        at_least_none(
                            Query(
                                f"sum({selected('workqueue_depth')} and {selected('shard_slots')} > 0)",
                                "keys",
                            )
                        ),
                    ),
                ),
                Figure(
                    title="Longest pass under way",
                    meaning="Milliseconds are usual; a pass does not wait for setupCommands.",
                    queries=(at_most("workqueue_longest_running_processor_seconds", legend="longest"),),
                    unit="s",
                ),
                Figure(
                    title="Oldest news",
                    meaning="Of the watch that has heard nothing for longest. Each hears of something every minute.",
                    queries=(at_most("watch_age_seconds", legend="age"),),
                    unit="s",
                ),
                Figure(
                    title="Let go unproven",
                    meaning="Sandboxes that were deleted while their engine could not say that the container is "
                    "gone, in all the time that is shown.",
                    queries=(
                        Query(
                            f"sum(increase({selected('finalizers_released_unproven_total')}[$__range]))",
                            "Sandboxes",
                        ),
                    ),
                ),
                Graph(
                    title="Leader",
                    meaning="1 for the replica that holds the lease.",
                    queries=(at_most("leader", "instance"),),
                ),
                Graph(
                    title="Slots by replica",
                    meaning="Of 64. Without sharding the leader has all.",
                    queries=(summed("shard_slots", "instance"),),
                    stacked=True,
                ),
                Graph(
                    title="Versions",
                    meaning="Replicas by version; more than one only while an upgrade goes on.",
                    queries=(
                        Query(
                            f"count by (version, kopf, python) ({selected('build_info')})",
                            "{{version}}, kopf {{kopf}}, Python {{python}}",
                        ),
                    ),
                ),
            ],
        ),
        Row(
            "Passes",
            [
                Graph(
                    title="Passes by result",
                    meaning="Conflict: somebody wrote meanwhile. Each is tried again; errors later and later.",
                    queries=(per_second("reconcile_total", "result"),),
                    unit="ops",
                ),
                Graph(
                    title="Passes by rule",
                    meaning="Which rule of life settled them.",
                    queries=(per_second("reconcile_total", "rule", where='rule!=""'),),
                    unit="ops",
                ),
                Graph(
                    title="Duration of a pass",
                    meaning="From taking a key from the queue to its end.",
                    queries=quantiles("reconcile_time_seconds"),
                    unit="s",
                ),
                Graph(
                    title="Keys that wait",
                    meaning="Each at most once. Those of a standby wait until it leads.",
                    queries=(summed("workqueue_depth", "instance"),),
                ),
                Graph(
                    title="Wait for a pass",
                    meaning="How long keys were in the queue.",
                    queries=quantiles("workqueue_queue_duration_seconds"),
                    unit="s",
                ),
                Graph(
                    title="Workers",
                    meaning="Keys that are worked on, and how many may be at most.",
                    queries=(
                        summed("active_workers", legend="busy"),
                        at_most("max_concurrent_reconciles", legend="most of one replica"),
                    ),
                ),
                Graph(
                    title="Unfinished work",
                    meaning="How long the passes under way have taken: the longest, and all together.",
                    queries=(
                        at_most("workqueue_longest_running_processor_seconds", legend="longest"),
                        summed("workqueue_unfinished_work_seconds", legend="all"),
                    ),
                    unit="s",
                ),
                Graph(
                    title="Keys queued and tried again",
                    meaning="What is tried again failed, or met with a conflict.",
                    queries=(
                        per_second("workqueue_adds_total", legend="queued"),
                        per_second("workqueue_retries_total", legend="tried again"),
                    ),
                    unit="ops",
                ),
                Graph(
                    title="Steps by result",
                    meaning="What was done to runtimes, each try of it.",
                    queries=(per_minute("effects_total", "effect", "result"),),
                    unit="cpm",
                ),
            ],
        ),
        Row(
            "Time",
            [
                Graph(
                    title="Deadlines",
                    meaning="Keys that are to be looked at when a time has come.",
                    queries=(summed("deadlines", "instance"),),
                ),
                Graph(
                    title="Lag of deadlines",
                    meaning="How long after its time a deadline was told.",
                    queries=quantiles("deadline_lag_seconds"),
                    unit="s",
                ),
                Graph(
                    title="Clock",
                    meaning="How far it is ahead of the API server's. Beyond 30 s nothing is pruned or replaced.",
                    may_be_negative=True,
                    queries=(
                        at_most("clock_offset_seconds", "instance", legend="{{instance}} ahead by"),
                        at_most("clock_trusted", "instance", legend="{{instance}} trusted (1: yes)"),
                    ),
                ),
            ],
        ),
        Row(
            "The API server",
            [
                Graph(
                    title="Requests by code",
                    meaning="404 and 409 are part of the life. 429 asks to slow down; 0: there was no answer.",
                    queries=(per_second("api_requests_total", "code"),),
                    unit="reqps",
                ),
                Graph(
                    title="Writes by resource",
                    meaning="Writes are what an operator costs the cluster. Leases and Events are among them.",
                    queries=(per_second("api_requests_total", "verb", "resource", where='verb!="GET"'),),
                    unit="reqps",
                ),
                Graph(
                    title="Latency by verb, 95th percentile",
                    meaning="Until it was answered or given up.",
                    queries=(quantile(0.95, "api_request_duration_seconds", "verb"),),
                    unit="s",
                ),
                Graph(
                    title="Age of watches",
                    meaning="Since each last heard anything. A bookmark comes every minute.",
                    queries=(at_most("watch_age_seconds", "resource"),),
                    unit="s",
                    width=12,
                ),
                Graph(
                    title="Events given up",
                    meaning="Not posted, for too many waited. What they would have told is in conditions and the log.",
                    queries=(per_minute("events_dropped_total", legend="given up"),),
                    unit="cpm",
                    width=12,
                ),
            ],
        ),
        Row(
            "The process",
            [
                Graph(
                    title="Processor",
                    meaning="Cores in use. One process cannot use more than one for long.",
                    queries=(per_second("process_cpu_seconds_total", "instance"),),
                    width=6,
                ),
                Graph(
                    title="Memory",
                    meaning="Resident. It grows with the Sandboxes of the cluster, and with nothing else.",
                    queries=(at_most("process_resident_memory_bytes", "instance"),),
                    unit="bytes",
                    width=6,
                ),
                Graph(
                    title="File descriptors",
                    meaning="Open ones, of those allowed. Without any, nobody can be spoken to.",
                    queries=(
                        Query(
                            f"max by (instance) ({selected('process_open_fds')} / {selected('process_max_fds')})",
                            "{{instance}}",
                        ),
                    ),
                    unit="percentunit",
                    width=6,
                ),
                Graph(
                    title="Age",
                    meaning="Since the process began. Where it falls to nothing, a replica was started anew.",
                    queries=(
                        Query(
                            f"time() - max by (instance) ({selected('process_start_time_seconds')})",
                            "{{instance}}",
                        ),
                    ),
                    unit="s",
                    width=6,
                ),
            ],
        ),
    ],
)
