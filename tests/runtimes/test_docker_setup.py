"""The setupCommand in real containers."""

# ruff: noqa: S108 - paths inside containers

import asyncio
import re
import time
from dataclasses import replace
from typing import Any

import docker
import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.lifecycle.model import Observed
from sandkeeper.runtimes.protocol import Order
from support.engine import Sandboxing, a_config, an_order, eventually, run_in

pytestmark = pytest.mark.engine


def order_of(image: str, command: str, **changes: Any) -> Order:
    return an_order(a_config(image, setup_command=command, **changes))


async def failure(sandboxing: Sandboxing, order: Order) -> str:
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        with pytest.raises(Permanent) as caught:
            await backend.setup(made.id, order)
    assert caught.value.reason is Reason.SETUP_FAILED
    return caught.value.message


async def test_it_runs_as_the_user_in_the_workdir_with_the_environment(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = order_of(
        tiny_image, 'echo "$(id -u) $PWD $GREETING" > /tmp/proof', env={"GREETING": "hello there"}
    )
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)

        await backend.setup(made.id, order)

        proof = run_in(docker_client, made.id, ["cat", "/tmp/proof"])
        assert proof == (0, b"1000 /workspace hello there\n")


async def test_a_failure_tells_code_and_output(sandboxing: Sandboxing, tiny_image: str) -> None:
    message = await failure(sandboxing, order_of(tiny_image, "echo to stdout; echo to stderr >&2; exit 7"))

    assert "exit code 7" in message
    assert "to stdout" in message
    assert "to stderr" in message


async def test_a_failure_without_output(sandboxing: Sandboxing, tiny_image: str) -> None:
    assert "printed nothing" in await failure(sandboxing, order_of(tiny_image, "exit 1"))


async def test_much_output_is_cut_to_its_end(sandboxing: Sandboxing, tiny_image: str) -> None:
    message = await failure(
        sandboxing, order_of(tiny_image, "yes padding | head -c 3000000; echo the end; exit 1")
    )

    assert message.endswith("the end")
    assert len(message.partition("ends:\n")[2].encode()) <= 1024


async def test_values_of_the_environment_are_not_shown(sandboxing: Sandboxing, tiny_image: str) -> None:
    env = {"DATABASE": "postgres://u:hunter2@db", "MODE": "on"}

    message = await failure(
        sandboxing, order_of(tiny_image, 'echo "cannot reach $DATABASE"; env; exit 1', env=env)
    )

    assert "hunter2" not in message
    assert "cannot reach ***" in message
    assert "MODE=on" in message


SOFT = {"read_only_root": False, "user": "0:0", "cap_drop": ()}


@pytest.mark.parametrize(
    ("command", "lacking", "field"),
    [
        ("busybox wget http://example.org/", {}, "container.network"),
        ("touch /etc/x", {"read_only_root": True}, "container.readOnlyRoot"),
        ("touch /etc/x", {"user": "1000:1000"}, "container.user"),
        ("busybox chown 1 /etc", {"cap_drop": ("ALL",)}, "container.capDrop"),
    ],
)
async def test_a_failure_for_want_of_something_says_what_to_change(
    sandboxing: Sandboxing, tiny_image: str, command: str, lacking: dict[str, Any], field: str
) -> None:
    message = await failure(sandboxing, order_of(tiny_image, command, **{**SOFT, **lacking}))

    assert re.findall(r" set (container\.\w+) ", message) == [field], message


async def test_a_failure_for_another_reason_says_nothing_of_the_kind(
    sandboxing: Sandboxing, tiny_image: str
) -> None:
    message = await failure(sandboxing, order_of(tiny_image, "touch /no/such/directory/x"))

    assert "set container." not in message
    assert "No such file or directory" in message


async def test_one_that_takes_too_long_fails_in_time(sandboxing: Sandboxing, tiny_image: str) -> None:
    began = time.monotonic()

    message = await failure(sandboxing, order_of(tiny_image, "echo begun; sleep 60", setup_timeout_seconds=5))

    assert time.monotonic() - began < 40
    assert "longer than 5 seconds" in message
    assert "begun" in message


async def test_one_that_never_stops_printing_fails_in_time(sandboxing: Sandboxing, tiny_image: str) -> None:
    assert "longer than 1 seconds" in await failure(
        sandboxing, order_of(tiny_image, "yes", setup_timeout_seconds=1)
    )


async def test_one_whose_container_dies(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = order_of(tiny_image, "sleep 60")
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        job = asyncio.create_task(backend.setup(made.id, order))
        await eventually(lambda: bool(backend._setups), what="the command runs")

        await asyncio.to_thread(docker_client.api.kill, made.id)

        with pytest.raises(Permanent) as caught:
            await asyncio.wait_for(job, 20)
        assert caught.value.reason is Reason.SETUP_FAILED
        with pytest.raises(Permanent, match="could not begin"):
            await backend.setup(made.id, order)


async def test_it_is_no_use_of_the_sandbox(sandboxing: Sandboxing, tiny_image: str) -> None:
    order = order_of(tiny_image, "sleep 60")
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        job = asyncio.create_task(backend.setup(made.id, order))
        await eventually(lambda: bool(backend._setups), what="the command runs")
        await asyncio.sleep(0.3)

        seen = await backend.observe(order.key, node=made.node)

        assert isinstance(seen, Observed)
        assert not seen.in_use
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert not backend._setups


async def test_long_ones_do_not_hold_up_other_calls(sandboxing: Sandboxing, tiny_image: str) -> None:
    order = order_of(tiny_image, "sleep 10")
    async with sandboxing.running(workers=1, setup_workers=2) as (backend, _):
        made = await backend.create(order)
        began = time.monotonic()
        jobs = [asyncio.create_task(backend.setup(made.id, order)) for _ in range(4)]
        await eventually(lambda: len(backend._setups) == 2, what="as many as allowed run")

        assert await backend.observe(order.key, node=made.node) is not None
        assert not any(job.done() for job in jobs)
        await asyncio.gather(*jobs)
        # Two at a time, and the others wait without running out of time for it.
        assert time.monotonic() - began >= 20


async def test_its_output_is_not_needed_for_success(sandboxing: Sandboxing, tiny_image: str) -> None:
    order = order_of(tiny_image, "exec >/dev/null 2>&1; true")
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        await asyncio.gather(*(backend.setup(made.id, replace(order)) for _ in range(10)))
