"""One dashboard for each backend: the same questions to both, and to each what only it can answer."""

from collections.abc import Sequence
from typing import Final

from dashboards.panels import Board, Graph, Panel, Row
from dashboards.queries import at_most, per_minute, per_second, quantile, quantiles, runtimes

__all__ = ["DOCKER", "PODS"]


def _common(backend: str) -> Sequence[Row]:
    mine = f'backend="{backend}"'
    chosen = f'{mine}, policy=~"$policy"'

    def changed(change: str) -> str:
        return f'{chosen}, change="{change}"'

    return [
        Row(
            "Sandboxes",
            [
                Graph(
                    title="Runtimes by phase",
                    meaning="Each runtime once, however many Sandboxes share it.",
                    queries=(runtimes("phase", where=chosen),),
                    stacked=True,
                ),
                Graph(
                    title="Changes",
                    meaning="What became of runtimes, a minute.",
                    queries=(per_minute("churn_total", "change", where=chosen),),
                    unit="cpm",
                ),
                Graph(
                    title="Time to Ready",
                    meaning="From when a runtime was wanted until its Sandbox said Ready. Of all policies.",
                    queries=quantiles("time_to_ready_seconds", where=mine),
                    unit="s",
                ),
                Graph(
                    title="Failed, by reason",
                    meaning="Runtimes that died or could not be made. Each is told once, not with every try.",
                    queries=(per_minute("churn_total", "reason", where=changed("failed")),),
                    unit="cpm",
                ),
                Graph(
                    title="Repaired, by reason",
                    meaning="By what the last one died of.",
                    queries=(per_minute("churn_total", "reason", where=changed("repaired")),),
                    unit="cpm",
                ),
                Graph(
                    title="Steps by result",
                    meaning="What was done to runtimes, each try of it. Of all policies.",
                    queries=(per_minute("effects_total", "effect", "result", where=mine),),
                    unit="cpm",
                ),
            ],
        )
    ]


_POD_RESOURCES: Final = "pods|pods/.*|networkpolicies|persistentvolumeclaims|nodes"

_OF_PODS: Final[Sequence[Panel]] = [
    Graph(
        title="Requests about Pods",
        meaning="To the Kubernetes API: Pods, their NetworkPolicies and claims, the nodes that they run on.",
        queries=(
            per_second("api_requests_total", "verb", "resource", where=f'resource=~"{_POD_RESOURCES}"'),
        ),
        unit="reqps",
        width=12,
    ),
    Graph(
        title="Their answers",
        meaning="404: it is gone already. 409: the name is taken, or a quota changed. 422: the Pod is not valid.",
        queries=(per_second("api_requests_total", "code", where=f'resource=~"{_POD_RESOURCES}"'),),
        unit="reqps",
        width=12,
    ),
    Graph(
        title="Age of watches",
        meaning="Since what is watched for Pods was last heard of. A bookmark comes every minute.",
        queries=(at_most("watch_age_seconds", "resource", where=f'resource=~"{_POD_RESOURCES}"'),),
        unit="s",
        width=12,
    ),
    Graph(
        title="Latency of the API, 95th percentile",
        meaning="By verb; of all resources.",
        queries=(quantile(0.95, "api_request_duration_seconds", "verb"),),
        unit="s",
        width=12,
    ),
]

_OF_THE_ENGINE: Final[Sequence[Panel]] = [
    Graph(
        title="Engine answers",
        meaning="1 while it does.",
        queries=(at_most("engine_up", "instance"),),
    ),
    Graph(
        title="Containers",
        meaning="Of this installation. docker.maxContainers says how many there may be.",
        queries=(at_most("engine_containers", "instance"),),
    ),
    Graph(
        title="Calls by result",
        meaning="Refused: the caller's fault. Error: the engine's. Unanswered: it hangs or is gone.",
        queries=(per_second("engine_requests_total", "result"),),
        unit="reqps",
    ),
    Graph(
        title="Calls by operation",
        meaning="What the engine is asked for.",
        queries=(per_second("engine_requests_total", "operation"),),
        unit="reqps",
    ),
    Graph(
        title="Latency, median",
        meaning="Until the engine began to answer, or it was given up.",
        queries=(quantile(0.5, "engine_request_duration_seconds", "operation"),),
        unit="s",
    ),
    Graph(
        title="Latency, 95th percentile",
        meaning="Until the engine began to answer, or it was given up. After 30 s a call counts as hanging.",
        queries=(quantile(0.95, "engine_request_duration_seconds", "operation"),),
        unit="s",
    ),
]

PODS: Final = Board(
    name="pods",
    title="Pods",
    meaning="Sandboxes that are Pods: what becomes of them, and what the API server is asked for.",
    rows=[*_common("pod"), Row("The API server", _OF_PODS)],
)

DOCKER: Final = Board(
    name="docker",
    title="Docker",
    meaning="Sandboxes that are Docker containers: what becomes of them, and how the engine fares.",
    rows=[*_common("docker"), Row("The engine", _OF_THE_ENGINE)],
)
