"""What happens behind our back is told: at once by the events, and at the latest by the sweep."""

import asyncio
import time
from collections.abc import Callable

import docker
import pytest
from docker.models.containers import Container

from sandkeeper.api.conditions import Reason
from sandkeeper.config.naming import labels
from sandkeeper.lifecycle.model import Observed, RuntimeState
from support.engine import Sandboxing, a_config, an_order, eventually

pytestmark = pytest.mark.engine

AT_ONCE = 20.0
"""Seconds; less than until the next sweep. It takes a few hundredths where the machine has nothing else to do."""


@pytest.mark.parametrize(
    ("act", "state"),
    [
        (lambda container: container.kill(), (RuntimeState.FAILED, Reason.EXITED)),
        (lambda container: container.stop(timeout=5), (RuntimeState.STOPPED, None)),
        (lambda container: container.pause(), (RuntimeState.RUNNING, None)),
    ],
    ids=["kill", "stop", "pause"],
)
async def test_an_end_is_told_at_once(
    sandboxing: Sandboxing,
    tiny_image: str,
    docker_client: docker.DockerClient,
    act: Callable[[Container], None],
    state: tuple[RuntimeState, Reason | None],
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, changes):
        made = await backend.create(order)
        container = docker_client.containers.get(made.id)
        since = time.monotonic()

        await asyncio.to_thread(act, container)

        assert await changes.of(order.key, since=since) < AT_ONCE
        seen = await backend.observe(order.key, node=made.node)
        assert isinstance(seen, Observed)
        assert (seen.state, seen.ended) == state


