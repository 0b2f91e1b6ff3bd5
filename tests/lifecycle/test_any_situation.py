"""What holds of one decision whatever the situation, be it one that no history leads to."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.situations import (
    DAY,
    HASH,
    HOT,
    HOUR,
    IDLE,
    MINUTE,
    NEWER_HASH,
    NOW,
    OLD,
    OTHER_HASH,
    POLICY_GONE,
    SECOND,
    TICK,
    WINDOWS,
    ZERO,
    ago,
    raw,
    recorded,
    runtime,
)
from sandkeeper.api.conditions import Reason
from sandkeeper.lifecycle import (
    Claimant,
    Create,
    DeleteClaimants,
    Effect,
    Failure,
    Hold,
    Moved,
    Observed,
    Preflight,
    PreflightCheck,
    Pruned,
    Record,
    Removal,
    Remove,
    RuntimeState,
    Setup,
    Situation,
    Start,
    Stop,
    Unreachable,
    Waiting,
    Wanted,
    decide,
)

HOURS = (HOT - TICK, HOT, HOT + TICK, HOUR, IDLE, IDLE + TICK, OLD, OLD + TICK, 30 * DAY)
PAST = st.sampled_from((ZERO, TICK, SECOND, *HOURS)).map(ago)
FUTURE = st.sampled_from((TICK, MINUTE, MINUTE + TICK, HOUR, 2 * DAY)).map(lambda length: NOW + length)
IDS = st.sampled_from(["r0", "r1"])
WORDS = st.none() | st.sampled_from(["a", "b"])
SHARED_WINDOWS = st.builds(
    replace,
    st.just(WINDOWS),
    hot=st.sampled_from([ZERO, HOT]),
    idle=st.sampled_from([ZERO, IDLE]),
    max_age=st.sampled_from([ZERO, OLD]),
    delete_after=st.sampled_from([ZERO, DAY]),
    max_hold=st.sampled_from([ZERO, DAY]),
)
RECORDS = st.builds(
    Record,
    runtime_id=st.none() | IDS,
    backend=st.just("docker"),
    node=st.just("engine"),
    setup_complete=st.booleans(),
    config_hash=st.sampled_from([HASH, OTHER_HASH]),
    last_used_at=st.none() | PAST,
    pruned=st.none()
    | st.builds(
        Pruned,
        at=PAST,
        reason=st.sampled_from([Reason.IDLE, Reason.TOO_OLD]),
        last_used=st.none() | PAST.map(raw),
    ),
    hold=st.none() | st.builds(Hold, until=FUTURE.map(raw), since=PAST),
    recreate=WORDS,
    wipe=WORDS,
    removing=st.none() | IDS,
    stopped=st.booleans(),
)
OBSERVED = st.builds(
    runtime,
    IDS,
    state=st.sampled_from(RuntimeState),
    created_at=PAST,
    config_hash=st.sampled_from([HASH, OTHER_HASH, NEWER_HASH]),
    has_setup=st.booleans(),
    in_use=st.booleans(),
)
UP = st.builds(
    runtime,
    IDS,
    state=st.sampled_from([RuntimeState.RUNNING, RuntimeState.STARTING, RuntimeState.STOPPED]),
    created_at=PAST,
    config_hash=st.sampled_from([HASH, OTHER_HASH]),
    in_use=st.booleans(),
)
NOBODY_KNOWS = Unreachable(reason=Reason.ENGINE_UNREACHABLE, message="No answer.")


@st.composite
def situations(draw: st.DrawFn, *, quiet: bool = False) -> Situation:
    """Any at all; or, where it is quiet, one in which little speaks against a removal."""
    uses = PAST if quiet else PAST | FUTURE
    windows = st.just(draw(SHARED_WINDOWS))
    desires = st.one_of(
        st.builds(
            Wanted,
            backend=st.just("docker"),
            config_hash=st.sampled_from([HASH, HASH, OTHER_HASH]),
            has_setup=st.booleans(),
            windows=windows,
            most_sharers=st.sampled_from([None, None, 1]),
        ),
        st.builds(Moved, to=st.sampled_from([None, "elsewhere"]), windows=windows),
        *([] if quiet else [st.just(POLICY_GONE)]),
    )
    claimants = st.builds(
        Claimant,
        uid=st.text("abc", min_size=1, max_size=2),
        name=st.just("sandbox"),
        created_at=PAST,
        desire=desires,
        stopped=st.sampled_from([False] if quiet else [False, True]),
        paused=st.sampled_from([False] if quiet else [False, False, True]),
        last_used=st.none() | uses.map(raw),
        hold_until=st.none() | uses.map(raw),
        recreate=WORDS,
        wipe=WORDS,
        record=RECORDS,
        has_status=st.sampled_from([True, True, False]),
    )
    return draw(
        st.builds(
            Situation,
            claimants=st.lists(
                claimants, min_size=int(quiet), max_size=3, unique_by=lambda each: each.uid
            ).map(tuple),
            observed=UP if quiet else st.none() | OBSERVED | OBSERVED | st.just(NOBODY_KNOWS),
            now=st.just(NOW),
            clock_trusted=st.sampled_from([True, True, False]),
            removals_from=st.none() | uses,
            rollout=st.none() | st.none() | st.sampled_from([TURN, BLOCKED]),
            removals_forbidden=st.sampled_from([False, False, True]),
            was_deleted=st.booleans(),
            setup_done=st.none() | IDS,
            fresh=st.none() | IDS,
            failure=st.none()
            | st.builds(
                Failure,
                reason=st.just(Reason.IMAGE_MISSING),
                message=st.just(""),
                count=st.just(1),
                retry_at=PAST | FUTURE,
            ),
            preflight=st.none()
            | st.builds(
                PreflightCheck,
                config_hash=st.sampled_from([HASH, OTHER_HASH]),
                problem=st.sampled_from([None, Reason.IMAGE_MISSING]),
                retry_at=PAST | FUTURE,
            ),
        )
    )


TURN = Waiting(message="It waits.")
BLOCKED = Waiting(message="Another failed.", reason=Reason.ROLLOUT_BLOCKED)


def named(effect: Effect | None) -> str | None:
    """The id of the runtime to which something is done."""
    return effect.id if isinstance(effect, Start | Stop | Setup | Remove) else None


def by_uid(situation: Situation) -> Mapping[str, Claimant]:
    return {each.uid: each for each in situation.claimants}


def is_for_its_time(effect: Effect | None) -> bool:
    return isinstance(effect, Remove) and effect.removal in {Removal.PRUNE, Removal.REPLACE}


@given(situations())
def test_there_is_an_answer_and_it_is_about_what_is_there(situation: Situation) -> None:
    plan = decide(situation)

    assert plan.wake_at is None or plan.wake_at > situation.now
    assert plan.reports.keys() <= {each.uid for each in situation.claimants if not each.paused}
    assert set(plan.sharers) <= by_uid(situation).keys()
    there = situation.observed.id if isinstance(situation.observed, Observed) else None
    assert named(plan.effect) in {None, there}
    if isinstance(plan.effect, Create | Setup | Preflight):
        assert isinstance(by_uid(situation)[plan.effect.ruler].desire, Wanted)


@given(situations())
def test_there_are_never_two_runtimes(situation: Situation) -> None:
    if isinstance(decide(situation).effect, Create):
        assert situation.observed is None


@given(situations(), st.randoms(use_true_random=False))
def test_who_is_named_first_does_not_matter(situation: Situation, shuffling: Random) -> None:
    others = list(situation.claimants)
    shuffling.shuffle(others)

    assert decide(replace(situation, claimants=tuple(others))) == decide(situation)


@given(situations() | situations(quiet=True))
def test_what_somebody_relies_on_is_neither_pruned_nor_replaced(situation: Situation) -> None:
    plan = decide(situation)
    if not is_for_its_time(plan.effect) or plan.rule == "stay-pruned":  # that one was decided before
        return
    assert isinstance(plan.effect, Remove)
    assert isinstance(situation.observed, Observed)
    assert plan.effect.announced
    assert plan.effect.limited
    assert situation.clock_trusted
    assert situation.removals_from is None or situation.removals_from <= situation.now
    assert not situation.observed.in_use or situation.observed.state not in {
        RuntimeState.STARTING,
        RuntimeState.RUNNING,
    }
    for uid in plan.sharers:
        claimant = by_uid(situation)[uid]
        assert not claimant.paused
        assert plan.reports[uid].readiness.ready is False
        assert plan.reports[uid].record.removing == situation.observed.id
        if situation.observed.state in {RuntimeState.STARTING, RuntimeState.RUNNING}:
            assert situation.now - last_use(claimant) >= hot_window(situation)


def hot_window(situation: Situation) -> timedelta:
    """All of them share it."""
    return next(
        each.desire.windows.hot for each in situation.claimants if isinstance(each.desire, Wanted | Moved)
    )


def last_use(claimant: Claimant) -> datetime:
    """As it is told to users, of what lies in the past."""
    said = datetime.fromisoformat(claimant.last_used) if claimant.last_used else claimant.created_at
    noted = claimant.record.last_used_at or claimant.created_at
    return max(claimant.created_at, noted, said if said <= NOW + MINUTE else claimant.created_at)


@given(situations() | situations(quiet=True))
def test_what_is_forbidden_is_removed_only_where_somebody_asked(situation: Situation) -> None:
    plan = decide(replace(situation, removals_forbidden=True))
    effect = plan.effect
    assert not isinstance(effect, DeleteClaimants)
    if not isinstance(effect, Remove):
        return
    if effect.removal is Removal.UNCLAIMED:
        assert situation.was_deleted
    else:
        assert isinstance(situation.observed, Observed)
        assert any(
            each.wipe is not None or (each.recreate is not None and each.recreate != each.record.recreate)
            for each in situation.claimants
        )


@given(situations() | situations(quiet=True))
def test_what_waits_for_others_is_replaced_only_where_somebody_asked(situation: Situation) -> None:
    effect = decide(replace(situation, rollout=TURN)).effect
    if isinstance(effect, Preflight) or (isinstance(effect, Remove) and effect.removal is Removal.REPLACE):
        assert effect.by_request


@given(situations())
def test_what_all_have_stopped_is_never_pruned(situation: Situation) -> None:
    stopped = replace(situation, claimants=tuple(replace(each, stopped=True) for each in situation.claimants))

    effect = decide(stopped).effect

    assert not isinstance(effect, Create | Start | Setup | Preflight)
    if situation.claimants:
        assert not is_for_its_time(effect)


@given(situations().filter(lambda situation: situation.claimants))
def test_where_it_cannot_be_said_what_is_wanted_nothing_is_done(situation: Situation) -> None:
    lost = replace(
        situation, claimants=tuple(replace(each, desire=POLICY_GONE) for each in situation.claimants)
    )

    assert decide(lost).effect is None


@given(situations())
def test_what_cannot_be_seen_is_left_alone(situation: Situation) -> None:
    assert decide(replace(situation, observed=NOBODY_KNOWS)).effect is None


@given(situations(quiet=True), st.sampled_from((TICK, MINUTE, *HOURS)))
def test_what_is_pruned_now_would_be_pruned_later(situation: Situation, later: timedelta) -> None:
    plan = decide(situation)

    if isinstance(plan.effect, Remove) and plan.effect.removal is Removal.PRUNE:
        assert decide(replace(situation, now=situation.now + later)).effect == plan.effect


@given(situations())
def test_having_said_it_changes_nothing(situation: Situation) -> None:
    plan = decide(situation)
    again = decide(recorded(situation, plan))

    assert again.effect == plan.effect
    assert again.reports == plan.reports
