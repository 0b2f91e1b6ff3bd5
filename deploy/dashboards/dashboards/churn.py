"""What becomes of sandboxes: who creates, reuses, replaces, prunes, and why."""

from typing import Final

from dashboards.panels import Board, Figure, Graph, Ranking, Row
from dashboards.queries import (
    Query,
    at_least_none,
    at_most,
    counted,
    most,
    per_minute,
    quantile,
    rollouts,
    runtimes,
)

__all__ = ["CHURN"]

_POLICY: Final = 'policy=~"$policy"'
_COMING: Final = "Pending|Creating|Setup|Replacing"


def _runtimes(phases: str) -> tuple[Query, ...]:
    return (at_least_none(runtimes(where=f'{_POLICY}, phase=~"{phases}"', legend="runtimes")),)


def _changed(change: str, *by: str) -> tuple[Query, ...]:
    return (per_minute("churn_total", *by, where=f'{_POLICY}, change=~"{change}"'),)


CHURN: Final = Board(
    name="churn",
    title="Churn",
    meaning="Who creates, reuses, replaces and prunes sandboxes, and why.",
    rows=[
        Row(
            "How it stands",
            [
                Figure(
                    title="Ready",
                    meaning="Runtimes that can be used now.",
                    queries=_runtimes("Ready"),
                    width=6,
                ),
                Figure(
                    title="On their way",
                    meaning="Runtimes that are being made, set up or replaced.",
                    queries=_runtimes(_COMING),
                    width=6,
                ),
                Figure(
                    title="Failed or unknown",
                    meaning="Runtimes that cannot be made, and those whose node or engine does not answer.",
                    queries=_runtimes("Failed|Unknown"),
                    width=6,
                ),
                Figure(
                    title="Pruned",
                    meaning="Runtimes that nobody used; a touch brings each back.",
                    queries=_runtimes("Pruned"),
                    width=6,
                ),
                Graph(
                    title="Runtimes by phase",
                    meaning="Each runtime once, however many Sandboxes share it.",
                    queries=(runtimes("phase", where=_POLICY),),
                    width=12,
                    stacked=True,
                ),
                Graph(
                    title="Runtimes by policy",
                    meaning="The ten policies with the most runtimes, but for those that are pruned or stopped.",
                    queries=(most(10, runtimes("policy", where=f'{_POLICY}, phase!~"Pruned|Stopped"')),),
                    width=12,
                ),
            ],
        ),
        Row(
            "What changes, and why",
            [
                Graph(
                    title="Changes",
                    meaning="Everything that became of runtimes, a minute.",
                    queries=_changed(".+", "change"),
                    unit="cpm",
                    width=12,
                ),
                Graph(
                    title="New, reused or started again",
                    meaning="How those who came were served, a minute. Reused: it ran already.",
                    queries=_changed("created|reused|started", "change"),
                    unit="cpm",
                    width=12,
                ),
                Graph(
                    title="Drifted and replaced, by reason",
                    meaning="Drifted: what runs is not what is wanted any more. It is replaced when it is cold.",
                    queries=_changed("drifted|replaced", "change", "reason"),
                    unit="cpm",
                    width=12,
                ),
                Graph(
                    title="Pruned, by reason",
                    meaning="Idle: nobody used it for prune.idleSeconds. Age: it lived for prune.maxAgeSeconds.",
                    queries=_changed("pruned", "reason"),
                    unit="cpm",
                    width=12,
                ),
                Graph(
                    title="Repaired, by reason",
                    meaning="Runtimes that died and have a Ready successor, by what the last one died of.",
                    queries=_changed("repaired", "reason"),
                    unit="cpm",
                    width=12,
                ),
                Graph(
                    title="Failed, by reason",
                    meaning="Runtimes that died or could not be made. Each is told once, not with every try.",
                    queries=_changed("failed", "reason"),
                    unit="cpm",
                    width=12,
                ),
            ],
        ),
        Row(
            "Who",
            [
                Graph(
                    title="Changes by policy",
                    meaning="The ten policies of which most is created, replaced, pruned or repaired, a minute.",
                    queries=(most(10, *_changed("created|replaced|pruned|repaired", "policy")),),
                    unit="cpm",
                    width=12,
                ),
                Ranking(
                    title="Most changed",
                    meaning="What became most often of runtimes of which policy, in all the time that is shown.",
                    queries=(most(15, counted("churn_total", "policy", "change", where=_POLICY)),),
                ),
            ],
        ),
        Row(
            "What holds removals back",
            [
                Graph(
                    title="Decisions of the hot window",
                    meaning="Of runtimes that were to be replaced or pruned: kept for they are in use or held, or "
                    "removed for they are cold. Of all policies.",
                    queries=(per_minute("hot_window_decisions_total", "decision"),),
                    unit="cpm",
                ),
                Graph(
                    title="Rollouts",
                    meaning="Runtimes by how far the newest configuration of their policy has come.",
                    queries=(rollouts("state", where=f'{_POLICY}, state!="total"'),),
                ),
                Graph(
                    title="Removals forbidden",
                    meaning="1 while the operator is told to remove nothing.",
                    queries=(at_most("removals_forbidden", "job"),),
                ),
            ],
        ),
        Row(
            "How soon",
            [
                Graph(
                    title=f"Time to Ready, {name}",
                    meaning="From when a runtime was wanted until its Sandbox said Ready: new ones, replacements, "
                    "repairs. Of all policies.",
                    queries=(quantile(share, "time_to_ready_seconds", "backend"),),
                    unit="s",
                    width=12,
                )
                for name, share in (("median", 0.5), ("95th percentile", 0.95))
            ],
        ),
    ],
)
