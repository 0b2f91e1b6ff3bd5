"""Last use, hold and recreate: what annotations mean."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle.situations import (
    DAY,
    HOT,
    HOUR,
    IDLE,
    MINUTE,
    NOW,
    SECOND,
    TICK,
    ZERO,
    ago,
    known,
    newcomer,
    raw,
    recorded,
    runtime,
    sandbox,
    situation,
    wanted,
    windows,
)
from sandkeeper.lifecycle import Claimant, Hold, Observed, Record, RuntimeState, decide
from sandkeeper.lifecycle.instants import END, after, parse_instant, show_instant
from sandkeeper.lifecycle.use import Claim, is_busy, read_claim


def read(claimant: Claimant, *, observed: Observed | None = None, max_hold: timedelta = DAY) -> Claim:
    return read_claim(claimant, observed=observed, now=NOW, max_hold=max_hold)


# --- times as people write them ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02t03:04:05z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02 03:04:05+00:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.5Z", datetime(2026, 1, 2, 3, 4, 5, 500000, tzinfo=UTC)),
        ("2026-01-02T03:04:05.123456789Z", datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05-11:30", datetime(2026, 1, 2, 14, 34, 5, tzinfo=UTC)),
    ],
)
def test_a_time_with_its_offset_is_read(text: str, at: datetime) -> None:
    assert parse_instant(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1767322800",
        "2026-01-02",
        "2026-01-02T03:04:05",  # whose time?
        "2026-01-02T03:04Z",
        "2026-01-02T03:04:05 Z",
        "2026-01-02T03:04:05Z\n",
        " 2026-01-02T03:04:05Z",
        "2026-02-30T03:04:05Z",
        "2026-01-02T25:04:05Z",
        "2026-01-02T03:04:05+24:01",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05.1234567890Z",
        "٢٠٢٦-01-02T03:04:05Z",
        "9999-12-31T23:59:59-10:00",
        "0001-01-01T00:00:00+10:00",
        "0000-01-01T00:00:00Z",
    ],
)
def test_anything_else_is_not_a_time(text: str) -> None:
    assert parse_instant(text) is None


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "XXX-05:45")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_what_zone_the_machine_is_in_does_not_matter() -> None:
    assert time.timezone == -20700

    at = parse_instant("2026-01-02T03:04:05+01:00")

    assert at is not None
    assert (at.tzinfo, at.isoformat()) == (UTC, "2026-01-02T02:04:05+00:00")
    assert show_instant(at) == "2026-01-02T02:04:05Z"


@given(st.text())
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    parse_instant(text)


@given(st.datetimes(timezones=st.just(UTC)), st.integers(-12, 14))
def test_what_is_written_is_read_back(at: datetime, hours: int) -> None:
    assert parse_instant(at.isoformat()) == at
    try:
        elsewhere = at.astimezone(timezone(timedelta(hours=hours)))
    except OverflowError:
        return
    assert parse_instant(elsewhere.isoformat()) == at
    assert parse_instant(show_instant(at)) == at.replace(microsecond=0)


def test_sums_end_with_time_itself() -> None:
    assert after(NOW, timedelta.max) == END
    assert after(NOW, timedelta.min) < NOW
    assert after(END, SECOND) == END


# --- last use ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "claimant", "at"),
    [
        ("the annotation is the latest", sandbox(last_used=raw(ago(MINUTE))), ago(MINUTE)),
        ("the record is the latest", sandbox(last_used=raw(ago(DAY))), ago(HOUR)),
        ("creation is the latest", sandbox(created_at=ago(SECOND)), ago(SECOND)),
        ("an annotation that is no time is ignored", sandbox(last_used="yes"), ago(HOUR)),
        ("60 s ahead is a use", sandbox(last_used=raw(NOW + 60 * SECOND)), NOW + 60 * SECOND),
        ("more than 60 s ahead is ignored", sandbox(last_used=raw(NOW + 60 * SECOND + TICK)), ago(HOUR)),
        ("a new object with nothing running was used when it was created", newcomer(), ago(SECOND)),
    ],
)
def test_the_last_use_is_the_latest_of_what_is_known(what: str, claimant: Claimant, at: datetime) -> None:
    assert read(claimant).last_use == at


def test_a_lost_status_with_a_runtime_there_counts_as_a_use_now() -> None:
    lost = newcomer(created_at=ago(9 * DAY))
    assert read(lost, observed=runtime()).last_use == NOW
    assert read(lost, observed=None).last_use == ago(9 * DAY)


def test_a_command_that_runs_is_a_use_now() -> None:
    assert read(sandbox(), observed=runtime(in_use=True)).last_use == NOW


def test_an_annotation_that_is_ignored_is_complained_of_with_its_value_and_the_fix() -> None:
    claim = read(sandbox(last_used="yesterday\n" * 100, hold_until="tomorrow"))
    first, second = claim.complaints
    assert "sandkeeper.dev/last-used='yesterday\\n" in first
    assert "2026-01-02T03:04:05Z" in first
    assert len(first) < 250
    assert "sandkeeper.dev/hold-until='tomorrow'" in second


def test_complaints_are_reported_whatever_the_rule_and_whoever_rules() -> None:
    bad = {"last_used": "x"}
    plan = decide(situation(sandbox("a", **bad), sandbox("b", desire=wanted("v1-b"), created_at=NOW, **bad)))
    assert [len(report.invalid_annotations) for report in plan.reports.values()] == [1, 1]


def test_a_use_that_is_too_far_ahead_is_looked_at_again_when_it_no_longer_is() -> None:
    later = situation(sandbox(last_used=raw(NOW + HOUR)))
    plan = decide(later)
    assert plan.reports["a"].invalid_annotations
    assert plan.wake_at == NOW + HOUR - 60 * SECOND
    assert not decide(replace(later, now=plan.wake_at)).reports["a"].invalid_annotations


def test_a_use_that_nobody_may_write_is_not_looked_at_again_in_a_hurry() -> None:
    assert decide(situation(sandbox(last_used="9999-12-31T23:59:59Z"))).wake_at is not None


# --- hot --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last_use", "state", "hot"),
    [
        (ago(HOT - TICK), RuntimeState.RUNNING, True),
        (ago(HOT), RuntimeState.RUNNING, False),
        (ago(HOT - TICK), RuntimeState.STARTING, True),
        (ago(HOT - TICK), RuntimeState.STOPPED, False),
        (ago(HOT - TICK), RuntimeState.FAILED, False),
        (ago(HOT - TICK), RuntimeState.CREATED, False),
        (ago(HOT - TICK), RuntimeState.TERMINATING, False),
        (NOW + HOUR, RuntimeState.RUNNING, True),  # the clock was put back
    ],
)
def test_hot_is_running_and_used_less_than_five_minutes_ago(
    last_use: datetime, state: RuntimeState, *, hot: bool
) -> None:
    used = sandbox(record=known(last_used_at=last_use))
    assert is_busy(read(used), observed=runtime(state=state), now=NOW, hot=HOT) is hot


def test_nothing_is_hot_where_nothing_is() -> None:
    assert not is_busy(read(newcomer()), observed=None, now=NOW, hot=HOT)


def test_a_hot_window_of_zero_leaves_only_what_has_a_command_running_in_it_hot() -> None:
    used = sandbox(record=known(last_used_at=NOW))
    assert not is_busy(read(used), observed=runtime(), now=NOW, hot=ZERO)
    assert is_busy(read(used), observed=runtime(in_use=True), now=NOW, hot=ZERO)


# --- hold -------------------------------------------------------------------------------------------------


def held(until: str, *, since: datetime | None = None, max_hold: timedelta = DAY) -> Claim:
    hold = None if since is None else Hold(until=until, since=since)
    return read(sandbox(hold_until=until, record=known(hold=hold)), max_hold=max_hold)


def test_a_hold_lasts_until_its_time() -> None:
    assert held(raw(NOW + HOUR)).held_until == NOW + HOUR
    assert held(raw(NOW + TICK)).held_until == NOW + TICK
    assert held(raw(NOW)).held_until is None


def test_a_hold_is_capped_from_when_it_was_first_seen() -> None:
    until = raw(NOW + 90 * DAY)
    assert held(until).held_until == NOW + DAY
    assert held(until, since=ago(HOUR)).held_until == NOW + 23 * HOUR
    assert held(until, since=ago(DAY)).held_until is None


def test_a_new_value_begins_a_new_hold() -> None:
    old = known(hold=Hold(until=raw(NOW + 90 * DAY), since=ago(2 * DAY)))
    claim = read(sandbox(hold_until=raw(NOW + 91 * DAY), record=old))
    assert claim.held_until == NOW + DAY
    assert claim.hold == Hold(until=raw(NOW + 91 * DAY), since=NOW)


def test_by_a_clock_that_is_wrong_no_cap_begins() -> None:
    given = situation(sandbox(hold_until=raw(NOW + 2 * DAY)), clock_trusted=False)
    assert decide(given).reports["a"].record.hold is None
    begun = decide(replace(given, clock_trusted=True)).reports["a"].record.hold
    assert begun is not None
    assert begun.since == NOW
    kept = situation(sandbox(hold_until=begun.until, record=known(hold=begun)), clock_trusted=False)
    assert decide(kept).reports["a"].record.hold == begun


def test_a_cap_of_zero_is_no_cap() -> None:
    claim = held(raw(NOW + 90 * DAY), max_hold=ZERO)
    assert (claim.held_until, claim.hold) == (NOW + 90 * DAY, None)


def test_a_hold_may_be_as_far_ahead_as_time_goes() -> None:
    assert held("9999-12-31T23:59:59.999999Z", max_hold=ZERO).held_until == END
    plan = decide(situation(sandbox(hold_until="9999-12-31T23:59:59.999999Z", desire=wanted(max_hold=ZERO))))
    assert plan.wake_at == END


def test_a_hold_that_the_cap_cannot_reach_is_not_recorded_so_that_renewing_it_writes_nothing() -> None:
    before = situation(sandbox())
    settled = recorded(before, decide(before))
    for minutes in range(1, 5):
        renewed = replace(
            settled,
            claimants=(replace(settled.claimants[0], hold_until=raw(NOW + (minutes + 10) * MINUTE)),),
            now=NOW + minutes * MINUTE,
        )
        assert decide(renewed).reports["a"].record == settled.claimants[0].record


def test_a_hold_that_is_over_stays_recorded_and_one_that_is_taken_away_does_not() -> None:
    hold = Hold(until=raw(NOW + 90 * DAY), since=ago(2 * DAY))
    kept = decide(situation(sandbox(hold_until=hold.until, record=known(hold=hold))))
    gone = decide(situation(sandbox(record=known(hold=hold))))
    assert kept.reports["a"].record.hold == hold
    assert gone.reports["a"].record.hold is None


def test_a_hold_of_one_holds_for_all() -> None:
    plan = decide(
        situation(
            sandbox("a", desire=wanted("v1-b")),
            sandbox("b", desire=wanted("v1-b"), hold_until=raw(NOW + HOUR)),
        )
    )
    assert plan.rule == "keep"


def test_a_hold_of_one_who_does_not_count_holds_nothing() -> None:
    plan = decide(
        situation(
            sandbox("a", desire=wanted("v1-b")),
            sandbox("b", created_at=NOW, hold_until=raw(NOW + HOUR), last_used=raw(NOW)),
        )
    )
    assert plan.rule == "preflight"


# --- how seldom a use is written --------------------------------------------------------------------------


def test_a_use_is_recorded_once_per_hot_window() -> None:
    settled = situation(sandbox(record=known(last_used_at=ago(HOT))))

    def record_after(use: datetime) -> Record:
        claimants = (replace(settled.claimants[0], last_used=raw(use)),)
        return decide(replace(settled, claimants=claimants)).reports["a"].record

    assert record_after(ago(TICK)).last_used_at == ago(HOT)
    assert record_after(NOW).last_used_at == NOW


def test_a_use_is_recorded_with_whatever_else_is_written() -> None:
    plan = decide(situation(sandbox(record=known("other", last_used_at=ago(MINUTE)), last_used=raw(NOW))))
    assert plan.reports["a"].record.last_used_at == NOW


def test_without_a_hot_window_a_use_is_recorded_once_per_minute() -> None:
    off = wanted(hot=ZERO)
    for age, recorded_at in ((59 * SECOND, ago(59 * SECOND)), (MINUTE, NOW)):
        plan = decide(situation(sandbox(desire=off, record=known(last_used_at=ago(age)), last_used=raw(NOW))))
        assert plan.reports["a"].record.last_used_at == recorded_at


def test_the_reported_transition_stands_still_between_refreshes_but_the_alarm_does_not() -> None:
    settled = situation(sandbox(record=known(last_used_at=ago(2 * MINUTE))))
    touched = replace(settled, claimants=(replace(settled.claimants[0], last_used=raw(ago(MINUTE))),))
    first, second = decide(settled), decide(touched)
    assert first.reports == second.reports
    assert first.reports["a"].next is not None
    assert first.reports["a"].next.at == ago(2 * MINUTE) + IDLE
    assert second.wake_at is not None
    assert ago(MINUTE) + IDLE < second.wake_at < ago(MINUTE) + IDLE + SECOND


def test_windows_as_long_as_a_number_can_be_do_no_harm() -> None:
    forever = windows(
        hot=timedelta.max, idle=timedelta.max, max_age=timedelta.max, delete_after=timedelta.max
    )
    desire = replace(wanted(), windows=replace(forever, max_hold=timedelta.max))
    assert decide(situation(sandbox(desire=desire, hold_until=raw(NOW + HOUR)))).rule == "reuse"
