"""Things that go wrong only when two things happen at once, or one after the other in an awkward order."""

import time
from collections.abc import Callable
from typing import Any

import docker
import pytest

from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

Containers = Callable[[], list[Any]]


def test_what_was_stopped_for_longer_than_idle_is_started_and_not_pruned(
    operator: OperatorProcess, sandboxes: Sandboxes
) -> None:
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1), sandboxes.sandbox("rain", state="Running"))
    before = sandboxes.wait("rain", "Running")
    sandboxes.apply(sandboxes.sandbox("rain", state="Stopped"))
    sandboxes.wait("rain", "Stopped")
    # Not before: however slow the machine is, it is stopped first.
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, prune={"idleSeconds": 10}))
    time.sleep(11)
    assert sandboxes.condition("rain") == ("False", "Stopped")
    sandboxes.apply(sandboxes.sandbox("rain", state="Running"))
    assert sandboxes.wait("rain", "Running")["runtime"]["id"] == before["runtime"]["id"]


def test_touches_while_it_is_set_up_do_not_set_it_back(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(container={"setupCommand": "sleep 5"}), sandboxes.sandbox("rain"))
    seen: set[str] = set()

    def ready() -> bool:
        sandboxes.touch("rain")
        seen.update(container.id for container in containers())
        return sandboxes.condition("rain") == ("True", "Running")

    wait_for(ready, what="it is ready", pause=0.3)
    assert len(seen) == 1


def test_a_setup_that_takes_long_holds_nobody_up_and_is_told(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, containers: Containers
) -> None:
    operator_factory(workers=1).wait_ready()
    slow = sandboxes.policy("slow", container={"setupCommand": "sleep 600"})
    sandboxes.apply(slow, sandboxes.policy(), sandboxes.sandbox("slow", policyRef={"name": "slow"}))
    sandboxes.wait("slow", "SettingUp")
    sandboxes.apply(sandboxes.sandbox("quick"))
    sandboxes.wait("quick", "Running")
    sandboxes.kubectl("delete", "sandbox", "slow", "--timeout=30s")
    assert len(containers()) == 1


def test_a_preflight_is_made_for_each_replacement(
    operator: OperatorProcess, sandboxes: Sandboxes, docker_client: docker.DockerClient, namespace: str
) -> None:
    docker_client.images.get(sandboxes.image).tag(namespace, "1")
    image = f"{namespace}:1"
    try:
        policy: dict[str, Any] = {"hotWindowSeconds": 1}
        sandboxes.apply(sandboxes.policy(**policy, container={"image": image}), sandboxes.sandbox("rain"))
        first = sandboxes.wait("rain", "Running")
        sandboxes.apply(sandboxes.policy(**policy, container={"image": image, "pidsLimit": 77}))
        wait_for(
            lambda: (
                sandboxes.status("rain").get("runtime", {}).get("id") not in {None, first["runtime"]["id"]}
            ),
            what="it is replaced",
        )
        second = sandboxes.wait("rain", "Running")
    finally:
        docker_client.images.remove(image, noprune=True, force=True)
    sandboxes.annotate("rain", recreate="now")
    sandboxes.wait("rain", "ReplacementBlocked", kind="Drifted")
    assert sandboxes.condition("rain") == ("True", "Running")
    assert sandboxes.status("rain")["runtime"]["id"] == second["runtime"]["id"]


def test_who_waits_for_its_turn_is_told_so_and_may_be_deleted(
    operator_factory: OperatorFactory, sandboxes: Sandboxes
) -> None:
    operator_factory(replacements={"perMinute": 1, "burst": 1}).wait_ready()
    names = [f"{agent}-{session}" for agent in "ab" for session in "12"]
    sandboxes.apply(
        sandboxes.policy(hotWindowSeconds=1),
        *(sandboxes.sandbox(name, agentId=name[0], sessionKey=name[2]) for name in names),
    )
    for name in names:
        sandboxes.wait(name, "Running")
    time.sleep(1.5)
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, container={"pidsLimit": 77}))
    wait_for(
        lambda: {sandboxes.condition(f"{agent}-1", "Drifted")[1] for agent in "ab"} == {"", "ConfigChanged"},
        what="one is replaced and the other waits",
        tell=lambda: sandboxes.kubectl("get", "sandboxes", "-o", "yaml"),
    )
    waiting = next(agent for agent in "ab" if sandboxes.condition(f"{agent}-1", "Drifted")[1])
    drift = next(c for c in sandboxes.status(f"{waiting}-1")["conditions"] if c["type"] == "Drifted")
    assert "its turn" in drift["message"]
    sandboxes.kubectl("delete", "sandbox", f"{waiting}-2", "--timeout=60s")
    sandboxes.kubectl("delete", "sandbox", f"{waiting}-1", "--timeout=60s")


def test_what_cannot_be_started_again_is_told_and_made_anew(
    operator_factory: OperatorFactory,
    sandboxes: Sandboxes,
    docker_client: docker.DockerClient,
    namespace: str,
) -> None:
    network = docker_client.networks.create(namespace)
    try:
        operator_factory(ceilings={"networks": [namespace]}).wait_ready()
        sandboxes.apply(
            sandboxes.policy(container={"network": namespace}), sandboxes.sandbox("rain", state="Running")
        )
        sandboxes.wait("rain", "Running")
        sandboxes.apply(sandboxes.sandbox("rain", state="Stopped"))
        sandboxes.wait("rain", "Stopped")
        network.remove()
        sandboxes.apply(sandboxes.sandbox("rain", state="Running"))
        sandboxes.wait("rain", "NetworkMissing")
        network = docker_client.networks.create(namespace)
        sandboxes.wait("rain", "Running", timeout=90)
    finally:
        sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=30s")
        network.remove()


def test_a_refusal_of_any_length_is_told(operator: OperatorProcess, sandboxes: Sandboxes) -> None:
    binds = [f"/elsewhere/{number}/{'x' * 480}:/{number}/{'y' * 480}" for number in range(20)]
    sandboxes.apply(sandboxes.policy(container={"binds": binds}), sandboxes.sandbox("rain"))
    assert len(sandboxes.wait("rain", "BindRefused")["message"]) <= 4096


def test_a_policy_that_comes_with_its_first_sandbox_applies_to_it(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(container={"env": {"COLOUR": "blue"}}), sandboxes.sandbox("rain"))
    status = sandboxes.wait("rain", "Running")
    assert status["policy"].endswith("/default")
    assert "COLOUR=blue" in containers()[0].attrs["Config"]["Env"]


def test_who_comes_before_any_policy_has_the_built_in_one_until_then(
    operator: OperatorProcess, sandboxes: Sandboxes
) -> None:
    sandboxes.apply(sandboxes.sandbox("rain"))
    wait_for(lambda: sandboxes.status("rain").get("policy") == "built-in", what="there is no policy")
    sandboxes.apply(sandboxes.policy())
    wait_for(lambda: sandboxes.status("rain")["policy"].endswith("/default"), what="there is one")


def test_a_recovery_is_an_event(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    containers()[0].kill()
    wait_for(lambda: sandboxes.status("rain").get("recoveries") == 1, what="it is made again")
    wait_for(lambda: "Recovering" in sandboxes.kubectl("describe", "sandbox", "rain"), what="it is told")
