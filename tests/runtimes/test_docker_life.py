"""The life of containers on a real engine, and who may touch which."""

import asyncio
import io
import tarfile

import docker
import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.api.names import Label
from sandkeeper.config.builtin import FALLBACK_IMAGE
from sandkeeper.config.naming import labels, runtime_name
from sandkeeper.lifecycle.model import Observed, RuntimeState
from sandkeeper.runtimes.docker import DockerRuntimes
from sandkeeper.runtimes.protocol import Order
from support.engine import Sandboxing, a_config, an_order

pytestmark = pytest.mark.engine


async def look(backend: DockerRuntimes, order: Order) -> Observed:
    seen = await backend.observe(order.key, node=None)
    assert isinstance(seen, Observed)
    return seen


def name_of(order: Order, sandboxing: Sandboxing) -> str:
    return runtime_name(order.config.container_prefix, order.key, sandboxing.installation)


async def test_from_nothing_to_running_and_back(sandboxing: Sandboxing, tiny_image: str) -> None:
    order = an_order(a_config(tiny_image, setup_command="true"))
    async with sandboxing.running() as (backend, _):
        assert await backend.observe(order.key, node=None) is None
        assert not backend.knows(order.key)
        await backend.preflight(order)

        made = await backend.create(order)

        assert made.state is RuntimeState.RUNNING
        assert (made.backend, made.name, made.image) == ("docker", name_of(order, sandboxing), tiny_image)
        assert (made.config_hash, made.has_setup, made.in_use) == (order.config_hash, True, False)
        assert await backend.observe(order.key, node=made.node) == made
        assert backend.keys() == {order.key}
        assert backend.knows(order.key)
        await backend.preflight(order)

        await backend.remove(made.id, key=order.key)

        assert await backend.observe(order.key, node=made.node) is None
        assert backend.keys() == frozenset()
        await backend.remove(made.id, key=order.key)


@pytest.mark.parametrize("init", [True, False])
async def test_stopped_and_started_again_as_it_is(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient, *, init: bool
) -> None:
    order = an_order(a_config(tiny_image, init=init, read_only_root=False, user="0:0"))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        docker_client.containers.get(made.id).exec_run(["touch", "/kept"])

        await backend.stop(made.id, key=order.key)
        assert (await look(backend, order)).state is RuntimeState.STOPPED
        await backend.stop(made.id, key=order.key)
        await backend.start(made.id, key=order.key)

        assert (await look(backend, order)).state is RuntimeState.RUNNING
        assert docker_client.containers.get(made.id).exec_run(["ls", "/kept"]).exit_code == 0


