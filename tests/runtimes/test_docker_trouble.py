"""An engine that is down, hangs, comes back, or is another one than yesterday. Each test breaks one of its own."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import docker
import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Transient
from sandkeeper.config.operator import Ceilings, DockerSettings
from sandkeeper.lifecycle.model import Observed, RuntimeState, Unreachable
from sandkeeper.runtimes.docker import DockerRuntimes, containers
from sandkeeper.runtimes.protocol import Order
from support.engine import Changes, Sandboxing, a_config, an_order, eventually, import_tiny
from testbed.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

TIMEOUT = 5.0


@pytest.fixture
def engine(new_engine: Callable[..., Engine]) -> Engine:
    return new_engine()


@pytest.fixture
def image(engine: Engine) -> str:
    return image_on(engine)


@pytest.fixture
def sandboxing(engine: Engine) -> Sandboxing:
    return Sandboxing(engine.url)


def image_on(engine: Engine) -> str:
    client = engine.client()
    try:
        return import_tiny(client)
    finally:
        client.close()


def start(engine: Engine) -> None:
    engine.start()
    engine.wait_ready()


def count(engine: Engine) -> int:
    client = engine.client()
    try:
        return len(client.api.containers(all=True))
    finally:
        client.close()


@asynccontextmanager
async def one_container(
    sandboxing: Sandboxing, image: str
) -> AsyncIterator[tuple[DockerRuntimes, Changes, Order, Observed]]:
    order = an_order(a_config(image))
    async with sandboxing.running(timeout_seconds=TIMEOUT) as (backend, changes):
        yield backend, changes, order, await backend.create(order)


async def is_unreachable(backend: DockerRuntimes, order: Order, node: str) -> bool:
    seen = await backend.observe(order.key, node=node)
    return isinstance(seen, Unreachable) and seen.reason is Reason.ENGINE_UNREACHABLE


async def test_an_engine_that_dies_and_comes_back(engine: Engine, sandboxing: Sandboxing, image: str) -> None:
    async with one_container(sandboxing, image) as (backend, changes, order, made):
        since = time.monotonic()
        engine.kill()

        assert await changes.of(order.key, since=since) < 30
        await eventually(
            lambda: is_unreachable(backend, order, made.node), what="it is seen to be unreachable"
        )
        assert backend.knows(order.key)
        assert backend.keys() == {order.key}
        assert backend.missing is None
        for act in (
            lambda: backend.preflight(order),
            lambda: backend.create(order),
            lambda: backend.start(made.id, key=order.key),
            lambda: backend.stop(made.id, key=order.key),
            lambda: backend.setup(made.id, order),
            lambda: backend.remove(made.id, key=order.key),
        ):
            with pytest.raises(Transient) as caught:
                await act()
            assert caught.value.reason is Reason.ENGINE_UNREACHABLE

        since = time.monotonic()
        await asyncio.to_thread(start, engine)

        await changes.of(order.key, since=since)
        await eventually(lambda: backend._watch.is_live, what="the watch is live again")
        seen = await backend.observe(order.key, node=made.node)
        assert isinstance(seen, Observed)
        assert seen.id == made.id
        # The engine kills what a crash left running; whatever it made of it, the key can have a container again.
        await backend.remove(made.id, key=order.key)
        assert (await backend.create(order)).state is RuntimeState.RUNNING
        assert count(engine) == 1


async def test_the_words_for_an_engine_that_is_gone_do_not_change(
    engine: Engine, sandboxing: Sandboxing, image: str
) -> None:
    async with one_container(sandboxing, image) as (backend, _, order, made):

        async def said() -> set[str]:
            found = set()
            for _ in range(100):
                seen = await backend.observe(order.key, node=made.node)
                if isinstance(seen, Unreachable):
                    found.add(seen.message)
                await asyncio.sleep(0.02)
            return found

        engine.kill()
        messages = await said()
        await eventually(lambda: backend._engine.problem is not None, what="the circuit opens")
        await asyncio.to_thread(Path(engine.url.removeprefix("unix://")).unlink)
        messages |= await said()

        assert len(messages) == 1, messages


async def test_who_was_told_that_nothing_is_known_is_told_when_it_is(
    engine: Engine, sandboxing: Sandboxing, image: str
) -> None:
    engine.kill()
    order = an_order(a_config(image))
    async with sandboxing.running(listed=False, timeout_seconds=TIMEOUT) as (backend, changes):
        # That is told, too, and not what is waited for below.
        await eventually(lambda: backend._engine.problem is not None, what="the circuit opens")
        assert backend.knows(order.key)
        since = time.monotonic()

        await asyncio.to_thread(start, engine)

        assert await changes.of(order.key, since=since) < 30
        assert not backend.knows(order.key)


async def hang_in_removal(engine: Engine, backend: DockerRuntimes, order: Order, runtime_id: str) -> None:
    """Have it removed by an engine that hangs from the moment on in which the call is sent."""
    backend.may_act = lambda _: engine.pause()
    with pytest.raises(Transient):
        await backend.remove(runtime_id, key=order.key)
    backend.may_act = lambda _: None


async def test_what_may_still_be_removed_is_never_called_running(
    engine: Engine, sandboxing: Sandboxing, image: str
) -> None:
    async with one_container(sandboxing, image) as (backend, _, order, made):
        try:
            await hang_in_removal(engine, backend, order, made.id)
            assert backend._containers.is_doomed(made.id)
        finally:
            engine.resume()

        async def gone() -> bool:
            seen = await backend.observe(order.key, node=made.node)
            assert not isinstance(seen, Observed) or seen.state is RuntimeState.TERMINATING
            return seen is None

        await eventually(gone, what="it is gone")
        assert (await backend.create(order)).state is RuntimeState.RUNNING


async def test_what_was_not_sent_dooms_nothing(engine: Engine, sandboxing: Sandboxing, image: str) -> None:
    async with one_container(sandboxing, image) as (backend, _, order, made):
        engine.pause()
        try:
            with pytest.raises(Transient):
                await backend.remove(made.id, key=order.key)
            assert not backend._containers.is_doomed(made.id)
        finally:
            engine.resume()


async def test_a_removal_that_the_engine_forgot_is_not_waited_for_for_ever(
    engine: Engine, sandboxing: Sandboxing, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_container(sandboxing, image) as (backend, _, order, made):
        await hang_in_removal(engine, backend, order, made.id)
        engine.kill()
        await asyncio.to_thread(start, engine)
        await eventually(lambda: backend._watch.is_live, what="the watch is live again")

        monkeypatch.setattr(containers, "_UNHEARD_SECONDS", 1000)
        seen = await backend.observe(order.key, node=made.node)
        assert isinstance(seen, Observed)
        assert seen.state is RuntimeState.TERMINATING
        with pytest.raises(Transient):
            await backend.create(order)

        monkeypatch.setattr(containers, "_UNHEARD_SECONDS", 0)
        seen = await backend.observe(order.key, node=made.node)
        assert isinstance(seen, Observed)
        assert seen.state is not RuntimeState.TERMINATING
        await backend.remove(made.id, key=order.key)
        assert (await backend.create(order)).state is RuntimeState.RUNNING


async def test_an_engine_that_hangs_holds_up_nobody(
    engine: Engine, sandboxing: Sandboxing, image: str
) -> None:
    async with one_container(sandboxing, image) as (backend, changes, order, made):
        others = [an_order(a_config(image), f"agent:{number}") for number in range(40)]
        worst = 0.0

        async def watch_the_loop() -> None:
            nonlocal worst
            while True:
                began = time.monotonic()
                await asyncio.sleep(0.01)
                worst = max(worst, time.monotonic() - began - 0.01)

        lag = asyncio.create_task(watch_the_loop())
        engine.pause()
        try:
            began = time.monotonic()
            answers = await asyncio.gather(
                *(backend.observe(one.key, node=made.node) for one in others),
                *(backend.create(one) for one in others),
                return_exceptions=True,
            )
            assert time.monotonic() - began < 3 * TIMEOUT
            # Of an absent key the cache still says so, where no record makes it ask; nothing is ever made of it.
            assert not any(isinstance(one, Observed) for one in answers)
            assert all(
                one.reason is Reason.ENGINE_UNREACHABLE for one in answers if isinstance(one, Transient)
            )

            await eventually(lambda: backend._engine.problem is not None, what="the circuit opens")
            began = time.monotonic()
            assert all(
                await asyncio.gather(*(is_unreachable(backend, one, made.node) for one in [order, *others]))
            )
            assert time.monotonic() - began < TIMEOUT
        finally:
            since = time.monotonic()
            engine.resume()

        await changes.of(order.key, since=since)
        await changes.of(others[0].key, since=since)
        await eventually(lambda: backend._watch.is_live, what="the watch is live again")
        seen = await backend.observe(order.key, node=made.node)
        assert isinstance(seen, Observed)
        assert (seen.id, seen.state) == (made.id, RuntimeState.RUNNING)
        lag.cancel()
        # A call that held up the loop would have done so until its time was up.
        assert worst < TIMEOUT


async def test_a_creation_that_was_given_up_and_takes_effect_later_is_not_done_twice(
    engine: Engine, sandboxing: Sandboxing, image: str
) -> None:
    order = an_order(a_config(image))
    async with sandboxing.running(timeout_seconds=TIMEOUT) as (backend, _):
        engine.pause()
        try:
            with pytest.raises(Transient):
                await backend.create(order)
        finally:
            engine.resume()

        async def created() -> bool:
            try:
                made = await backend.create(order)
            except Transient:
                return False
            return made.state is RuntimeState.RUNNING

        await eventually(created, what="it is made")
        assert count(engine) == 1


@pytest.mark.parametrize("trouble", [Engine.pause, Engine.kill], ids=["hangs", "dies"])
async def test_a_setup_in_which_the_engine_is_lost(
    engine: Engine, sandboxing: Sandboxing, image: str, trouble: Callable[[Engine], None]
) -> None:
    order = an_order(a_config(image, setup_command="sleep 100"))
    async with sandboxing.running(timeout_seconds=TIMEOUT) as (backend, _):
        made = await backend.create(order)
        job = asyncio.create_task(backend.setup(made.id, order))
        await eventually(lambda: bool(backend._setups), what="the command runs")

        trouble(engine)
        try:
            with pytest.raises(Transient) as caught:
                await asyncio.wait_for(job, 60)
        finally:
            if engine.pid is not None:
                engine.resume()
        assert caught.value.reason is Reason.ENGINE_UNREACHABLE


async def test_an_engine_that_is_not_there_at_the_beginning(
    engine: Engine, sandboxing: Sandboxing, image: str
) -> None:
    engine.kill()
    order = an_order(a_config(image))
    async with sandboxing.running(listed=False, timeout_seconds=TIMEOUT) as (backend, changes):
        await eventually(lambda: is_unreachable(backend, order, "ANY"), what="it is known to be out of reach")
        # That is told, too, and not what is waited for below.
        await eventually(lambda: backend._engine.problem is not None, what="the circuit opens")
        assert backend.missing is not None
        assert backend.knows(order.key)
        since = time.monotonic()

        await asyncio.to_thread(start, engine)

        assert await changes.of(order.key, since=since) < 30
        assert backend.missing is None
        assert (await backend.create(order)).state is RuntimeState.RUNNING


@pytest.fixture
def other_engine(new_engine: Callable[..., Engine]) -> Engine:
    return new_engine()


async def test_another_engine_is_never_an_empty_one(
    engine: Engine, other_engine: Engine, sandboxing: Sandboxing, image: str, tmp_path: Path
) -> None:
    link = tmp_path / "engine.sock"
    link.symlink_to(engine.url.removeprefix("unix://"))
    image_on(other_engine)
    order = an_order(a_config(image))
    async with sandboxing.running(timeout_seconds=TIMEOUT, url=f"unix://{link}") as (backend, changes):
        made = await backend.create(order)
        since = time.monotonic()
        link.unlink()
        link.symlink_to(other_engine.url.removeprefix("unix://"))
        engine.kill()

        # From the first moment on: what the other one does not have is not missing.
        for _ in range(50):
            seen = await backend.observe(order.key, node=made.node)
            assert isinstance(seen, Observed | Unreachable)
            await asyncio.sleep(0.02)
        await changes.of(order.key, since=since)
        await eventually(lambda: backend._watch.is_live, what="the other one is listed")
        seen = await backend.observe(order.key, node=made.node)
        assert isinstance(seen, Unreachable)
        assert seen.reason is Reason.ENGINE_MISMATCH
        assert made.node in seen.message
        assert backend.keys() == frozenset()
        assert await backend.observe(an_order(a_config(image), "agent:new").key, node=None) is None

        since = time.monotonic()
        link.unlink()
        link.symlink_to(engine.url.removeprefix("unix://"))
        other_engine.kill()
        await asyncio.to_thread(start, engine)

        await changes.of(order.key, since=since)
        await eventually(lambda: backend._watch.is_live, what="the first one is listed again")
        again = await backend.observe(order.key, node=made.node)
        assert isinstance(again, Observed)
        assert again.id == made.id


PROGRAM = """
import asyncio, sys
import docker
from sandkeeper.config.operator import Ceilings, DockerSettings
from sandkeeper.runtimes.docker import DockerRuntimes
from sandkeeper.runtimes.protocol import Order
from support.engine import a_config, an_order

