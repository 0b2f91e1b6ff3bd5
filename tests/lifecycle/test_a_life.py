"""Whatever happens, in whatever order: what was promised is kept, and in the end there is peace."""

from collections.abc import Iterator
from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lifecycle.situations import DAY, HOT, HOUR, IDLE, MINUTE, OLD, SECOND, TICK
from lifecycle.world import CONFIGS, MAX_HOLD, Box, World, outcome
from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.lifecycle import Record, RuntimeState

KEYS = ("k1", "k2")
HOMES = (*KEYS, None)
AT_REST = {
    Phase.READY,
    Phase.NOT_SANDBOXED,
    Phase.PRUNED,
    Phase.STOPPED,
    Phase.FAILED,  # what cannot be resolved, or does not count
}

some = st.integers(0, 99)
"""Picks one of however many there are."""


class QuietLife(RuleBasedStateMachine):
    """A few Sandboxes that are used, held, changed and moved, and an operator that may die at any step."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.passes: dict[str, Iterator[str]] = {}

    def box(self, pick: int) -> Box:
        boxes = list(self.world.boxes.values())
        return boxes[pick % len(boxes)]

    @initialize(
        homes=st.lists(st.sampled_from([*KEYS, "k1"]), min_size=1, max_size=3),
        config=st.sampled_from(CONFIGS),
    )
    def it_begins_with_a_few(self, homes: list[str], config: str) -> None:
        for home in homes:
            self.world.add(home, config)
        self.world.settle()

    # --- users and clients --------------------------------------------------------------------------------

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some, behind=st.sampled_from([timedelta(), timedelta(), timedelta(), MINUTE, 2 * DAY]))
    def somebody_uses_it(self, pick: int, behind: timedelta) -> None:
        self.world.touch(self.box(pick), behind=behind)

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some, length=st.sampled_from([None, HOT, HOUR, MAX_HOLD, 2 * DAY]))
    def somebody_holds_it_or_lets_go(self, pick: int, length: timedelta | None) -> None:
        self.world.hold(self.box(pick), length)

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some, config=st.sampled_from(CONFIGS))
    def its_configuration_changes(self, pick: int, config: str) -> None:
        for box in self.world.boxes.values():
            if box.home == self.box(pick).home:
                box.config = config

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some)
    def a_new_one_is_asked_for(self, pick: int) -> None:
        box = self.box(pick)
        box.recreate = f"{box.version}"
        box.version += 1

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some, with_all=st.booleans())
    def a_fresh_copy_is_asked_for(self, pick: int, *, with_all: bool) -> None:
        asking = self.box(pick)
        for box in self.world.boxes.values():
            if box is asking or (with_all and box.home == asking.home):
                self.world.ask_for_a_fresh_copy(box)

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some)
    def a_fresh_copy_is_wanted_no_longer(self, pick: int) -> None:
        box = self.box(pick)
        box.wipe = None
        box.version += 1

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some, home=st.sampled_from(HOMES))
    def its_identity_moves(self, pick: int, home: str | None) -> None:
        self.box(pick).home = home

    # --- the world ----------------------------------------------------------------------------------------

    @rule(
        length=st.sampled_from(
            [TICK, SECOND, MINUTE, HOT - TICK, HOT, HOUR, MAX_HOLD, IDLE, IDLE + TICK, OLD + TICK, 5 * DAY]
        )
    )
    def time_passes(self, length: timedelta) -> None:
        self.world.time += length

    @rule(slow=st.booleans())
    def the_backend_is_slow_or_quick(self, *, slow: bool) -> None:
        self.world.slow = slow

    @rule()
    def what_is_on_its_way_arrives(self) -> None:
        self.world.nature()

    @rule(key=st.sampled_from(KEYS))
    def a_command_begins_or_ends(self, key: str) -> None:
        for each in self.world.runtimes.get(key, []):
            if each.state is RuntimeState.RUNNING:
                self.world.change(key, each.id, in_use=not each.in_use)

    # --- the operator -------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.keys())
    @rule(pick=some, steps=st.integers(1, 3))
    def the_operator_takes_a_step(self, pick: int, steps: int) -> None:
        keys = self.world.keys()
        key = keys[pick % len(keys)]
        going = self.passes.setdefault(key, self.world.run(key))
        for _ in range(steps):
            if next(going, None) is None:
                self.passes.pop(key, None)
                break

    @rule()
    def the_operator_works_through_its_queue(self) -> None:
        keys = self.world.keys()
        for key in keys:
            for _ in self.passes.pop(key, None) or self.world.run(key):
                pass

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some, steps=st.integers(1, 4), idle=st.sampled_from([HOT, IDLE + TICK]))
    def somebody_is_quicker_than_the_operator(self, pick: int, steps: int, idle: timedelta) -> None:
        world, box = self.world, self.box(pick)
        world.time += idle
        key = world.bound(box)
        going = self.passes.pop(key, None) or world.run(key)
        for _ in range(steps):
            next(going, None)
        world.touch(box)
        for _ in going:
            pass

    @rule()
    def the_operator_dies_and_comes_back(self) -> None:
        self.passes.clear()
        self.world.crash()

    # --- what holds ---------------------------------------------------------------------------------------

    @invariant()
    def there_is_at_most_one_runtime_for_a_key(self) -> None:
        assert all(len(there) <= 1 for there in self.world.runtimes.values())

    def teardown(self) -> None:
        world = self.world
        self.passes.clear()
        world.mend()
        world.settle()
        reached, effects, writes = outcome(world), world.effects, world.writes
        for box in world.boxes.values():
            assert box.paused or self.is_at_rest(box)
        world.crash()
        world.settle()
        assert outcome(world) == reached
        assert (world.effects, world.writes) == (effects, writes)
        self.whoever_is_pruned_can_be_woken()
        self.what_all_ask_for_comes_when_nobody_uses_it()

    def what_all_ask_for_comes_when_nobody_uses_it(self) -> None:
        world = self.world
        for key, there in world.runtimes.items():
            for each in there:
                world.change(key, each.id, in_use=False)
        # A hold is capped from when it was first seen; and by a clock that was ahead, a use may lie a day ahead.
        for _ in range(6):
            world.time += MAX_HOLD + HOT
            world.settle()
        for key in KEYS:
            sharers = [box for box in world.boxes.values() if world.bound(box) == key and world.counts(box)]
            if sharers and all(box.ready and not box.paused for box in sharers):
                asking = [box for box in sharers if box.wipe is not None and box.wipe not in box.wiped_for]
                assert len(asking) < len(sharers)

    def whoever_is_pruned_can_be_woken(self) -> None:
        for box in list(self.world.boxes.values()):
            if box.report is not None and box.report.phase is Phase.PRUNED and not box.paused:
                self.world.touch(box, behind=30 * DAY)
                self.world.settle()
                assert box.ready or box.report.readiness.reason is Reason.PAUSED

    def is_at_rest(self, box: Box) -> bool:
        assert box.report is not None
        if box.report.phase in AT_REST:
            return True
        # Nothing is done for one whose sharer is paused, whatever was going on.
        key = self.world.bound(box)
        sharers = [other for other in self.world.boxes.values() if self.world.bound(other) == key]
        return box.report.readiness.reason is Reason.PAUSED and any(other.paused for other in sharers)


class Life(QuietLife):
    """Everything else that can happen comes on top."""

    @precondition(lambda self: len(self.world.boxes) < 4)
    @rule(
        home=st.sampled_from(HOMES),
        config=st.sampled_from(CONFIGS),
        stopped=st.booleans(),
        wipe=st.sampled_from([None, None, "from the start"]),
    )
    def somebody_asks_for_a_sandbox(
        self, *, home: str | None, config: str, stopped: bool, wipe: str | None
    ) -> None:
        self.world.add(home, config, stopped=stopped and config == CONFIGS[1], wipe=wipe)

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some, config=st.sampled_from(CONFIGS))
    def one_wants_something_else_than_the_others(self, pick: int, config: str) -> None:
        self.box(pick).config = config

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some)
    def it_is_stopped_or_to_run_again(self, pick: int) -> None:
        box = self.box(pick)
        self.world.stop(box, stopped=not box.stopped)

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some)
    def it_is_paused_or_no_longer(self, pick: int) -> None:
        box = self.box(pick)
        box.paused = not box.paused
        box.version += 1

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some)
    def its_policy_goes_or_comes_back(self, pick: int) -> None:
        box = self.box(pick)
        box.resolvable = not box.resolvable

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some)
    def it_is_deleted(self, pick: int) -> None:
        del self.world.boxes[self.box(pick).uid]

    @precondition(lambda self: self.world.boxes)
    @rule(pick=some)
    def its_status_is_lost(self, pick: int) -> None:
        box = self.box(pick)
        box.report, box.record, box.recorded_key = None, Record(), None
        box.version += 1
        box.promises.clear()
        box.had.clear()  # where its runtime is gone as well, nobody knows of it any more

    @rule(error=st.sampled_from([timedelta(), -2 * DAY, -HOUR, -MINUTE, MINUTE, DAY]))
    def the_operators_clock_is_wrong_or_right(self, error: timedelta) -> None:
        self.world.error = error

    @rule()
    def the_image_goes_or_comes(self) -> None:
        self.world.image_missing = not self.world.image_missing

    @rule()
    def the_engine_goes_or_comes(self) -> None:
        self.world.engine_down = not self.world.engine_down

    @rule(key=st.sampled_from(KEYS), vanishes=st.booleans())
    def a_runtime_dies(self, key: str, *, vanishes: bool) -> None:
        for each in self.world.runtimes.get(key, []):
            if vanishes:
                self.world.runtimes[key] = []
            elif each.state in {RuntimeState.RUNNING, RuntimeState.STARTING}:
                self.world.change(key, each.id, state=RuntimeState.FAILED, in_use=False)


TestQuietLife = QuietLife.TestCase
TestLife = Life.TestCase
TestQuietLife.settings = TestLife.settings = settings(
    max_examples=settings().max_examples * 5 // 2,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
