"""What is led is worked on once all is known, and not before."""

import asyncio

from sandkeeper.cluster.slots import slot_of
from sandkeeper.reconcile.handover import Handover

SLOT = slot_of("team-1")
OTHER = slot_of("team-2")


class Scene:
    def __init__(self) -> None:
        self.told: list[tuple[frozenset[int], frozenset[int]]] = []
        self.asked = 0
        self.answers = asyncio.Semaphore(0)
        self.handover = Handover(catch_up=self.catch_up, on_change=lambda *told: self.told.append(told))

    async def catch_up(self) -> None:
        self.asked += 1
        await self.answers.acquire()

    def lead(self, *gained: int, lost: tuple[int, ...] = ()) -> None:
        self.handover.change(frozenset(lost), frozenset(gained))

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def answer(self) -> None:
        self.answers.release()
        await self.settle()


async def test_nothing_is_ready_before_the_caches_are_as_new_as_the_lead() -> None:
    scene = Scene()
    running = asyncio.create_task(scene.handover.run())
    scene.lead(SLOT)
    await scene.settle()
    assert scene.asked == 1
    assert not scene.handover.is_ready("team-1")
    assert scene.told == []
    await scene.answer()
    assert scene.handover.is_ready("team-1")
    assert not scene.handover.is_ready("team-2")
    assert scene.told == [(frozenset(), frozenset({SLOT}))]
    scene.lead(lost=(SLOT,))
    assert not scene.handover.is_ready("team-1")
    assert scene.told[1:] == [(frozenset({SLOT}), frozenset())]
    running.cancel()


async def test_what_comes_while_the_caches_are_compared_waits_for_the_next_time() -> None:
    scene = Scene()
    running = asyncio.create_task(scene.handover.run())
    scene.lead(SLOT)
    await scene.settle()
    scene.lead(OTHER)
    scene.lead(SLOT, lost=(SLOT,))  # somebody else may have had it meanwhile
    await scene.answer()
    assert not scene.handover.is_ready("team-1")
    assert not scene.handover.is_ready("team-2")
    assert scene.asked == 2
    await scene.answer()
    assert scene.handover.is_ready("team-1")
    assert scene.handover.is_ready("team-2")
    assert scene.told[-1] == (frozenset(), frozenset({SLOT, OTHER}))
    running.cancel()