async def test_want_of_memory_is_told_and_named(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    # The main process is what runs out of memory: sleep cannot, so a command that fills a tmpfs does it for it, and
    # the kernel chooses among the processes. Whichever it takes, nothing may be told but the truth.
    order = an_order(a_config(tiny_image, memory=16 << 20, memory_swap=16 << 20, init=False))
    async with sandboxing.running() as (backend, changes):
        made = await backend.create(order)
        since = time.monotonic()
        api = docker_client.api

        api.exec_start(
            api.exec_create(made.id, ["dd", "if=/dev/zero", "of=/tmp/fill", "bs=1M", "count=64"])["Id"]
        )

        assert await changes.of(order.key, since=since) < AT_ONCE
        seen = await backend.observe(order.key, node=made.node)
        assert isinstance(seen, Observed)
        if seen.state is not RuntimeState.RUNNING:
            assert (seen.state, seen.ended) == (RuntimeState.FAILED, Reason.OOM_KILLED)


async def test_a_main_process_killed_for_want_of_memory_is_named(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    async with sandboxing.running() as (backend, changes):
        for number in range(5):
            order = an_order(a_config(tiny_image), f"agent:hungry-{number}")
            marks = labels(order.key, installation=sandboxing.installation, config_hash=order.config_hash)
            since = time.monotonic()
            container = docker_client.containers.run(
                tiny_image,
                ["sh", "-c", "sleep 2; exec tail /dev/zero"],
                labels=marks,
                mem_limit="16m",
                memswap_limit="16m",
                detach=True,
            )
            await changes.of(order.key, since=since)
            await asyncio.to_thread(container.wait)
            await asyncio.to_thread(container.reload)
            # The engine may hear that the process ended before it hears why, and then it never knows.
            if container.attrs["State"]["OOMKilled"]:
                break
        await eventually(
            lambda: any(not seen.running for seen in backend._watch.containers.values()), what="it was killed"
        )
        seen = await backend.observe(order.key, node=None)
        assert isinstance(seen, Observed)
        assert (seen.state, seen.ended) == (RuntimeState.FAILED, Reason.OOM_KILLED)


async def test_a_removal_behind_our_back_is_told_at_once(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, changes):
        made = await backend.create(order)
        since = time.monotonic()

        await asyncio.to_thread(docker_client.api.remove_container, made.id, force=True)

        assert await changes.of(order.key, since=since) < AT_ONCE
        await eventually(lambda: backend.keys() == frozenset(), what="it is forgotten")
        assert await backend.observe(order.key, node=made.node) is None


async def test_what_we_do_ourselves_is_no_news(sandboxing: Sandboxing, tiny_image: str) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, changes):
        made = await backend.create(order)
        await asyncio.sleep(0.5)
        assert changes.told == []

        await backend.remove(made.id, key=order.key)


async def test_another_installation_is_invisible(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    marks = labels(order.key, installation="another", config_hash=order.config_hash)
    forged = marks | {"sandkeeper.dev/installation": sandboxing.installation}
    async with sandboxing.running(sweep_seconds=1) as (backend, changes):
        others = [
            docker_client.containers.run(tiny_image, ["sleep", "60"], labels=label, detach=True)
            for label in (marks, forged)
        ]
        try:
            await asyncio.sleep(1.5)
            others[0].kill()
            await asyncio.sleep(1.5)

            assert backend.keys() == frozenset()
            assert changes.told == []
            assert await backend.observe(order.key, node=None) is None
        finally:
            for other in others:
                other.remove(force=True)


async def test_what_was_there_before_is_told_at_the_beginning(
    sandboxing: Sandboxing, tiny_image: str
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, _):
        await backend.create(order)
    since = time.monotonic()

    async with sandboxing.running() as (backend, changes):
        await changes.of(order.key, since=since)
        assert backend.keys() == {order.key}


async def test_the_sweep_finds_what_the_events_missed(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    one, two = (an_order(a_config(tiny_image), f"agent:{name}") for name in ("one", "two"))
    async with sandboxing.running(sweep_seconds=1) as (backend, changes):
        made = await backend.create(one)
        # One that was quiet for two sweeps is given up, and the next may not have begun as yet.
        await eventually(lambda: backend._watch.is_live, what="the watch is live")
        stream = backend._watch._stream
        assert stream is not None
        stream._deliver = lambda _event: None  # deaf, and none the wiser
        since = time.monotonic()
        marks = labels(two.key, installation=sandboxing.installation, config_hash=two.config_hash)

        await asyncio.to_thread(docker_client.api.remove_container, made.id, force=True)
        docker_client.containers.run(tiny_image, ["sleep", "60"], labels=marks, detach=True)

        await changes.of(one.key, since=since)
        await changes.of(two.key, since=since)
        assert backend.keys() == {two.key}


async def test_a_stream_that_ended_is_resumed_and_nothing_is_lost(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, changes):
        made = await backend.create(order)
        for _ in range(3):
            since = time.monotonic()
            stream = backend._watch._stream
            assert stream is not None
            stream.close()

            await asyncio.to_thread(docker_client.api.restart, made.id, timeout=1)

            await changes.of(order.key, since=since)
            await eventually(lambda: backend._watch.is_live, what="the watch is live again")
        seen = await backend.observe(order.key, node=made.node)
        assert isinstance(seen, Observed)
        assert seen.state is RuntimeState.RUNNING


async def test_who_was_refused_by_mistake_is_told_as_soon_as_the_engine_answers(
    sandboxing: Sandboxing, tiny_image: str
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, changes):
        since = time.monotonic()
        backend._watch.await_engine(order.key)
        backend._engine._failed(TimeoutError())

        assert await changes.of(order.key, since=since) < AT_ONCE
        assert backend._engine.problem is None


async def test_many_events_do_not_hold_up_the_loop(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, changes):
        made = await backend.create(order)
        container = docker_client.containers.get(made.id)
        turns = 0

        def churn() -> None:
            for number in range(100):
                container.rename(f"{made.name}-{number}")

        job = asyncio.create_task(asyncio.to_thread(churn))
        while not job.done():
            await asyncio.sleep(0.01)
            turns += 1
        await job

        # A hundred events that held up the loop would leave no turn for others.
        assert turns > 5
        await eventually(lambda: len(changes.told) >= 100, what="all are told")
