"""The life of a Docker sandbox, as a user sees it: kubectl on one side, the engine on the other."""

from collections.abc import Callable
from typing import Any

import docker
import pytest

from support.engine import run_in
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

Containers = Callable[[], list[Any]]


def test_it_is_there_before_anyone_asks_and_hardened(
    operator: OperatorProcess, sandboxes: Sandboxes, docker_client: docker.DockerClient
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    status = sandboxes.wait("rain", "Running")
    host = docker_client.api.inspect_container(status["runtime"]["id"])["HostConfig"]
    assert (host["CapDrop"], host["NetworkMode"], host["ReadonlyRootfs"]) == (["ALL"], "none", True)
    assert host["RestartPolicy"]["Name"] in {"", "no"}
    assert host["Init"] is True
    assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"])


def test_two_sessions_of_an_agent_share_one_container(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(
        sandboxes.policy(),
        sandboxes.sandbox("one", agentId="rain"),
        sandboxes.sandbox("two", agentId="rain", sessionKey="other"),
    )
    first, second = sandboxes.wait("one", "Running"), sandboxes.wait("two", "Running")
    assert first["runtime"]["id"] == second["runtime"]["id"]
    assert len(containers()) == 1
    sandboxes.kubectl("delete", "sandbox", "one", "--timeout=30s")
    assert sandboxes.condition("two") == ("True", "Running")
    assert len(containers()) == 1
    sandboxes.kubectl("delete", "sandbox", "two", "--timeout=30s")
    assert containers() == []


def test_a_change_while_hot_is_drift_and_replacement_when_cold(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    changed: dict[str, Any] = {"container": {"env": {"COLOUR": "blue"}}}
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    sandboxes.apply(sandboxes.policy(**changed))
    drifted = sandboxes.wait("rain", "ConfigChanged", kind="Drifted")
    assert drifted["runtime"]["id"] == before["runtime"]["id"]
    assert drifted["configHash"] != drifted["desiredConfigHash"]
    assert sandboxes.condition("rain") == ("True", "Running")
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, **changed))
    wait_for(
        lambda: sandboxes.status("rain").get("runtime", {}).get("id") not in {None, before["runtime"]["id"]},
        what="it is replaced when it is cold",
        tell=lambda: str(sandboxes.status("rain")),
    )
    after = sandboxes.wait("rain", "Running")
    assert after["configHash"] == after["desiredConfigHash"]
    assert sandboxes.condition("rain", "Drifted") == ("", "")
    assert [container.id for container in containers()] == [after["runtime"]["id"]]
    assert after.get("recoveries", 0) == 0


def test_idle_is_pruned_and_a_touch_brings_it_back(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    lasting = sandboxes.policy(hotWindowSeconds=1)
    sandboxes.apply(lasting, sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, prune={"idleSeconds": 3}))
    pruned = sandboxes.wait("rain", "Idle")
    assert pruned["phase"] == "Pruned"
    assert pruned["pruned"]["reason"] == "Idle"
    assert containers() == []
    sandboxes.apply(lasting)
    sandboxes.touch("rain")
    after = sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] != before["runtime"]["id"]
    assert "pruned" not in after


def test_a_hold_keeps_what_would_be_pruned(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    held, free = sandboxes.sandbox("held"), sandboxes.sandbox("free")
    held["metadata"]["annotations"] = {"sandkeeper.dev/hold-until": "2999-01-01T00:00:00Z"}
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, prune={"idleSeconds": 3}), held, free)
    sandboxes.wait("held", "Running")
    sandboxes.wait("free", "Idle")
    assert sandboxes.condition("held") == ("True", "Running")
    sandboxes.kubectl("annotate", "sandbox", "held", "sandkeeper.dev/hold-until-")
    sandboxes.wait("held", "Idle")
    assert containers() == []


