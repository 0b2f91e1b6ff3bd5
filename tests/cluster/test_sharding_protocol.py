"""Whatever freezes, crashes, is cut off, arrives late or never: a slot has never two who believe that it is theirs."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.simulated import NAMESPACES, Member, World
from sandkeeper.cluster.leases import LEASE_SECONDS
from sandkeeper.cluster.slots import EVERY_SLOT, owner_of, slot_of

MOST = 4
NUMBERS = st.integers(0, MOST - 1)
STEPS = st.integers(0, 5)
"""What one does in a row are four requests: two for its lease, the list, and the change of the record."""
SECONDS = st.sampled_from([2, 6, 8, 12, 16, 26])
SOME_NAMESPACES = st.sampled_from(sorted(NAMESPACES.values()))


class Protocol(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.deleted_at = 0.0

    def one(self, number: int) -> Member | None:
        running = self.world.running
        return running[number % len(running)] if running else None

    # What happens.

    @initialize(count=st.integers(1, 3), seconds=st.sampled_from([0, 2, 30]))
    def some_are_there(self, count: int, seconds: float) -> None:
        for _ in range(count):
            self.world.add()
        self.world.go_on(seconds)

    @precondition(lambda self: len(self.world.running) < MOST)
    @rule(offset=st.sampled_from([0, -500, 1e6]), alone=st.sampled_from([False, False, False, True]))
    def another_begins(self, *, offset: float, alone: bool) -> None:
        """Mostly of the same kind; but an installation may be changed over while it runs."""
        self.world.add(clock_offset=offset, alone=alone)

    @rule(seconds=st.sampled_from([2, 6]))
    def all_go_on(self, seconds: float) -> None:
        self.world.go_on(seconds)

    @rule(number=NUMBERS, before=STEPS, arrives=st.booleans(), seconds=SECONDS, after=STEPS)
    def one_is_frozen(self, number: int, *, before: int, arrives: bool, seconds: float, after: int) -> None:
        """Stop one in the middle of what it does, and go on with it after a while, for some steps.

        Its last request has arrived when it stops, or arrives when it goes on. The others notice nothing but that it is
        silent.
        """
        member = self.one(number)
        if member is not None:
            member.go(before)
            if arrives and member.call is not None:
                member.call.arrive()
            self.world.go_on(seconds, besides=member)
            self.world.now += 0.3
            self.nobody_has_what_another_has()
            member.go(after)

    @rule(number=NUMBERS, before=STEPS, arrives=st.booleans(), seconds=SECONDS, after=STEPS)
    def one_is_cut_off(self, number: int, *, before: int, arrives: bool, seconds: float, after: int) -> None:
        """Lose the answer that one waits for, and all its requests for a while; then let it go on for some steps."""
        member = self.one(number)
        if member is not None:
            member.go(before)
            if member.call is not None:
                if arrives:
                    member.call.arrive()
                member.lose()
            self.world.go_on(seconds, besides=member)
            self.nobody_has_what_another_has()
            member.go(after)

    @precondition(lambda self: self.world.strays)
    @rule(number=st.integers(0, 100))
    def what_was_lost_arrives(self, number: int) -> None:
        strays = self.world.strays
        strays.pop(number % len(strays)).arrive()

    @rule(number=NUMBERS)
    def one_crashes(self, number: int) -> None:
        member = self.one(number)
        if member is not None:
            member.crash()

    @rule(number=NUMBERS)
    def one_is_told_to_leave(self, number: int) -> None:
        member = self.one(number)
        if member is not None and member.idle:
            member.leaving = True

    @precondition(lambda self: self.world.now - self.deleted_at > 3 * LEASE_SECONDS)
    @rule()
    def somebody_deletes_the_record(self) -> None:
        """Once; who does so again and again is not guarded against."""
        self.world.store.objects.pop("test-shards", None)
        self.deleted_at = self.world.now

    # What they do with it.

    @rule(number=NUMBERS, namespace=SOME_NAMESPACES, lasting=st.booleans())
    def one_begins_to_work(self, number: int, namespace: str, lasting: bool) -> None:  # noqa: FBT001 - drawn
        member = self.one(number)
        if member is not None and member.lead.leads(namespace):
            assert member.may_act(namespace)
            (member.work.long if lasting else member.work.short).add(namespace)

    @rule(number=NUMBERS)
    def one_finishes_its_work(self, number: int) -> None:
        member = self.one(number)
        if member is not None:
            member.work.short.clear()
            member.work.long.clear()

    # What must never be.

    @invariant()
    def nobody_has_what_another_has(self) -> None:
        held = Counter(slot for member in self.world.running for slot in member.believes)
        assert not [slot for slot, count in held.items() if count > 1]

    @invariant()
    def who_may_begin_may_act(self) -> None:
        for member in self.world.running:
            assert member.lead.terms.keys() <= member.believes

    # And what must come to be.

    def teardown(self) -> None:
        for member in self.world.running:
            if member.call is not None:
                member.lose()
            member.work.short.clear()
            member.work.long.clear()
        for member in self.world.running:
            if member.alone:
                member.leaving = True
        self.world.go_on(3 * LEASE_SECONDS)
        self.nobody_has_what_another_has()
        staying = {member.sharding.name: member for member in self.world.running}
        for slot in EVERY_SLOT if staying else ():
            owner = owner_of(slot, staying.keys())
            assert owner is not None
            assert slot in staying[owner].sharding.terms
        left = {name.removeprefix("test-member-") for name in self.world.store.objects if "-member-" in name}
        assert left == staying.keys() or not staying, "who is gone is cleared away"


Protocol.TestCase.settings = settings(stateful_step_count=40)
TestProtocol = Protocol.TestCase


def all_slots(world: World) -> dict[str, frozenset[int]]:
    return {member.sharding.name: frozenset(member.sharding.terms) for member in world.running}


def test_the_first_has_everything_at_once() -> None:
    world = World()
    first = world.add()
    first.finish()
    assert first.sharding.terms.keys() == EVERY_SLOT


def test_only_what_is_the_joining_ones_moves() -> None:
    world = World()
    for _ in range(3):
        world.add()
    world.go_on(30)
    before = all_slots(world)
    terms = {member.sharding.name: dict(member.sharding.terms) for member in world.running}
    joining = world.add()
    world.go_on(6)
    after = all_slots(world)
    assert after[joining.sharding.name]
    assert sum(map(len, after.values())) == len(EVERY_SLOT)
    for name, slots in before.items():
        assert after[name] <= slots
        assert slots - after[name] <= after[joining.sharding.name]
        for member in world.running:
            if member.sharding.name == name:
                kept = member.sharding.terms
                assert {slot: terms[name][slot] for slot in kept} == kept, "what stays is not even told"


def test_who_leaves_in_order_is_not_waited_for() -> None:
    world = World()
    for _ in range(3):
        world.add()
    world.go_on(30)
    leaving = world.members[0]
    leaving.leaving = True
    leaving.finish()
    assert leaving.over
    assert not leaving.believes
    world.go_on(2)
    assert sum(map(len, all_slots(world).values())) == len(EVERY_SLOT)


def test_who_crashes_is_waited_for_a_whole_lease_and_no_longer() -> None:
    world = World()
    for _ in range(3):
        world.add()
    world.go_on(30)
    crashed, *others = world.members
    lost = frozenset(crashed.sharding.terms)
    before = {one: frozenset(one.sharding.terms) for one in others}
    crashed.crash()
    world.go_on(LEASE_SECONDS - 2)
    assert all_slots(world) == {one.sharding.name: before[one] for one in others}
    world.go_on(6)
    gained = frozenset[int]().union(*(one.sharding.terms.keys() - before[one] for one in others))
    assert gained == lost


def test_a_slot_in_which_something_is_done_stays_until_that_is_over() -> None:
    world = World()
    first = world.add()
    world.go_on(4)
    second = world.add()
    names = {first.sharding.name, second.sharding.name}
    moving = [slot for slot in EVERY_SLOT if owner_of(slot, names) == second.sharding.name]
    passing, lasting = NAMESPACES[moving[0]], NAMESPACES[moving[1]]
    first.work.short.add(passing)
    first.work.long.add(lasting)
    world.go_on(10)
    assert second.sharding.terms.keys() == {*moving} - {slot_of(passing), slot_of(lasting)}
    assert first.may_act(passing), "what was begun may be finished"
    assert not first.sharding.leads(passing), "and nothing more is begun"
    assert first.sharding.leads(lasting), "which would have to wait too long here"
    first.work.short.clear()
    first.work.long.clear()
    world.go_on(4)
    assert second.sharding.terms.keys() == {*moving}


@pytest.mark.parametrize("late", [0, 0.4, 0.9, 1.4, 1.9])
def test_its_own_time_is_over_before_anybody_takes_a_slot(late: float) -> None:
    world = World()
    first, second = world.add(), world.add()
    world.go_on(30)
    own = first.believes
    world.now += late
    first.finish()
    for _ in range(150):
        world.now += 0.1
        second.finish()
        assert not first.believes & second.believes
    assert own <= second.believes


def test_of_two_that_change_the_record_at_once_one_is_refused() -> None:
    world = World()
    for member in (world.add(), world.add()):
        member.finish()
        member.leaving = True
        member.finish()  # the record is there, and nobody has anything
    first, second = world.add(), world.add()
    first.go(4)
    assert first.call is not None, "it sees itself alone, and is about to take everything"
    second.finish()
    held = second.believes
    assert held
    first.go(10)
    assert not first.believes
    world.go_on(4)
    assert first.believes == EVERY_SLOT - second.believes


def test_a_record_that_is_missing_each_time_that_one_looks_may_have_been_there_in_between() -> None:
    world = World()
    first = world.add()
    world.go_on(4)
    second = world.add()
    world.store.objects.pop("test-shards")
    second.finish()
    world.go_on(14, besides=second)
    assert first.believes == EVERY_SLOT, (
        "it has made another, once nobody could believe in the old one any more"
    )
    world.store.objects.pop("test-shards")
    second.finish()
    assert not second.believes


def test_while_several_share_nobody_leads_alone_and_the_other_way_round() -> None:
    world = World()
    sharing = [world.add(), world.add()]
    world.go_on(30)
    alone = world.add(alone=True)
    world.go_on(30)
    assert not alone.believes
    for member in sharing:
        member.leaving = True
        member.finish()
    world.go_on(4)
    assert alone.believes == EVERY_SLOT
    back = world.add()
    world.go_on(30)
    assert not back.believes
    alone.crash()
    world.go_on(LEASE_SECONDS + 4)
    assert back.believes == EVERY_SLOT


def test_nothing_is_taken_by_a_record_that_nobody_can_read() -> None:
    world = World()
    first = world.add()
    world.go_on(4)
    record = world.store.objects["test-shards"]
    record["metadata"]["annotations"]["sandkeeper.dev/shares"] = "what?"
    second = world.add()
    for member in (first, second):
        try:
            member.finish()
        except ValueError:
            continue
        raise AssertionError("it has to be told")
    assert first.sharding.terms.keys() == EVERY_SLOT
    assert not second.sharding.terms


def test_who_leaves_a_record_that_nobody_can_read_leaves_it_to_who_mends_it() -> None:
    world = World()
    leaving, staying = world.add(), world.add()
    world.go_on(30)
    annotations = world.store.objects["test-shards"]["metadata"]["annotations"]
    readable = annotations["sandkeeper.dev/shares"]
    annotations["sandkeeper.dev/shares"] = "what?"
    leaving.leaving = True
    leaving.finish()
    assert leaving.over
    assert world.store.objects.keys() == {"test-shards", f"test-member-{staying.sharding.name}"}
    annotations = world.store.objects["test-shards"]["metadata"]["annotations"]
    assert annotations["sandkeeper.dev/shares"] == "what?"
    annotations["sandkeeper.dev/shares"] = readable
    world.go_on(LEASE_SECONDS + 6)
    assert staying.believes == EVERY_SLOT
