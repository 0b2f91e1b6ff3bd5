"""What a policy's status says, and when that is worth a write and an Event."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.policy_status import AgentSandboxPolicyStatus
from sandkeeper.config.resolution import Problem
from sandkeeper.config.rollouts import rollout_limits
from sandkeeper.lifecycle import Counts, Failed
from sandkeeper.reconcile.objects import PolicyObject
from sandkeeper.reconcile.policies import is_news
from sandkeeper.reconcile.policy_status import news_in, policy_status
from sandkeeper.reconcile.rollouts import Progress

NOW = datetime(2026, 1, 10, 12, 0, 0, 5, tzinfo=UTC)
BEGAN = NOW - timedelta(minutes=5)
AT_REST = Progress(counts=Counts(total=4, current=4))
ROLLING = Progress(counts=Counts(total=4, current=1, drifted=2, replacing=1), rolling=True, started_at=BEGAN)
FAILED = Failed(namespace="team", sandbox="rain", reason="SetupFailed")
STOPPED = Progress(
    counts=Counts(total=4, current=1, drifted=2, replacing=1, failed_away=1),
    rolling=True,
    stopped=True,
    failed=(FAILED,),
    started_at=BEGAN,
)


def policy(
    status: AgentSandboxPolicyStatus | None = None, *, generation: int = 2, **spec: Any
) -> PolicyObject:
    metadata = {"namespace": "team", "name": "strict", "uid": "u", "resourceVersion": "7"}
    raw: dict[str, Any] = {"metadata": {**metadata, "generation": generation}, "spec": spec}
    if status is not None:
        raw["status"] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return PolicyObject.parse(raw)


def told(
    progress: Progress,
    *,
    before: AgentSandboxPolicyStatus | None = None,
    now: datetime = NOW,
    problem: Problem | None = None,
    forbidden: bool = False,
    generation: int = 2,
    **spec: Any,
) -> AgentSandboxPolicyStatus:
    found = policy(before, generation=generation, **spec)
    assert not isinstance(found.spec, Problem)
    return policy_status(
        found, progress, problem=problem, limits=rollout_limits(found.spec), forbidden=forbidden, now=now
    )


def conditions(status: AgentSandboxPolicyStatus) -> dict[str, tuple[str, str]]:
    assert {each.observed_generation for each in status.conditions} == {status.observed_generation}
    return {each.type: (each.status, each.reason) for each in status.conditions}


def message(status: AgentSandboxPolicyStatus, kind: str) -> str:
    return next(each.message for each in status.conditions if each.type == kind)


READY = ("True", "Accepted")
OUT_OF_DATE = ("False", "OutOfDate")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"progress": AT_REST},
            {"Ready": READY, "Current": ("True", "UpToDate"), "Progressing": ("False", "RolloutComplete")},
        ),
        (
            {"progress": Progress()},
            {"Ready": READY, "Current": ("True", "UpToDate"), "Progressing": ("False", "RolloutComplete")},
        ),
        (
            {"progress": Progress(counts=Counts(total=4, current=3, replacing=1))},
            {"Ready": READY, "Current": ("True", "UpToDate"), "Progressing": ("False", "RolloutComplete")},
        ),
        (
            {"progress": Progress(counts=Counts(total=4, current=3))},
            {"Ready": READY, "Current": OUT_OF_DATE, "Progressing": ("False", "RolloutComplete")},
        ),
        (
            {"progress": ROLLING},
            {"Ready": READY, "Current": OUT_OF_DATE, "Progressing": ("True", "RollingOut")},
        ),
        (
            {"progress": STOPPED},
            {
                "Ready": ("False", "RolloutBlocked"),
                "Current": OUT_OF_DATE,
                "Progressing": ("False", "RolloutBlocked"),
            },
        ),
        (
            {"progress": ROLLING, "rollout": {"paused": True}},
            {"Ready": READY, "Current": OUT_OF_DATE, "Progressing": ("False", "RolloutPaused")},
        ),
        (
            {"progress": STOPPED, "forbidden": True, "rollout": {"paused": True}},
            {
                "Ready": ("False", "RolloutBlocked"),
                "Current": OUT_OF_DATE,
                "Progressing": ("False", "RemovalsForbidden"),
            },
        ),
        (
            {
                "progress": STOPPED,
                "problem": Problem(reason=Reason.CEILING_EXCEEDED, message="container.user: no"),
            },
            {
                "Ready": ("False", "CeilingExceeded"),
                "Current": OUT_OF_DATE,
                "Progressing": ("False", "RolloutBlocked"),
            },
        ),
    ],
    ids=["at rest", "none", "recreated", "unknown", "rolling", "stopped", "paused", "forbidden", "problem"],
)
def test_how_it_stands(given: dict[str, Any], expected: dict[str, tuple[str, str]]) -> None:
    assert conditions(told(**given)) == expected


def test_the_counts_are_told() -> None:
    rollout = told(STOPPED).rollout
    assert rollout is not None
    assert rollout.model_dump(by_alias=True) == {
        "total": 4,
        "current": 1,
        "drifted": 2,
        "replacing": 1,
        "replaced": 0,
        "blocked": 1,
        "startedAt": BEGAN,
    }


def test_who_failed_is_named_and_how_it_goes_on() -> None:
    found = message(told(STOPPED), "Ready")
    assert found.startswith("The replacement failed of rain (SetupFailed); no other begins. It goes on when")
    elsewhere = Failed(namespace="other", sandbox="snow", reason="ImageMissing")
    several = Progress(
        counts=Counts(total=9, drifted=9, failed_kept=7), rolling=True, stopped=True, failed=(elsewhere,) * 7
    )
    found = message(told(several), "Ready")
    assert "of other/snow (ImageMissing), " in found
    assert "and 2 more;" in found


def test_saying_the_same_again_changes_nothing() -> None:
    first = told(ROLLING)
    assert told(ROLLING, before=first, now=NOW + timedelta(hours=1)) == first
    changed = told(AT_REST, before=first, now=NOW + timedelta(hours=1))
    moments = {each.type: each.last_transition_time for each in changed.conditions}
    then, later = NOW.replace(microsecond=0), NOW.replace(microsecond=0) + timedelta(hours=1)
    assert moments == {"Ready": then, "Current": later, "Progressing": later}


def test_the_counts_of_a_policy_at_rest_are_no_news() -> None:
    before = told(AT_REST)
    more = told(Progress(counts=Counts(total=9, current=8, replacing=1)), before=before)
    assert before != more
    assert not is_news(before, more)
    assert is_news(before, told(AT_REST, before=before, generation=3))
    assert is_news(before, told(ROLLING, before=before))
    further = Progress(counts=Counts(total=4, current=2, drifted=1, replacing=1), rolling=True)
    assert is_news(told(ROLLING), told(further, before=told(ROLLING)))
    assert is_news(AgentSandboxPolicyStatus(), before)


def test_events_tell_of_what_changed_once() -> None:
    def events(
        before: AgentSandboxPolicyStatus | None, after: AgentSandboxPolicyStatus
    ) -> list[tuple[str, str]]:
        notes = list(news_in(policy(before), after))
        assert {note.about for note in notes} <= {"AgentSandboxPolicy"}
        return [(note.kind, note.reason) for note in notes]

    rest, rolling, stopped = told(AT_REST), told(ROLLING), told(STOPPED)
    assert events(None, rest) == [], "that it is there is no news"
    assert events(None, stopped) == [("Warning", "RolloutBlocked")]
    assert events(rest, rolling) == [("Normal", "RollingOut")]
    assert events(rolling, rolling) == []
    assert events(rolling, stopped) == [("Warning", "RolloutBlocked")]
    assert events(stopped, rolling) == [("Normal", "Accepted"), ("Normal", "RollingOut")]
    assert events(rolling, rest) == [("Normal", "RolloutComplete")]


def test_a_status_that_somebody_else_wrote_is_as_good_as_none() -> None:
    raw = {
        "metadata": {"namespace": "team", "name": "a", "uid": "u", "resourceVersion": "7"},
        "spec": {},
        "status": {"rollout": {"total": -1}},
    }
    assert PolicyObject.parse(raw).status == AgentSandboxPolicyStatus()