def connect(timeout):
    return docker.APIClient(base_url=sys.argv[1], version="1.41", timeout=timeout)

async def main():
    backend = DockerRuntimes(DockerSettings(timeout_seconds=500), Ceilings(), "exit-test", connect=connect)
    orders = [an_order(a_config("x", setup_command="x"), f"agent:{number}") for number in range(50)]
    jobs = [asyncio.create_task(backend.run(lambda key: None))]
    jobs += [asyncio.create_task(backend.create(order)) for order in orders]
    jobs += [asyncio.create_task(backend.setup("x", order)) for order in orders]
    await asyncio.sleep(1)
    assert not any(job.done() for job in jobs)
    for job in jobs:
        job.cancel()
    await asyncio.wait(jobs)

asyncio.run(main())
"""


@pytest.fixture
def hanging(engine: Engine) -> Iterator[Engine]:
    engine.pause()
    try:
        yield engine
    finally:
        engine.resume()


def test_the_process_ends_in_the_middle_of_hanging_calls(hanging: Engine) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, hanging.url],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 60


def test_nothing_is_asked_before_it_is_needed() -> None:
    def connect(_timeout: float) -> docker.APIClient:
        raise AssertionError("connected")

    backend = DockerRuntimes(DockerSettings(), Ceilings(), "x", connect=connect)
    assert backend.missing is not None
    assert backend.keys() == frozenset()
