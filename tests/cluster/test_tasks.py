"""What the process cannot do without never ends unnoticed."""

import asyncio

import pytest

from sandkeeper.cluster.tasks import lasting


async def ends_as_if_cancelled() -> None:
    lost = asyncio.get_running_loop().create_future()
    lost.cancel()
    await lost


async def waits_for_ever() -> None:
    await asyncio.Event().wait()


async def run_both() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(lasting(ends_as_if_cancelled()))
        group.create_task(lasting(waits_for_ever()))


async def test_one_that_nobody_cancelled_ends_the_process() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await run_both()
    assert [type(error) for error in caught.value.exceptions] == [RuntimeError]


async def test_one_that_is_cancelled_is_cancelled() -> None:
    task = asyncio.create_task(lasting(waits_for_ever()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
