"""Several Sandboxes, one runtime: who rules, who counts, who hears what."""

from dataclasses import replace
from datetime import timedelta

from lifecycle.situations import (
    DAY,
    HOT,
    HOUR,
    IDLE,
    MINUTE,
    NOW,
    OTHER_HASH,
    POLICY_GONE,
    TICK,
    ago,
    known,
    moved,
    newcomer,
    raw,
    recorded,
    runtime,
    sandbox,
    situation,
    wanted,
)
from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle import Create, Hold, RuntimeState, Stop, Transition, Unreachable, decide, relies

FIRST = ago(3 * DAY)


def test_the_oldest_rules_and_the_uid_settles_a_draw() -> None:
    older = newcomer("z", created_at=FIRST + TICK)
    twins = [newcomer("b", created_at=FIRST), newcomer("a", created_at=FIRST)]
    claimants = [replace(each, last_used=raw(NOW)) for each in (older, *twins)]
    assert decide(situation(*claimants, observed=None)).effect == Create(ruler="a")


def test_the_order_in_which_claimants_are_given_means_nothing() -> None:
    claimants = [
        sandbox("a", desire=wanted(OTHER_HASH)),
        sandbox("b", created_at=FIRST),
        sandbox("c", desire=moved(), last_used=raw(NOW)),
    ]
    assert decide(situation(*claimants)) == decide(situation(*reversed(claimants)))


def test_a_later_one_that_wants_something_else_is_told_whose_word_counts() -> None:
    plan = decide(situation(sandbox("a", created_at=FIRST), sandbox("b", desire=wanted(OTHER_HASH))))
    assert plan.rule == "reuse"
    report = plan.reports["b"]
    assert (report.phase, report.readiness.ready) == (Phase.FAILED, False)
    assert report.readiness.reason is Reason.CONFIG_CONFLICT
    assert "sandbox-a" in report.readiness.message
    assert report.record.runtime_id is None
    assert report.next is None


def test_another_backend_is_a_conflict_as_well() -> None:
    plan = decide(situation(sandbox("a", created_at=FIRST), sandbox("b", desire=wanted(backend="pod"))))
    assert plan.reports["b"].readiness.reason is Reason.CONFIG_CONFLICT


def test_a_later_one_that_cannot_be_resolved_hears_why_and_claims_nothing() -> None:
    plan = decide(
        situation(
            sandbox("a", created_at=FIRST, stopped=True),
            sandbox("b", desire=POLICY_GONE, last_used=raw(NOW)),
        )
    )
    assert plan.effect == Stop(id="r1")
    assert plan.reports["b"].readiness.reason is Reason.POLICY_NOT_FOUND


def test_what_one_who_does_not_count_has_recorded_of_its_use_is_kept() -> None:
    hold = Hold(until="2030-01-01T00:00:00Z", since=ago(HOUR))
    record = known(hold=hold, recreate="1", recoveries=2)
    conflicting = sandbox("b", desire=wanted(OTHER_HASH), hold_until=hold.until, record=record)
    plan = decide(situation(sandbox("a", created_at=FIRST), conflicting))
    kept = plan.reports["b"].record
    assert (kept.hold, kept.recreate, kept.recoveries, kept.last_used_at) == (hold, "1", 2, ago(HOUR))


def test_when_the_oldest_is_gone_the_next_rules_and_the_runtime_differs_for_it() -> None:
    before = situation(sandbox("a", created_at=FIRST), sandbox("b", desire=wanted(OTHER_HASH)))
    after = recorded(before, decide(before))
    alone = replace(after, claimants=after.claimants[1:])
    assert decide(alone).rule == "preflight"


def test_stopped_only_if_all_say_so() -> None:
    plan = decide(situation(sandbox("a", stopped=True), sandbox("b")))
    assert plan.rule == "reuse"
    assert {report.phase for report in plan.reports.values()} == {Phase.READY}
    assert not plan.reports["a"].record.stopped


def test_one_that_belongs_elsewhere_rules_nobody_who_belongs_here() -> None:
    leaver = sandbox("a", created_at=FIRST, desire=moved(), last_used=raw(NOW))
    stayer = sandbox("b")
    plan = decide(situation(leaver, stayer))
    assert plan.rule == "reuse"
    assert plan.reports["b"].drift is None
    drift = plan.reports["a"].drift
    assert drift is not None
    assert drift.reason is Reason.IDENTITY_MOVED
    assert plan.reports["a"].readiness.ready is True


