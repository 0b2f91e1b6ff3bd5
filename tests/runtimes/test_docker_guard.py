"""Who may not act any more does nothing, however long it took to get there."""

import threading

import docker
import pytest

from sandkeeper.api.names import Label
from sandkeeper.lifecycle.model import RuntimeState
from support.engine import Sandboxing, a_config, an_order, run_in

pytestmark = pytest.mark.engine


class Answers:
    """Says no from a given question on, and remembers where it was asked."""

    def __init__(self, error: Exception, *, allowed: int = 0) -> None:
        self.error = error
        self.allowed = allowed
        self.asked_on: list[str] = []

    def __call__(self, namespace: str) -> None:
        assert namespace
        self.asked_on.append(threading.current_thread().name)
        if len(self.asked_on) > self.allowed:
            raise self.error


def anything(_namespace: str) -> None:
    """Allow everything."""


@pytest.mark.parametrize("error", [KeyError("not ours"), TimeoutError("too late"), OSError(5, "gone")])
async def test_every_change_is_asked_for_and_cancelled_by_whatever_is_raised(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient, error: Exception
) -> None:
    order = an_order(a_config(tiny_image, setup_command="true"))
    idle, other = (an_order(a_config(tiny_image), f"agent:{name}") for name in ("idle", "other"))
    api = docker_client.api
    async with sandboxing.running() as (backend, _):
        made, stopped = await backend.create(order), await backend.create(idle)
        await backend.stop(stopped.id, key=idle.key)
        before = [api.inspect_container(one.id) for one in (made, stopped)]

        for act in (
            lambda: backend.create(other),
            lambda: backend.start(stopped.id, key=idle.key),
            lambda: backend.stop(made.id, key=order.key),
            lambda: backend.setup(made.id, order),
            lambda: backend.remove(made.id, key=order.key),
        ):
            backend.may_act = answers = Answers(error)
            with pytest.raises(type(error)) as caught:
                await act()

            assert caught.value is error
            (thread,) = answers.asked_on
            assert thread.startswith(("docker-call-", "docker-setup-"))
            assert [api.inspect_container(one.id) for one in (made, stopped)] == before

        # Looking is allowed to everybody, and nothing of it is the engine's fault.
        await backend.preflight(other)
        assert await backend.observe(other.key, node=None) is None
        assert not backend._watch.containers[stopped.id].running
        assert backend._engine._failures == 0
        assert not backend.began(made.id)


async def test_between_making_and_starting(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, _):
        backend.may_act = Answers(KeyError("not ours"), allowed=1)
        with pytest.raises(KeyError):
            await backend.create(order)

        filters = {"label": f"{Label.INSTALLATION}={sandboxing.installation}"}
        (left,) = docker_client.api.containers(all=True, filters=filters)
        assert left["State"] == "created"
        assert not backend._watch.containers[left["Id"]].running

        backend.may_act = anything
        made = await backend.create(order)

        assert (made.id, made.state) == (left["Id"], RuntimeState.RUNNING)
        assert not backend.began(made.id)


async def test_a_command_that_was_created_and_may_not_be_started(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image, setup_command="touch /tmp/begun"))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        backend.may_act = Answers(KeyError("not ours"), allowed=1)

        with pytest.raises(KeyError):
            await backend.setup(made.id, order)

        code, _ = run_in(docker_client, made.id, ["ls", "/tmp/begun"])  # noqa: S108 - in the container
        assert code != 0
        assert not backend._setups
        assert backend.began(made.id)
