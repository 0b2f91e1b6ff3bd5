"""A setupCommand runs once in each runtime, whatever goes wrong on the way to it."""

import asyncio
from pathlib import Path

import docker
import pytest

from chaos.engine_proxy import Asked, EngineProxy, Fate
from support.cluster import Cluster
from support.engine import run_in
from support.operator import OperatorFactory, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


async def test_one_that_follows_a_start_that_hung_at_first(
    operator_factory: OperatorFactory,
    sandboxes: Sandboxes,
    cluster: Cluster,
    docker_client: docker.DockerClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    engine = Path(cluster.docker_host.removeprefix("unix://"))
    socket = tmp_path_factory.mktemp("e") / "s"  # the path of a socket has to be short
    hung = 0

    def hangs_once(asked: Asked) -> Fate:
        nonlocal hung
        if asked == Asked("POST", "/containers/{id}/start") and not hung:
            hung = 1
            return Fate.HANG
        return Fate.NORMAL

    async with EngineProxy(engine, socket) as proxy:
        operator = operator_factory(env={"DOCKER_HOST": proxy.url}, docker={"timeoutSeconds": 5})
        await asyncio.to_thread(operator.wait_ready)
        setup = {"setupCommand": "sleep 4; echo ran >> /workspace/ran"}
        sandboxes.apply(sandboxes.policy(container=setup, hotWindowSeconds=1), sandboxes.sandbox("rain"))
        first = await asyncio.to_thread(sandboxes.wait, "rain", "Running", timeout=120)
        async with proxy.judged(hangs_once):
            sandboxes.annotate("rain", recreate="please")
            await asyncio.to_thread(
                wait_for,
                lambda: (
                    sandboxes.status("rain").get("recreate") == "please"
                    and sandboxes.condition("rain") == ("True", "Running")
                ),
                what="another is ready",
                timeout=120,
                tell=lambda: (
                    sandboxes.kubectl("get", "sandboxes", "-o", "yaml") + operator.log.read_text()[-3000:]
                ),
            )
        assert hung
        second = sandboxes.status("rain")["runtime"]["id"]
        assert second != first["runtime"]["id"]
        said = await asyncio.to_thread(run_in, docker_client, second, ["cat", "/workspace/ran"])
        assert said == (0, b"ran\n")
        await asyncio.to_thread(operator.stop)