def test_the_use_of_one_that_belongs_elsewhere_keeps_what_differs() -> None:
    leaver = sandbox("a", desire=moved(), last_used=raw(NOW))
    plan = decide(situation(leaver, sandbox("b", desire=wanted(OTHER_HASH))))
    assert plan.rule == "keep"
    assert plan.reports["a"].drift is not None
    assert plan.reports["b"].drift is not None
    assert plan.reports["b"].drift.reason is Reason.CONFIG_CHANGED


def test_it_is_looked_at_again_when_one_that_belongs_elsewhere_is_cold_by_itself() -> None:
    leaver = sandbox("a", desire=moved(), last_used=raw(ago(4 * MINUTE)))
    plan = decide(situation(leaver, sandbox("b", last_used=raw(NOW))))
    assert plan.wake_at == ago(4 * MINUTE) + HOT


def test_the_oldest_of_those_that_belong_elsewhere_rules_among_them() -> None:
    desire = moved(idle=MINUTE)
    plan = decide(situation(sandbox("a", created_at=FIRST, desire=desire), sandbox("b", desire=moved())))
    assert plan.rule == "prune"


def test_each_that_leaves_hears_of_its_own_way() -> None:
    plan = decide(
        situation(sandbox("a", desire=moved("ns/p/x")), sandbox("b", desire=moved(None)), observed=None)
    )
    assert plan.reports["a"].readiness.message == "It is moving to ns/p/x."
    assert plan.reports["b"].phase is Phase.NOT_SANDBOXED


def test_a_newcomer_is_told_that_it_runs_and_the_others_reports_stay_as_they_are() -> None:
    before = situation(sandbox("a", created_at=FIRST))
    settled = recorded(before, decide(before))
    joined = replace(settled, claimants=(*settled.claimants, newcomer("b")))
    plan = decide(joined)
    assert plan.reports["b"].record.runtime_id == "r1"
    assert plan.reports["a"].record == settled.claimants[0].record
    assert plan.reports["b"].record.recoveries == 0


def test_recreate_by_one_of_two_is_a_request_of_both() -> None:
    plan = decide(situation(sandbox("a"), sandbox("b", recreate="1"), observed=runtime()))
    assert plan.rule == "preflight"
    assert {report.drift.reason for report in plan.reports.values() if report.drift} == {
        Reason.RECREATE_REQUESTED
    }


# --- letting go ---------------------------------------------------------------------------------------------


def test_one_that_belongs_elsewhere_is_let_go_when_it_is_cold_by_itself() -> None:
    leaver = sandbox("a", created_at=FIRST, desire=moved(), last_used=raw(ago(HOT)))
    before = situation(leaver, sandbox("b", last_used=raw(NOW)))
    plan = decide(before)
    assert plan.rule == "reuse"
    report = plan.reports["a"]
    assert (report.phase, report.readiness.ready) == (Phase.PENDING, False)
    assert "ns/default/agent:b" in report.readiness.message
    assert not relies(report.record)
    assert report.record.last_used_at == ago(HOT)
    assert decide(recorded(before, plan)).reports == plan.reports


def test_it_is_let_go_into_nothing_where_it_is_not_sandboxed() -> None:
    plan = decide(situation(sandbox("a", desire=moved(None)), sandbox("b")))
    assert plan.reports["a"].phase is Phase.NOT_SANDBOXED
    assert plan.reports["a"].record.runtime_id is None


def test_one_that_is_let_go_counts_for_nothing_any_more() -> None:
    leaver = sandbox("a", desire=moved(), recreate="1")
    assert decide(situation(leaver, sandbox("b"))).rule == "reuse"
    stopped = runtime(state=RuntimeState.STOPPED)
    assert decide(situation(leaver, sandbox("b", stopped=True), observed=stopped)).rule == "stopped"


