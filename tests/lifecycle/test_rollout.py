"""How many runtimes of one policy may be away at once, and when no more go."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle.situations import HOUR, MINUTE, NOW, ago
from sandkeeper.config.rollouts import RolloutLimits
from sandkeeper.lifecycle import Counts, Failed, Member, Standing, is_stopped, room

FAILED = Failed(namespace="team", sandbox="rain", reason="ImageMissing")


def limits(amount: int | str = 1, *, max_failed: int = 0) -> RolloutLimits:
    return RolloutLimits(max_unavailable=amount, per_minute=None, max_failed=max_failed, paused=False)


def member(standing: Standing = Standing.CURRENT, *, failed: bool = False) -> Member:
    return Member(
        standing=standing,
        last_use=ago(HOUR),
        claimed_at=ago(HOUR),
        made_at=ago(HOUR),
        failed=FAILED if failed else None,
    )


@pytest.mark.parametrize(
    ("amount", "total", "most"),
    [
        (1, 0, 1),
        (3, 2, 3),
        ("25%", 0, 1),
        ("25%", 1, 1),
        ("25%", 4, 1),
        ("25%", 5, 2),
        ("25%", 8, 2),
        ("25%", 9, 3),
        ("1%", 100, 1),
        ("1%", 101, 2),
        ("100%", 7, 7),
        ("25%", 10_000, 2500),
    ],
)
def test_a_share_is_rounded_up_and_never_nothing(amount: int | str, total: int, most: int) -> None:
    assert limits(amount).most_away(total) == most


@pytest.mark.parametrize(
    ("one", "counted"),
    [
        (member(), Counts(total=1, current=1)),
        (member(Standing.DRIFTED), Counts(total=1, drifted=1)),
        (member(Standing.DRIFTED, failed=True), Counts(total=1, drifted=1, failed_kept=1)),
        (member(Standing.REPLACING), Counts(total=1, replacing=1)),
        (member(Standing.REPLACING, failed=True), Counts(total=1, replacing=1, failed_away=1)),
        (member(Standing.UNKNOWN), Counts(total=1)),
    ],
)
def test_each_is_counted_as_what_it_is(one: Member, counted: Counts) -> None:
    assert Counts().changed(one, 1) == counted
    assert Counts().changed(one, 1).unknown == (one.standing is Standing.UNKNOWN)


def test_what_is_counted_in_and_out_again_leaves_nothing() -> None:
    kinds = [
        member(),
        member(Standing.DRIFTED),
        member(Standing.DRIFTED, failed=True),
        member(Standing.REPLACING),
        member(Standing.REPLACING, failed=True),
        member(Standing.UNKNOWN),
    ]
    counts = Counts()
    for one in kinds:
        counts = counts.changed(one, 1)
    assert counts == Counts(total=6, current=1, drifted=2, replacing=2, failed_kept=1, failed_away=1)
    assert (counts.failed, counts.unknown) == (2, 1)
    for one in kinds:
        counts = counts.changed(one, -1)
    assert counts == Counts()


@pytest.mark.parametrize("counts", [Counts(failed_kept=1), Counts(failed_away=1)], ids=["kept", "away"])
def test_one_that_failed_stops_it_unless_that_is_allowed(counts: Counts) -> None:
    assert is_stopped(counts, limits())
    assert not is_stopped(counts, limits(max_failed=1))
    assert not is_stopped(Counts(), limits())
    assert is_stopped(Counts(failed_kept=1, failed_away=1), limits(max_failed=1))


def test_who_is_away_and_who_is_about_to_be_takes_room() -> None:
    assert room(Counts(total=10), limits(3)) == 3
    assert room(Counts(total=10, replacing=1), limits(3), going=1) == 1
    assert room(Counts(total=10, replacing=2), limits(3), going=1) == 0
    assert room(Counts(total=10, replacing=9), limits(3), going=9) == 0


def test_who_failed_takes_no_room_as_far_as_that_is_allowed() -> None:
    failed = Counts(total=10, replacing=2, failed_away=2)
    assert room(failed, limits(2)) == 0
    assert room(failed, limits(2, max_failed=1)) == 1
    assert room(failed, limits(2, max_failed=2)) == 2
    assert room(failed, limits(2, max_failed=3)) == 2
    assert room(Counts(total=10, replacing=1, failed_kept=1), limits(2, max_failed=1)) == 1


@given(
    total=st.integers(0, 50),
    replacing=st.integers(0, 50),
    failed=st.integers(0, 50),
    going=st.integers(0, 50),
    amount=st.integers(1, 50) | st.integers(1, 100).map(lambda share: f"{share}%"),
    max_failed=st.integers(0, 5),
)
def test_never_are_more_away_than_may_be_and_those_that_failed(
    *, total: int, replacing: int, failed: int, going: int, amount: int | str, max_failed: int
) -> None:
    failed = min(failed, replacing)
    found = limits(amount, max_failed=max_failed)
    counts = Counts(total=total, replacing=replacing, failed_away=failed)
    free = room(counts, found, going=going)
    assert free >= 0
    if free:
        assert replacing + going + free <= found.most_away(total) + min(failed, max_failed)
        assert room(counts, found, going=going + 1) == free - 1


def test_one_counts_as_replaced_where_it_was_made_anew_for_a_sandbox_that_was_there_before() -> None:
    start = ago(MINUTE)

    def replaced(standing: Standing, *, claimed: timedelta, made: timedelta) -> bool:
        one = Member(standing=standing, last_use=NOW, claimed_at=ago(claimed), made_at=ago(made))
        return one.was_replaced_since(start)

    assert replaced(Standing.CURRENT, claimed=HOUR, made=MINUTE)
    assert replaced(Standing.CURRENT, claimed=HOUR, made=timedelta())
    assert not replaced(Standing.CURRENT, claimed=HOUR, made=HOUR)
    assert not replaced(Standing.CURRENT, claimed=MINUTE, made=MINUTE), "it is new, and replaces none"
    assert not replaced(Standing.DRIFTED, claimed=HOUR, made=timedelta())


def test_the_name_of_a_sandbox_stays_in_its_namespace() -> None:
    assert FAILED.told_in("team") == "rain (ImageMissing)"
    assert FAILED.told_in("other") == "one in another namespace (ImageMissing)"
