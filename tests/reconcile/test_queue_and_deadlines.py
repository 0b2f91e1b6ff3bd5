"""A key is looked at once for many events, never twice at a time, and when its deadline has come."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.config.operator import RemovalRate
from sandkeeper.reconcile.deadlines import Deadlines, next_look
from sandkeeper.reconcile.queue import KeyedQueue
from sandkeeper.reconcile.removals import RemovalBudget

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_key_that_waits_is_not_added_again() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for _ in range(3):
        queue.add("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    assert len(queue) == 0


async def test_a_key_that_is_worked_on_waits_until_it_is_given_back() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.05)
    queue.done("a")
    assert await asyncio.wait_for(queue.get(), 5) == "a"


async def test_what_can_wait_comes_after_what_somebody_waits_for_but_not_last_for_ever() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for number in range(3):
        queue.add_later(f"idle-{number}")
    for number in range(9):
        queue.add(f"new-{number}")
    taken = [await queue.get() for _ in range(12)]
    assert [key for key in taken if key.startswith("new")] == [f"new-{number}" for number in range(9)]
    assert [taken.index(f"idle-{number}") for number in range(3)] == [3, 7, 11]


async def test_what_was_begun_is_finished_first() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("new")
    queue.add("begun")
    queue.add_first("begun")
    queue.add_first("begun too")
    assert [await queue.get() for _ in range(3)] == ["begun", "begun too", "new"]


async def test_a_key_that_can_wait_no_longer_does_not_wait_twice() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_later("a")
    queue.add_later("b")
    queue.add("b")
    queue.add_later("b")
    assert [await queue.get(), await queue.get(), len(queue)] == ["b", "a", 0]


@given(st.lists(st.sampled_from("abcdefghixyz!"), max_size=60))
def test_no_key_is_lost_taken_twice_at_a_time_or_more_often_than_asked_for(steps: list[str]) -> None:
    """A letter asks for a, b or c, soon, later or first, or gives one back; ! takes whatever is next."""

    async def play() -> None:
        queue: KeyedQueue[str] = KeyedQueue()
        wanted, working = set[str](), set[str]()

        def ready() -> bool:
            return bool(wanted - working)

        for step in [*steps, *"xyz!xyz!xyz!xyz!"]:
            if step in "abc":
                queue.add(step)
                wanted.add(step)
            elif step in "def":
                key = "abc"["def".index(step)]
                queue.add_later(key)
                wanted.add(key)
            elif step in "ghi":
                key = "abc"["ghi".index(step)]
                queue.add_first(key)
                wanted.add(key)
            elif step == "!" and ready():
                key = await asyncio.wait_for(queue.get(), 5)
                assert key in wanted - working
                wanted.discard(key)
                working.add(key)
            elif step in "xyz" and (key := "abc"["xyz".index(step)]) in working:
                working.discard(key)
                queue.done(key)
            assert (len(queue), queue.working) == (len(wanted), len(working))
        assert not ready()

    asyncio.run(play())


async def test_idle_is_when_all_keys_were_given_back() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    await queue.get()
    waiting = asyncio.ensure_future(queue.idle())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done("a")
    await asyncio.wait_for(waiting, 5)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


async def test_deadlines_come_in_order_and_the_last_one_set_counts() -> None:
    clock = Clock()
    due: list[str] = []
    deadlines: Deadlines[str] = Deadlines(now=clock, on_due=due.append)
    deadlines.set("late", NOW + timedelta(seconds=20))
    deadlines.set("early", NOW + timedelta(seconds=10))
    deadlines.set("moved", NOW + timedelta(seconds=1))
    deadlines.set("moved", NOW + timedelta(seconds=30))
    deadlines.set("taken back", NOW + timedelta(seconds=1))
    deadlines.set("taken back", None)
    clock.now = NOW + timedelta(seconds=25)
    task = asyncio.ensure_future(deadlines.run())
    await asyncio.sleep(0.05)
    task.cancel()
    assert due == ["early", "late"]
    assert len(deadlines) == 1


async def test_a_deadline_that_has_passed_already_is_told_at_once() -> None:
    due = asyncio.Queue[str]()
    deadlines: Deadlines[str] = Deadlines(now=Clock(), on_due=due.put_nowait)
    task = asyncio.ensure_future(deadlines.run())
    await asyncio.sleep(0)
    deadlines.set("a", NOW - timedelta(seconds=1))
    assert await asyncio.wait_for(due.get(), 5) == "a"
    task.cancel()


async def test_deadlines_that_were_replaced_do_not_pile_up() -> None:
    deadlines: Deadlines[str] = Deadlines(now=Clock(), on_due=lambda _: None)
    for second in range(10_000):
        deadlines.set("a", NOW + timedelta(seconds=second + 1))
    assert len(deadlines._heap) < 200


KEYS = st.lists(st.tuples(st.floats(0, 5), st.sampled_from("abcdefgh")), max_size=200)


@given(per_minute=st.integers(1, 600), burst=st.integers(1, 50), asks=KEYS)
def test_removals_never_exceed_the_burst_and_the_rate(
    per_minute: int, burst: int, asks: list[tuple[float, str]]
) -> None:
    budget: RemovalBudget[str] = RemovalBudget(RemovalRate(per_minute=per_minute, burst=burst))
    now, taken = NOW, 0
    for pause, key in asks:
        now += timedelta(seconds=pause)
        turn = budget.take(key, now)
        taken += turn is None
        assert turn is None or turn > now
    assert taken <= burst + (now - NOW).total_seconds() * per_minute / 60 + 1e-6


def test_each_that_has_to_wait_is_given_a_turn_of_its_own() -> None:
    budget: RemovalBudget[int] = RemovalBudget(RemovalRate(per_minute=6, burst=1))
    assert budget.take(0, NOW) is None
    turns = [budget.take(key, NOW) for key in range(1, 4)]
    assert turns == [NOW + timedelta(seconds=seconds) for seconds in (10, 20, 30)]
    assert budget.take(2, NOW) == turns[1], "asking again does not move it"
    assert budget.take(1, NOW + timedelta(seconds=10)) is None


def test_a_turn_that_is_given_up_is_there_for_others() -> None:
    budget: RemovalBudget[str] = RemovalBudget(RemovalRate(per_minute=6, burst=1))
    assert budget.take("a", NOW) is None
    assert budget.take("b", NOW) == NOW + timedelta(seconds=10)
    budget.give_up("b")
    assert budget.take("c", NOW) == NOW + timedelta(seconds=10)


def test_a_clock_that_was_set_back_earns_nothing() -> None:
    budget: RemovalBudget[str] = RemovalBudget(RemovalRate(per_minute=6, burst=1))
    assert budget.take("a", NOW) is None
    assert budget.take("b", NOW - timedelta(days=1)) is not None


def test_a_key_is_looked_at_when_something_is_due_and_within_half_an_hour_in_any_case() -> None:
    soon, late = NOW + timedelta(seconds=5), NOW + timedelta(days=1)
    assert next_look([None, late, soon], now=NOW, share=0.5) == soon
    for moments in ([], [None], [late]):
        assert next_look(moments, now=NOW, share=0) == NOW + timedelta(minutes=15)
        assert next_look(moments, now=NOW, share=1) == NOW + timedelta(minutes=30)


class Ticks:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_queue_tells_how_long_keys_waited_and_are_worked_on() -> None:
    ticks, waited = Ticks(), list[float]()
    queue: KeyedQueue[str] = KeyedQueue(on_take=waited.append, clock=ticks)
    queue.add("a")
    ticks.now += 2
    queue.add_first("a")  # sooner, but not anew
    queue.add("b")
    ticks.now += 1
    await queue.get()
    assert (waited, queue.added) == ([3], 2)
    assert (queue.asked_at("a"), queue.asked_at("nobody's")) == (100, 103)
    ticks.now += 5
    queue.add("a")  # again, while it is worked on
    queue.add("a")
    await queue.get()
    assert (waited, queue.added) == ([3, 6], 3)
    assert queue.unfinished() == [5, 0]
    ticks.now += 1
    queue.done("a")
    assert queue.unfinished() == [1]
    await queue.get()
    assert waited == [3, 6, 1]
    assert queue.asked_at("a") == 108


async def test_how_late_a_deadline_was_told_is_told_too() -> None:
    now, ticks = [NOW], [0.0]
    due, lags = list[str](), list[float]()
    deadlines: Deadlines[str] = Deadlines(
        now=lambda: now[0], on_due=due.append, on_lag=lags.append, ticks=lambda: ticks[0]
    )
    deadlines.set("a", NOW - timedelta(seconds=2))
    deadlines.set("b", NOW + timedelta(hours=1))
    running = asyncio.create_task(deadlines.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (due, lags) == (["a"], [2])
    # After a clock was set back all are told, and how late says nothing.
    now[0] -= timedelta(hours=2)
    deadlines.set("c", NOW)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    assert sorted(due) == ["a", "b", "c"]
    assert lags == [2]
