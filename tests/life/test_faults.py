"""An engine that is down, hangs, comes back, or is another one; a lease that is lost; an end that must not hang."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import docker
import pytest

from support.engine import import_tiny
from support.operator import OperatorFactory, Sandboxes
from support.waiting import wait_for
from testbed.engine import Engine

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

NewEngine = Callable[..., Engine]


def on_engine(factory: OperatorFactory, engine: Engine, **config: Any) -> Any:
    settings = {"timeoutSeconds": 3, "sweepSeconds": 2, **config.pop("docker", {})}
    return factory(env={"DOCKER_HOST": engine.url}, docker=settings, **config)


@pytest.fixture
def engine(new_engine: NewEngine, sandboxes: Sandboxes) -> Engine:
    made = new_engine()
    with closing(docker.DockerClient(base_url=made.url)) as client:
        sandboxes.image = import_tiny(client)
    return made


def ids(engine: Engine) -> list[str]:
    with closing(docker.DockerClient(base_url=engine.url)) as client:
        return [str(container.id) for container in client.containers.list(ignore_removed=True)]


def end(engine: Engine) -> None:
    """Shut the engine down as a machine does: its containers stay, stopped."""
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: engine.pid is None, what="the engine has ended")


@pytest.mark.parametrize("how", [end, Engine.kill], ids=["ended", "crashed"])
def test_an_engine_that_stops_is_told_and_nothing_is_made_twice_when_it_is_back(
    how: Callable[[Engine], None], operator_factory: OperatorFactory, sandboxes: Sandboxes, engine: Engine
) -> None:
    on_engine(operator_factory, engine).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    how(engine)
    sandboxes.wait("rain", "EngineUnreachable")
    assert sandboxes.condition("rain")[0] == "Unknown"
    engine.start()
    engine.wait_ready()
    after = sandboxes.wait("rain", "Running")
    assert ids(engine) == [after["runtime"]["id"]]
    assert after["runtime"]["id"] == before["runtime"]["id"], (
        "it was stopped by request: started again as it is"
    )


def test_an_engine_that_hangs_stops_nobody_else_and_not_our_end(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, engine: Engine
) -> None:
    operator = on_engine(operator_factory, engine).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    engine.pause()
    try:
        sandboxes.apply(sandboxes.sandbox("tio"))
        sandboxes.wait("rain", "EngineUnreachable")
        sandboxes.wait("tio", "EngineUnreachable")
        off = {"id": "host", "mode": "off"}
        sandboxes.apply(sandboxes.policy(agents=[off]), sandboxes.sandbox("host"))
        sandboxes.wait("host", "NotSandboxed")
        assert operator.ready() or "docker" in operator.read("/readyz").lower()
        assert operator.stop(timeout=40) == 0
    finally:
        engine.resume()
    on_engine(operator_factory, engine).wait_ready()
    sandboxes.wait("rain", "Running")
    sandboxes.wait("tio", "Running")
    assert len(ids(engine)) == 2


def test_another_engine_than_the_recorded_one_is_told_and_not_used(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, engine: Engine, new_engine: NewEngine
) -> None:
    first = on_engine(operator_factory, engine).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    first.stop()
    other = new_engine()
    second = on_engine(operator_factory, other).wait_ready()
    sandboxes.wait("rain", "EngineMismatch")
    assert ids(other) == []
    second.stop()
    on_engine(operator_factory, engine).wait_ready()
    assert sandboxes.wait("rain", "Running")["runtime"]["id"] == before["runtime"]["id"]


def test_a_full_engine_is_told_and_room_is_used(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, engine: Engine
) -> None:
    on_engine(operator_factory, engine, docker={"maxContainers": 1}).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    sandboxes.apply(sandboxes.sandbox("tio"))
    sandboxes.wait("tio", "EngineFull")
    sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=30s")
    sandboxes.wait("tio", "Running", timeout=90)


def test_an_orphan_is_swept_and_what_is_not_ours_is_left(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, engine: Engine
) -> None:
    first = on_engine(operator_factory, engine).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    first.kill()
    with closing(docker.DockerClient(base_url=engine.url)) as client:
        ours = client.containers.list()[0]
        stranger = client.containers.run(
            sandboxes.image,
            "sleep 1000",
            detach=True,
            labels={**ours.labels, "sandkeeper.dev/installation": "somebody-else"},
        )
        sandboxes.kubectl(
            "patch", "sandbox", "rain", "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
        )
        sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=30s")
        on_engine(operator_factory, engine).wait_ready()
        wait_for(lambda: ids(engine) == [stranger.id], what="the orphan alone is gone")
        time.sleep(4)  # two sweeps more
        assert ids(engine) == [stranger.id]


def test_readiness_names_what_was_not_listed(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, engine: Engine
) -> None:
    engine.stop()
    operator = on_engine(operator_factory, engine)
    wait_for(lambda: "on port" in operator.log.read_text(), what="it serves its probes")
    wait_for(
        lambda: "ocker" in operator.read("/readyz") and "Sandboxes" not in operator.read("/readyz"),
        what="only the engine is missing",
        tell=lambda: operator.read("/readyz"),
    )
    engine.start()
    operator.wait_ready()


def test_of_two_operators_one_acts_and_the_other_takes_over(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, engine: Engine
) -> None:
    first = on_engine(operator_factory, engine).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    on_engine(operator_factory, engine).wait_ready()
    sandboxes.apply(sandboxes.sandbox("tio"))
    sandboxes.wait("tio", "Running")
    assert len(ids(engine)) == 2
    first.process.send_signal(signal.SIGSTOP)  # it cannot renew, nor know that it did not
    sandboxes.apply(sandboxes.sandbox("third"))
    sandboxes.wait("third", "Running")
    first.process.send_signal(signal.SIGCONT)
    sandboxes.apply(sandboxes.sandbox("fourth"))
    sandboxes.wait("fourth", "Running")
    assert len(ids(engine)) == 4


def holder(sandboxes: Sandboxes) -> str:
    return sandboxes.kubectl("get", "lease", "test-leader", "-o", "jsonpath={.spec.holderIdentity}")


def test_a_lease_that_is_given_back_is_taken_at_once(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, engine: Engine
) -> None:
    first = on_engine(operator_factory, engine).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    on_engine(operator_factory, engine).wait_ready()
    before = holder(sandboxes)
    assert first.stop() == 0
    wait_for(lambda: holder(sandboxes) not in {"", before}, what="the standby leads")
    sandboxes.apply(sandboxes.sandbox("tio"))
    sandboxes.wait("tio", "Running")