def test_a_killed_container_is_made_again_and_counted(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    containers()[0].kill()
    wait_for(lambda: sandboxes.status("rain").get("recoveries") == 1, what="the recovery is counted")
    after = sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] != before["runtime"]["id"]
    containers()[0].remove(force=True)
    wait_for(lambda: sandboxes.status("rain").get("recoveries") == 2, what="the second one too")


def test_stopped_stops_and_running_starts_the_same_container(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    sandboxes.apply(sandboxes.sandbox("rain", state="Stopped"))
    sandboxes.wait("rain", "Stopped")
    assert [container.status for container in containers()] == ["exited"]
    sandboxes.apply(sandboxes.sandbox("rain", state="Running"))
    after = sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] == before["runtime"]["id"]


def test_recreate_asks_once(operator: OperatorProcess, sandboxes: Sandboxes) -> None:
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    sandboxes.annotate("rain", recreate="please")
    wait_for(lambda: sandboxes.status("rain").get("recreate") == "please", what="the wish is honoured")
    after = sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] != before["runtime"]["id"]


def test_mode_off_wants_nothing_and_turning_it_off_removes_what_is_cold(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    off = {"id": "host", "mode": "off"}
    sandboxes.apply(
        sandboxes.policy(hotWindowSeconds=2, agents=[off]),
        sandboxes.sandbox("host"),
        sandboxes.sandbox("rain"),
    )
    sandboxes.wait("host", "NotSandboxed")
    assert sandboxes.condition("host") == ("True", "NotSandboxed")
    sandboxes.wait("rain", "Running")
    assert len(containers()) == 1
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=2, mode="off"))
    sandboxes.wait("rain", "NotSandboxed")
    # Its removal was announced, and it is free to go while the engine is still at work.
    wait_for(lambda: not containers(), what="the container is removed")
    assert "runtime" not in sandboxes.status("rain")
    wait_for(lambda: not sandboxes.get("rain")["metadata"].get("finalizers"), what="nothing guards it")


