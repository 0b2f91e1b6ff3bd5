"""Deadlines by a clock that somebody sets: what was reckoned by a wrong time holds nothing up."""

import asyncio
from datetime import UTC, datetime, timedelta

from sandkeeper.reconcile.deadlines import Deadlines

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clocks:
    """The one on the wall, and the one that nobody sets."""

    def __init__(self) -> None:
        self.now, self.ticks = NOW, 0.0


async def test_all_are_due_after_a_clock_was_set_back() -> None:
    """What was to be tried again in a second is not tried an hour later, and who has hours to wait reckons anew."""
    clock, due = Clocks(), asyncio.Queue[str]()
    deadlines: Deadlines[str] = Deadlines(
        now=lambda: clock.now, on_due=due.put_nowait, ticks=lambda: clock.ticks
    )
    task = asyncio.ensure_future(deadlines.run())
    deadlines.set("hours away", NOW + timedelta(hours=8))
    await asyncio.sleep(0)
    clock.now = NOW + timedelta(hours=1)
    deadlines.set("try again", clock.now + timedelta(seconds=1))
    clock.now = NOW
    deadlines.set("in the right time", NOW + timedelta(hours=2))
    assert {await asyncio.wait_for(due.get(), 5) for _ in range(3)} == {
        "hours away",
        "try again",
        "in the right time",
    }
    deadlines.set("later", NOW + timedelta(hours=3))
    await asyncio.sleep(0)
    assert due.empty(), "once is enough"
    task.cancel()


async def test_a_clock_that_goes_on_or_is_corrected_a_little_makes_nothing_due() -> None:
    clock, due = Clocks(), asyncio.Queue[str]()
    deadlines: Deadlines[str] = Deadlines(
        now=lambda: clock.now, on_due=due.put_nowait, ticks=lambda: clock.ticks
    )
    task = asyncio.ensure_future(deadlines.run())
    for second in range(100):
        clock.now, clock.ticks = NOW + timedelta(seconds=second * 0.9), float(second)
        deadlines.set("a", NOW + timedelta(hours=1))
        await asyncio.sleep(0)
    clock.now += timedelta(minutes=30)
    deadlines.set("b", NOW + timedelta(hours=1))
    await asyncio.sleep(0.05)
    assert due.empty()
    task.cancel()
