"""Threads that may hang: nobody waits for them who does not want to, the end of the process least of all."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from sandkeeper.runtimes.docker.pool import DaemonPool


@pytest.fixture
def pool(request: pytest.FixtureRequest) -> Iterator[DaemonPool]:
    """One with a name of its own: the threads of another test's may take a moment to end."""
    made = DaemonPool(size=2, name=request.node.name)
    yield made
    made.close()


async def test_results_and_errors_come_back(pool: DaemonPool) -> None:
    assert await pool.submit(lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        await pool.submit(lambda: 1 / 0)


async def test_no_more_threads_than_allowed_and_none_before_they_are_needed(
    pool: DaemonPool, request: pytest.FixtureRequest
) -> None:
    def ours() -> int:
        return sum(thread.name.startswith(request.node.name) for thread in threading.enumerate())

    assert ours() == 0
    await pool.submit(lambda: None)
    assert ours() == 1
    await asyncio.gather(*(pool.submit(lambda: time.sleep(0.05)) for _ in range(6)))
    assert ours() == 2


async def test_what_nobody_waits_for_any_more_is_dropped_if_it_did_not_begin(pool: DaemonPool) -> None:
    gate, begun = threading.Event(), []
    hanging = [pool.submit(gate.wait) for _ in range(2)]
    dropped = pool.submit(lambda: begun.append(1))
    dropped.cancel()
    gate.set()
    await asyncio.gather(*hanging)
    await pool.submit(lambda: None)

    assert begun == []


async def test_a_closed_pool_can_be_used_again_while_old_calls_hang(pool: DaemonPool) -> None:
    gate = threading.Event()
    hanging = [pool.submit(gate.wait) for _ in range(2)]
    pool.close()

    assert await asyncio.wait_for(pool.submit(lambda: 1), 60) == 1

    gate.set()
    await asyncio.gather(*hanging)


async def test_a_result_that_nobody_waits_for_is_discarded(pool: DaemonPool) -> None:
    begun, gate, discarded = threading.Event(), threading.Event(), asyncio.Event()

    def work() -> str:
        begun.set()
        gate.wait()
        return "result"

    job = pool.submit(work, discard=lambda _result: discarded.set())
    await asyncio.to_thread(begun.wait)
    job.cancel()
    gate.set()

    await asyncio.wait_for(discarded.wait(), 60)


def test_the_process_ends_although_every_thread_hangs() -> None:
    program = """
import asyncio, time
from sandkeeper.runtimes.docker.pool import DaemonPool

async def main():
    pool = DaemonPool(size=4, name="hang")
    jobs = [pool.submit(lambda: time.sleep(600)) for _ in range(20)]
    await asyncio.wait(jobs, timeout=0.2)

asyncio.run(main())
"""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, check=False, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert time.monotonic() - began < 20