def test_a_scope_that_moves_takes_everybody_along_when_cold(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"), sandboxes.sandbox("tio"))
    sandboxes.wait("rain", "Running")
    sandboxes.wait("tio", "Running")
    assert len(containers()) == 2
    sandboxes.apply(sandboxes.policy(scope="shared"))
    sandboxes.wait("rain", "IdentityMoved", kind="Drifted")
    sandboxes.apply(sandboxes.policy(scope="shared", hotWindowSeconds=1))
    wait_for(
        lambda: (
            {sandboxes.status(name).get("key") for name in ("rain", "tio")} == {"shared"}
            and {sandboxes.condition(name) for name in ("rain", "tio")} == {("True", "Running")}
        ),
        what="both share one runtime",
        tell=lambda: sandboxes.kubectl("get", "sandboxes", "-o", "yaml"),
    )
    wait_for(lambda: len(containers()) == 1, what="what they had before is removed")
    assert sandboxes.status("rain")["runtime"] == sandboxes.status("tio")["runtime"]


def test_a_policy_that_applied_and_is_gone_freezes(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    sandboxes.kubectl("delete", "agentsandboxpolicy", "default")
    sandboxes.wait("rain", "PolicyNotFound")
    assert [container.id for container in containers()] == [before["runtime"]["id"]]
    sandboxes.apply(sandboxes.policy())
    assert sandboxes.wait("rain", "Running")["runtime"]["id"] == before["runtime"]["id"]
    sandboxes.kubectl("delete", "agentsandboxpolicy", "default")
    sandboxes.wait("rain", "PolicyNotFound")
    sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=30s")
    assert containers() == []


def test_what_the_ceilings_do_not_allow_is_refused_with_the_fix(
    operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers
) -> None:
    sandboxes.apply(
        sandboxes.policy("binds", container={"binds": ["/srv/data:/data"]}),
        sandboxes.policy("root", container={"user": "0:0"}),
        sandboxes.policy("net", container={"network": "bridge"}),
        *(sandboxes.sandbox(name, policyRef={"name": name}) for name in ("binds", "root", "net")),
    )
    assert "bindRoots" in sandboxes.wait("binds", "BindRefused")["message"]
    assert "user" in sandboxes.wait("root", "CeilingExceeded")["message"]
    assert "networks" in sandboxes.wait("net", "CeilingExceeded")["message"]
    assert containers() == []


def test_a_group_that_nobody_names_is_not_roots(
    operator: OperatorProcess, sandboxes: Sandboxes, docker_client: docker.DockerClient
) -> None:
    sandboxes.apply(sandboxes.policy(container={"user": "1234"}), sandboxes.sandbox("rain"))
    runtime = sandboxes.wait("rain", "Running")["runtime"]["id"]
    assert run_in(docker_client, runtime, ["id", "-G"]) == (0, b"1234\n")


def test_setup_runs_once_and_its_failure_tells_what_it_said(
    operator: OperatorProcess, sandboxes: Sandboxes, docker_client: docker.DockerClient
) -> None:
    good = {"setupCommand": "echo once >> /tmp/setup"}
    bad = {
        "setupCommand": "echo $PASSPHRASE; echo no such thing >&2; exit 3",
        "env": {"PASSPHRASE": "hush-hush"},
    }
    sandboxes.apply(
        sandboxes.policy(),
        sandboxes.sandbox("good", scope="session", container=good),
        sandboxes.sandbox("bad", scope="session", container=bad),
    )
    status = sandboxes.wait("good", "Running")
    assert status["runtime"]["setup"] == "Complete"
    said = run_in(docker_client, status["runtime"]["id"], ["cat", "/tmp/setup"])  # noqa: S108 - in the container
    assert said == (0, b"once\n")
    failed = sandboxes.wait("bad", "SetupFailed")
    assert "no such thing" in failed["message"]
    assert "hush-hush" not in str(sandboxes.get("bad")["status"])


def test_a_foreign_container_with_our_name_is_never_touched(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, docker_client: docker.DockerClient
) -> None:
    operator = operator_factory().wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    name = sandboxes.wait("rain", "Running")["runtime"]["name"]
    operator.stop()
    docker_client.containers.get(name).remove(force=True)
    foreign = docker_client.containers.run(sandboxes.image, "sleep 1000", name=name, detach=True)
    try:
        operator_factory().wait_ready()
        sandboxes.wait("rain", "NameConflict")
        foreign.reload()
        assert foreign.status == "running"
        sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=30s")
        foreign.reload()
        assert foreign.status == "running"
    finally:
        foreign.remove(force=True)


def test_paused_is_hands_off(operator: OperatorProcess, sandboxes: Sandboxes, containers: Containers) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    sandboxes.annotate("rain", paused="true")
    sandboxes.wait("rain", "Paused", kind="Paused")
    containers()[0].kill()
    sandboxes.apply(sandboxes.sandbox("other"))
    sandboxes.wait("other", "Running")
    assert sorted(container.status for container in containers()) == ["exited", "running"]
    sandboxes.kubectl("annotate", "sandbox", "rain", "sandkeeper.dev/paused-")
    wait_for(lambda: sandboxes.status("rain").get("recoveries") == 1, what="it is looked after again")


def test_an_intent_that_cannot_be_read_is_told(operator: OperatorProcess, sandboxes: Sandboxes) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    sandboxes.annotate("rain", last_used="yesterday")
    sandboxes.wait("rain", "AnnotationInvalid", kind="AnnotationInvalid")
    sandboxes.touch("rain")
    wait_for(lambda: sandboxes.condition("rain", "AnnotationInvalid") == ("", ""), what="it is taken back")


def test_pruned_for_long_is_deleted(operator: OperatorProcess, sandboxes: Sandboxes) -> None:
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1, prune={"idleSeconds": 2, "deleteAfterSeconds": 2}))
    wait_for(
        lambda: "rain" not in sandboxes.kubectl("get", "sandboxes", "-o", "name"), what="the object is gone"
    )
