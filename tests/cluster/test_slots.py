"""Who should have a slot: the same for whoever asks, even enough, and what moves is of who comes or goes."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.cluster.slots import EVERY_SLOT, SLOTS, Shares, moves, owner_of, slot_of

NAMES = st.text("0123456789abcdef", min_size=10, max_size=10)
MEMBERS = st.sets(NAMES, min_size=1, max_size=12)
HOLDERS = st.dictionaries(st.sampled_from(sorted(EVERY_SLOT)), st.sampled_from("abcde"))


def owners(members: set[str]) -> dict[int, str | None]:
    return {slot: owner_of(slot, members) for slot in EVERY_SLOT}


def test_a_namespace_keeps_its_slot_for_ever() -> None:
    """Whoever changes this moves every namespace of every installation, under operators of two versions."""
    assert [slot_of(name) for name in ("default", "team-1", "team-2", "sandkeeper-system")] == [
        61,
        56,
        26,
        25,
    ]


def test_namespaces_are_spread_over_all_slots() -> None:
    found = Counter(slot_of(f"team-{number}") for number in range(6400))
    assert found.keys() == EVERY_SLOT
    assert max(found.values()) < 150


@given(MEMBERS)
def test_every_slot_has_one_owner_whoever_asks_in_whatever_order(members: set[str]) -> None:
    for slot, owner in owners(members).items():
        assert owner in members
        assert owner_of(slot, sorted(members, reverse=True)) == owner


def test_without_members_nobody_has_any() -> None:
    assert owner_of(0, set()) is None


@given(MEMBERS, NAMES)
def test_whoever_joins_takes_slots_and_none_moves_between_others(members: set[str], joining: str) -> None:
    before, after = owners(members), owners(members | {joining})
    moved = {slot for slot in EVERY_SLOT if before[slot] != after[slot]}
    assert {after[slot] for slot in moved} <= {joining}


@given(st.sets(NAMES, min_size=2, max_size=12), st.data())
def test_whoever_leaves_leaves_only_its_own(members: set[str], data: st.DataObject) -> None:
    leaving = data.draw(st.sampled_from(sorted(members)))
    before, after = owners(members), owners(members - {leaving})
    moved = {slot for slot in EVERY_SLOT if before[slot] != after[slot]}
    assert moved == {slot for slot in EVERY_SLOT if before[slot] == leaving}


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_shares_are_even_enough(count: int) -> None:
    """Of 500 groups of members: on average the fullest has no more than this many times its share."""
    worst = []
    for group in range(500):
        held = Counter(owners({f"{group}-{number}" for number in range(count)}).values())
        worst.append(max(held.values()) * count / SLOTS)
    assert sum(worst) / len(worst) < {2: 1.15, 3: 1.3, 4: 1.4, 8: 1.7}[count]
    assert max(worst) < {2: 1.5, 3: 1.8, 4: 2.1, 8: 2.8}[count]


@given(HOLDERS)
def test_what_is_written_is_read_again(holders: Mapping[int, str]) -> None:
    shares = Shares(holders)
    assert Shares.parse(shares.to_json()) == shares


def test_it_is_written_in_few_bytes() -> None:
    members = {f"{number:010x}" for number in range(8)}
    everything = Shares({slot: owner_of(slot, members) or "" for slot in EVERY_SLOT})
    assert len(everything.to_json()) < 400


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"a": 1}',
        '{"a": [64]}',
        '{"a": [-1]}',
        '{"a": ["1"]}',
        '{"a": [true]}',
        '{"a": [1], "b": [1]}',
    ],
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Shares.parse(text)


@given(HOLDERS, st.sets(st.sampled_from("abcde"), min_size=1), st.sets(st.sampled_from("abcde")), st.data())
def test_nothing_is_taken_from_who_may_be_at_work(
    holders: Mapping[int, str], members: set[str], gone: set[str], data: st.DataObject
) -> None:
    gone -= members
    member = data.draw(st.sampled_from(sorted(members)))
    shares = Shares(holders)
    take, give = moves(shares, member=member, members=members, gone=gone)
    for slot in take:
        assert owner_of(slot, members) == member
        assert holders.get(slot) in {None, member, *gone}
    for slot in give:
        assert holders[slot] == member != owner_of(slot, members)
    changed = shares.changed(member, take=take, give=give)
    for slot in EVERY_SLOT - take - give:
        assert changed.holders.get(slot) == holders.get(slot)
    assert moves(changed, member=member, members=members, gone=gone) == (take, frozenset()), (
        "then it is at rest"
    )