async def test_a_command_of_a_user_is_a_use_while_it_runs(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        api = docker_client.api
        api.exec_start(api.exec_create(made.id, ["true"])["Id"])
        assert not (await look(backend, order)).in_use

        api.exec_start(api.exec_create(made.id, ["sleep", "60"])["Id"], detach=True)

        assert (await look(backend, order)).in_use


async def test_a_removal_of_what_is_unused_leaves_what_is_used(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        api = docker_client.api
        api.exec_start(api.exec_create(made.id, ["sleep", "60"])["Id"], detach=True)

        with pytest.raises(Transient) as caught:
            await backend.remove(made.id, key=order.key, unused=True)
        assert caught.value.reason is Reason.PENDING
        assert (await look(backend, order)).in_use

        await backend.remove(made.id, key=order.key)
        unused = await backend.create(order)
        await backend.remove(unused.id, key=order.key, unused=True)
        assert await backend.observe(order.key, node=None) is None


async def test_whether_a_setup_may_have_begun(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image, setup_command="true"))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        assert not backend.began(made.id)

        async with sandboxing.running() as (successor, _):
            assert successor.began(made.id)
            assert (await successor.create(order)).id == made.id
            assert successor.began(made.id)

        await backend.setup(made.id, order)
        assert backend.began(made.id)


@pytest.mark.parametrize("by_start", [True, False], ids=["start", "create"])
async def test_in_what_never_ran_no_setup_has_begun(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient, *, by_start: bool
) -> None:
    order = an_order(a_config(tiny_image))
    marks = labels(order.key, installation=sandboxing.installation, config_hash=order.config_hash)
    left = docker_client.api.create_container(
        tiny_image, ["sleep", "infinity"], name=name_of(order, sandboxing), labels=marks
    )["Id"]
    async with sandboxing.running() as (backend, _):
        assert backend.began(left)
        if by_start:
            await backend.start(left, key=order.key)
        else:
            assert (await backend.create(order)).id == left
        assert not backend.began(left)


async def test_a_stop_without_an_init_is_a_stop_to_a_later_process_too(
    sandboxing: Sandboxing, tiny_image: str
) -> None:
    order = an_order(a_config(tiny_image, init=False))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        await backend.stop(made.id, key=order.key)

    async with sandboxing.running() as (successor, _):
        assert (await look(successor, order)).state is RuntimeState.STOPPED


async def test_two_creations_of_one_key_make_one_container(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, _):
        results = await asyncio.gather(*(backend.create(order) for _ in range(4)), return_exceptions=True)

        found = docker_client.api.containers(
            all=True, filters={"label": f"{Label.INSTALLATION}={sandboxing.installation}"}
        )
        assert len(found) == 1
        assert {made.id for made in results if isinstance(made, Observed)} == {found[0]["Id"]}
        assert all(isinstance(made, Observed | Transient) for made in results)


async def test_what_was_made_before_a_crash_is_taken(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    marks = labels(order.key, installation=sandboxing.installation, config_hash=order.config_hash)
    left = docker_client.api.create_container(
        tiny_image, ["sleep", "infinity"], name=name_of(order, sandboxing), labels=marks
    )
    async with sandboxing.running(max_containers=1) as (backend, _):
        assert (await look(backend, order)).state is RuntimeState.CREATED

        made = await backend.create(order)

        assert (made.id, made.state) == (left["Id"], RuntimeState.RUNNING)


async def test_what_was_made_otherwise_is_looked_at_first(sandboxing: Sandboxing, tiny_image: str) -> None:
    order = an_order(a_config(tiny_image))
    other = an_order(a_config(tiny_image, pids_limit=5))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        with pytest.raises(Transient):
            await backend.create(other)
        assert (await look(backend, order)).id == made.id


async def test_a_foreign_container_with_our_name_is_never_touched(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    # As near as it comes: the labels of the same key, of another installation.
    marks = labels(order.key, installation="another", config_hash=order.config_hash)
    api = docker_client.api
    foreign = api.create_container(
        tiny_image, ["sleep", "infinity"], name=name_of(order, sandboxing), labels=marks
    )["Id"]
    try:
        before = api.inspect_container(foreign)
        async with sandboxing.running() as (backend, _):
            assert await backend.observe(order.key, node=None) is None
            assert backend.keys() == frozenset()
            for act in (
                lambda: backend.preflight(order),
                lambda: backend.create(order),
                lambda: backend.start(foreign, key=order.key),
                lambda: backend.stop(foreign, key=order.key),
                lambda: backend.setup(foreign, order),
                lambda: backend.remove(foreign, key=order.key),
            ):
                with pytest.raises(Permanent) as caught:
                    await act()
                assert caught.value.reason is Reason.NAME_CONFLICT
        assert api.inspect_container(foreign) == before
    finally:
        api.remove_container(foreign, force=True)


async def test_a_container_of_another_key_is_not_taken_for_this_one(
    sandboxing: Sandboxing, tiny_image: str
) -> None:
    one, other = (an_order(a_config(tiny_image), f"agent:{name}") for name in ("one", "other"))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(one)

        with pytest.raises(Permanent):
            await backend.remove(made.id, key=other.key)

        assert (await look(backend, one)).state is RuntimeState.RUNNING


async def test_leftovers_of_a_key_go_with_its_runtime(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    order = an_order(a_config(tiny_image))
    marks = labels(order.key, installation=sandboxing.installation, config_hash="v1-0000000000000000")
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)
        left = docker_client.api.create_container(
            tiny_image, ["sleep", "infinity"], name=f"{made.name}-left", labels=marks
        )
        assert (await look(backend, order)).id == made.id

        await backend.remove(made.id, key=order.key)

        assert await backend.observe(order.key, node=made.node) is None
        with pytest.raises(docker.errors.NotFound):
            docker_client.api.inspect_container(left["Id"])


async def test_a_full_engine_takes_no_more_even_at_once(sandboxing: Sandboxing, tiny_image: str) -> None:
    orders = [an_order(a_config(tiny_image), f"agent:{number}") for number in range(5)]
    async with sandboxing.running(max_containers=2) as (backend, _):
        results = await asyncio.gather(*(backend.create(order) for order in orders), return_exceptions=True)

        made = [one for one in results if isinstance(one, Observed)]
        refused = [one for one in results if isinstance(one, Transient)]
        assert (len(made), len(refused)) == (2, 3)
        assert {one.reason for one in refused} == {Reason.ENGINE_FULL}
        assert "maxContainers" in refused[0].message

        left = next(order for order, one in zip(orders, results, strict=True) if one is refused[0])
        gone = next(order for order, one in zip(orders, results, strict=True) if one is made[0])
        await backend.remove(made[0].id, key=gone.key)
        assert (await backend.create(left)).state is RuntimeState.RUNNING


async def test_a_full_engine_is_counted_without_a_watch_too(sandboxing: Sandboxing, tiny_image: str) -> None:
    backend = sandboxing.backend(max_containers=1)
    try:
        await backend.create(an_order(a_config(tiny_image), "agent:one"))
        with pytest.raises(Transient) as caught:
            await sandboxing.backend(max_containers=1).create(an_order(a_config(tiny_image), "agent:two"))
        assert caught.value.reason is Reason.ENGINE_FULL
    finally:
        backend.close()


async def test_a_missing_image_says_what_to_do(sandboxing: Sandboxing) -> None:
    order = an_order(a_config("sandkeeper-nowhere/tools:9"))
    async with sandboxing.running() as (backend, _):
        for act in (backend.preflight, backend.create):
            with pytest.raises(Permanent) as caught:
                await act(order)
            assert caught.value.reason is Reason.IMAGE_MISSING
            assert "docker pull sandkeeper-nowhere/tools:9" in caught.value.message
        assert backend.keys() == frozenset()


async def test_the_fallback_runs_in_place_of_a_missing_image_where_asked_for(sandboxing: Sandboxing) -> None:
    order = an_order(a_config("sandkeeper-nowhere/tools:9", image_fallback=True))
    async with sandboxing.running() as (backend, _):
        await backend.preflight(order)

        made = await backend.create(order)

        assert (made.image, made.config_hash) == (FALLBACK_IMAGE, order.config_hash)
        assert "sandkeeper-nowhere/tools:9" in made.message
        assert (await look(backend, order)).image == FALLBACK_IMAGE


@pytest.mark.parametrize("network", ["sandkeeper-nowhere", "container:sandkeeper-nowhere"])
async def test_a_missing_network(sandboxing: Sandboxing, tiny_image: str, network: str) -> None:
    order = an_order(a_config(tiny_image, network=network))
    async with sandboxing.running() as (backend, _):
        for act in (backend.preflight, backend.create):
            with pytest.raises(Permanent) as caught:
                await act(order)
            assert caught.value.reason is Reason.NETWORK_MISSING
        assert await backend.observe(order.key, node=None) is None


async def test_what_does_not_start_is_not_left_behind(
    sandboxing: Sandboxing, docker_client: docker.DockerClient
) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w"):
        pass
    empty = f"sandkeeper-empty-{sandboxing.installation}:test"
    docker_client.api.import_image_from_data(
        archive.getvalue(), repository=empty.partition(":")[0], tag="test"
    )
    order = an_order(a_config(empty, init=False))
    try:
        async with sandboxing.running() as (backend, _):
            with pytest.raises(Permanent) as caught:
                await backend.create(order)

            assert caught.value.reason is Reason.START_FAILED
            assert "sleep" in caught.value.message
            assert "image" in caught.value.message
            assert await backend.observe(order.key, node=None) is None
            assert backend.keys() == frozenset()
    finally:
        docker_client.images.remove(empty, force=True)


async def test_an_engine_that_has_never_been_listed_is_asked_by_label(
    sandboxing: Sandboxing, tiny_image: str
) -> None:
    order = an_order(a_config(tiny_image))
    async with sandboxing.running() as (backend, _):
        made = await backend.create(order)

        stranger = sandboxing.backend()
        try:
            assert stranger.missing is not None
            assert stranger.knows(order.key)
            assert await stranger.observe(order.key, node=made.node) == made
        finally:
            stranger.close()