def test_it_is_told_before_the_runtime_is_stopped_under_it() -> None:
    stayer = sandbox("b", stopped=True)
    plan = decide(situation(sandbox("a", desire=moved()), stayer))
    assert (plan.rule, plan.effect) == ("reuse", None)
    assert plan.reports["a"].readiness.ready is False
    assert plan.wake_at is not None
    assert plan.wake_at - NOW < MINUTE
    assert decide(situation(sandbox("a", desire=moved(), stopped=True), stayer)).effect == Stop(id="r1")
    assert decide(situation(stayer)).effect == Stop(id="r1")


def test_it_is_told_before_the_runtime_is_removed_under_it() -> None:
    plan = decide(
        situation(sandbox("a", desire=moved()), sandbox("b", desire=wanted(idle=MINUTE), created_at=FIRST))
    )
    assert plan.rule == "prune"
    assert plan.reports["a"].readiness.ready is False
    assert plan.reports["b"].readiness.reason is Reason.PRUNING


def test_it_is_not_let_go_while_it_uses_what_is_here() -> None:
    stayer = sandbox("b")
    for leaver, observed in (
        (sandbox("a", desire=moved(), last_used=raw(ago(HOT - TICK))), runtime()),
        (sandbox("a", desire=moved(), hold_until=raw(NOW + TICK)), runtime()),
        (sandbox("a", desire=moved()), runtime(in_use=True)),
    ):
        plan = decide(situation(leaver, stayer, observed=observed))
        assert plan.reports["a"].record.runtime_id == "r1"
        assert plan.reports["a"].drift is not None


def test_it_is_not_let_go_while_nothing_is_known_or_all_is_frozen_or_it_is_paused() -> None:
    leaver = sandbox("a", desire=moved())
    unknown = Unreachable(reason=Reason.ENGINE_UNREACHABLE, message="No answer.")
    assert decide(situation(leaver, sandbox("b"), observed=unknown)).reports["a"].record == known()
    assert decide(situation(leaver, sandbox("b", desire=POLICY_GONE))).reports["a"].record == known()
    hands_off = decide(situation(replace(leaver, paused=True), sandbox("b", stopped=True)))
    assert (hands_off.rule, hands_off.effect) == ("paused", None)


def test_it_is_not_let_go_by_a_clock_that_is_wrong_and_that_is_looked_at_again() -> None:
    leaver, stayer = sandbox("a", desire=moved()), sandbox("b", last_used=raw(NOW))
    plan = decide(situation(leaver, stayer, clock_trusted=False))
    assert plan.reports["a"].record.runtime_id == "r1"
    assert plan.reports["a"].readiness.ready is True
    assert plan.wake_at is not None
    assert plan.wake_at - NOW <= MINUTE
    assert (
        decide(situation(leaver, stayer, observed=None, clock_trusted=False)).reports["a"].record.runtime_id
        is None
    )


def test_it_is_let_go_held_as_it_is_where_nothing_is_left() -> None:
    leaver = sandbox("a", desire=moved(), hold_until=raw(NOW + HOUR))
    plan = decide(situation(leaver, sandbox("b"), observed=None))
    assert plan.reports["a"].record.runtime_id is None
    assert plan.effect == Create(ruler="b", recovery=True)


def test_when_what_they_share_is_replaced_is_told_to_all_alike() -> None:
    other = wanted(OTHER_HASH)
    early = sandbox("a", desire=other, record=known(last_used_at=ago(4 * MINUTE)))
    late = sandbox("b", desire=other, record=known(last_used_at=ago(MINUTE)))

    reports = decide(situation(early, late)).reports

    assert {report.next for report in reports.values()} == {Transition(at=ago(MINUTE) + HOT, what="Replace")}


def test_when_what_they_share_is_pruned_is_told_by_each_ones_own_last_use() -> None:
    """Otherwise each use by one of them would be a write to all."""
    early = sandbox("a", record=known(last_used_at=ago(14 * MINUTE)))
    late = sandbox("b", record=known(last_used_at=ago(MINUTE)))

    plan = decide(situation(early, late))

    # Whole hot windows more than its own, and never later than in truth.
    assert plan.reports["a"].next == Transition(at=ago(4 * MINUTE) + IDLE, what="Prune")
    assert plan.reports["b"].next == Transition(at=ago(MINUTE) + IDLE, what="Prune")
    assert plan.wake_at == ago(MINUTE) + IDLE + timedelta(milliseconds=1)
