"""Wherever the process dies, the next one brings everything to the same place."""

from collections.abc import Callable
from itertools import islice

import pytest

from lifecycle.situations import DAY, HOT, HOUR, IDLE, OLD, TICK
from lifecycle.world import CONFIGS, World, outcome
from sandkeeper.lifecycle import RuntimeState

PLAIN, OTHER, SETUP, OTHER_SETUP = CONFIGS[0], CONFIGS[1], CONFIGS[2], CONFIGS[3]


def settled(*homes: str | None, config: str = SETUP) -> World:
    """A world in which everything runs, and is cold but not idle."""
    world = World()
    for home in homes:
        world.add(home, config)
    world.settle()
    world.time += HOUR
    return world


def is_new() -> World:
    world = World()
    world.add("k1", SETUP)
    world.add("k1", SETUP)
    return world


def is_changed(config: str = OTHER_SETUP) -> World:
    world = settled("k1", "k1")
    for box in world.boxes.values():
        box.config = config
    return world


def is_changed_while_hot() -> World:
    world = is_changed()
    world.touch(world.boxes["box0"])
    return world


def is_asked_for_again() -> World:
    world = settled("k1", "k1")
    world.boxes["box1"].recreate = "please"
    return world


def is_to_have_a_fresh_copy() -> World:
    world = settled("k1", "k1")
    for box in world.boxes.values():
        world.ask_for_a_fresh_copy(box)
    return world


def is_to_have_a_fresh_copy_as_one_of_two_wishes() -> World:
    world = settled("k1", "k1")
    world.ask_for_a_fresh_copy(world.boxes["box1"])
    return world


def is_to_have_a_fresh_copy_from_the_start() -> World:
    world = World()
    world.add("k1", SETUP, wipe="1")
    world.add("k1", SETUP, wipe="2")
    return world


def is_woken_with_a_fresh_copy() -> World:
    world = is_woken()
    for box in world.boxes.values():
        world.ask_for_a_fresh_copy(box)
    return world


def is_dead_and_to_have_a_fresh_copy() -> World:
    world = is_to_have_a_fresh_copy()
    world.change("k1", "r1", state=RuntimeState.FAILED)
    return world


def is_idle() -> World:
    world = settled("k1", "k1")
    world.time += IDLE
    return world


def is_too_old() -> World:
    world = settled("k1", "k1")
    world.time += OLD - HOUR - HOT
    world.touch(world.boxes["box0"])
    world.settle()
    world.time += HOT + TICK
    return world


def is_woken() -> World:
    world = is_idle()
    world.settle()
    world.touch(world.boxes["box1"], behind=9 * DAY)
    return world


def is_woken_by_a_newcomer() -> World:
    world = is_idle()
    world.settle()
    world.add("k1", SETUP)
    return world


def is_stopped() -> World:
    world = settled("k1", "k1")
    for box in world.boxes.values():
        box.stopped = True
    return world


def is_to_run_again() -> World:
    world = is_stopped()
    world.settle()
    world.time += 3 * DAY
    for box in world.boxes.values():
        box.stopped = False
    return world


def is_to_run_again_changed() -> World:
    world = is_to_run_again()
    for box in world.boxes.values():
        box.config = OTHER
    return world


def is_dead() -> World:
    world = settled("k1", "k1")
    world.change("k1", "r1", state=RuntimeState.FAILED)
    return world


def is_missing() -> World:
    world = settled("k1", "k1")
    world.runtimes.clear()
    return world


def is_moved_alone() -> World:
    world = settled("k1")
    world.boxes["box0"].home = "k2"
    return world


def is_moved_away_from_another() -> World:
    world = settled("k1", "k1")
    world.boxes["box0"].home = "k2"
    return world


def has_changed_places() -> World:
    world = settled("k1", "k2")
    world.boxes["box0"].home, world.boxes["box1"].home = "k2", "k1"
    return world


def is_not_sandboxed_any_more() -> World:
    world = settled("k1", "k1")
    for box in world.boxes.values():
        box.home = None
    return world


def is_half_deleted() -> World:
    world = settled("k1", "k1")
    del world.boxes["box0"]
    return world


def is_deleted() -> World:
    world = settled("k1", "k1")
    world.boxes.clear()
    return world


def is_to_be_deleted_for_having_been_pruned_for_long() -> World:
    world = is_idle()
    world.settle()
    world.time += 5 * DAY
    return world


def has_lost_its_status() -> World:
    world = settled("k1", "k1", config=PLAIN)
    box = world.boxes["box0"]
    box.report, box.recorded_key = None, None
    box.record = type(box.record)()
    return world


SCENES = [
    is_new,
    is_changed,
    is_changed_while_hot,
    is_asked_for_again,
    is_to_have_a_fresh_copy,
    is_to_have_a_fresh_copy_as_one_of_two_wishes,
    is_to_have_a_fresh_copy_from_the_start,
    is_woken_with_a_fresh_copy,
    is_dead_and_to_have_a_fresh_copy,
    is_idle,
    is_too_old,
    is_woken,
    is_woken_by_a_newcomer,
    is_stopped,
    is_to_run_again,
    is_to_run_again_changed,
    is_dead,
    is_missing,
    is_moved_alone,
    is_moved_away_from_another,
    has_changed_places,
    is_not_sandboxed_any_more,
    is_half_deleted,
    is_deleted,
    is_to_be_deleted_for_having_been_pruned_for_long,
    has_lost_its_status,
]


@pytest.mark.parametrize("slow", [False, True], ids=["quick", "slow"])
@pytest.mark.parametrize("scene", SCENES)
def test_the_same_comes_of_what(scene: Callable[[], World], *, slow: bool) -> None:
    undisturbed = scene()
    undisturbed.slow = slow
    steps = sum(1 for _ in undisturbed.journey())
    assert steps
    for done in range(steps + 1):
        world = scene()
        world.slow = slow
        for _ in islice(world.journey(), done):
            pass
        world.crash()
        world.settle()
        assert outcome(world) == outcome(undisturbed)
        assert {key for key, there in world.runtimes.items() if there} == {
            key for key, there in undisturbed.runtimes.items() if there
        }


@pytest.mark.parametrize("scene", SCENES)
def test_the_same_comes_of_what_however_often_the_process_dies(scene: Callable[[], World]) -> None:
    undisturbed, world = scene(), scene()
    undisturbed.settle()
    for _ in range(20):  # a process that dies young gets somewhere, or at least nowhere else
        for _ in islice(world.journey(), 6):
            pass
        world.crash()
    world.settle()
    assert outcome(world) == outcome(undisturbed)


@pytest.mark.parametrize("slow", [False, True], ids=["quick", "slow"])
@pytest.mark.parametrize("pace", range(1, 6))
def test_two_that_change_places_arrive_whichever_key_is_quicker(pace: int, *, slow: bool) -> None:
    world = has_changed_places()
    world.slow = slow
    passes = {key: world.run(key) for key in ("k1", "k2")}
    for turn in range(200):
        key = "k1" if turn % pace else "k2"
        if next(passes[key], None) is None:
            passes[key] = world.run(key)
        if turn % 7 == 0:
            world.nature()
    world.crash()
    world.settle()
    for box in world.boxes.values():
        assert box.ready
        assert box.recorded_key == box.home
        assert box.record.recoveries == 0
    assert world.made <= 4
