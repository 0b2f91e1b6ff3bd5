"""The life of a sandbox as a Pod on the real node, as a user sees it through kubectl."""

import json
import re
import time
from typing import Any

import pytest

from support.cluster import Cluster
from support.nodes import FakeNodesFactory
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.pods import Pods, serving_pods
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster]


def uids(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["metadata"]["uid"] for pod in pods]


def owners(pod: dict[str, Any]) -> dict[str, bool]:
    return {ref["name"]: ref.get("controller", False) for ref in pod["metadata"].get("ownerReferences", [])}


def test_it_is_there_before_anyone_asks_and_admitted_where_pods_are_restricted(
    cluster: Any, namespace: str, pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.kubectl("wait", "--for=condition=Ready", "sandbox/rain", "--timeout=60s")
    status = pod_sandboxes.status("rain")
    (pod,) = pods()
    assert status["runtime"]["backend"] == "pod"
    assert (status["runtime"]["id"], status["runtime"]["name"]) == (
        pod["metadata"]["uid"],
        pod["metadata"]["name"],
    )
    assert status["runtime"]["node"] == pod["spec"]["nodeName"]
    assert owners(pod) == {"rain": True}
    assert pod_sandboxes.condition("rain", "NetworkIsolated") == ("Unknown", "EnforcementUnknown")
    assert not pod_sandboxes.get("rain")["metadata"].get("finalizers")
    inside = pod_sandboxes.kubectl("exec", pod["metadata"]["name"], "--", "sh", "-c", "id -u; ps || ls /proc")
    assert inside.splitlines()[0] == "1000"
    row = pod_sandboxes.kubectl("get", "sbx", "-o", "wide")
    assert "pod" in row
    assert "Ready" in row


def test_a_network_policy_is_there_before_the_first_pod(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"), pod_sandboxes.sandbox("tio"))
    pod_sandboxes.wait("rain", "Running")
    pod_sandboxes.wait("tio", "Running")
    (found,) = json.loads(pod_sandboxes.kubectl("get", "networkpolicies", "-o", "json"))["items"]
    assert found["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in found["spec"]
    chosen = found["spec"]["podSelector"]["matchLabels"].items()
    for pod in pods():
        assert chosen <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["creationTimestamp"] >= found["metadata"]["creationTimestamp"]
    name = found["metadata"]["name"]
    pod_sandboxes.kubectl("delete", "networkpolicy", name)
    wait_for(
        lambda: name in pod_sandboxes.kubectl("get", "networkpolicies", "-o", "name"), what="it is made anew"
    )
    pod_sandboxes.kubectl(
        "patch", "networkpolicy", name, "--type=merge", "-p", '{"spec":{"policyTypes":["Ingress"]}}'
    )
    wait_for(
        lambda: "Egress" in pod_sandboxes.kubectl("get", "networkpolicy", name, "-o", "yaml"),
        what="it is put right",
    )


def test_sharers_own_the_pod_and_the_next_becomes_its_controller(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("one", agentId="rain"))
    first = pod_sandboxes.wait("one", "Running")
    pod_sandboxes.apply(pod_sandboxes.sandbox("two", agentId="rain", sessionKey="other"))
    second = pod_sandboxes.wait("two", "Running")
    assert first["runtime"]["id"] == second["runtime"]["id"]
    wait_for(lambda: owners(pods()[0]) == {"one": True, "two": False}, what="both own it")
    pod_sandboxes.kubectl("delete", "sandbox", "one")
    wait_for(lambda: owners(pods()[0]) == {"two": True}, what="the other one controls it")
    assert pod_sandboxes.condition("two") == ("True", "Running")
    assert uids(pods()) == [first["runtime"]["id"]]
    pod_sandboxes.kubectl("delete", "sandbox", "two")
    wait_for(lambda: not pods(), what="the garbage collector removes it")


def test_the_last_sandbox_takes_its_pod_along_without_an_operator(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    pod_operator.stop()
    pod_sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=30s")
    wait_for(lambda: not pods(), what="the garbage collector removes it")


def test_drain_takes_the_pod_and_the_operator_makes_another(
    cluster: Cluster, pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, fake_nodes: FakeNodesFactory
) -> None:
    # The real node is everybody's, and nothing is scheduled there while it is drained.
    nodes = fake_nodes(2)
    pod_sandboxes.apply(pod_sandboxes.policy(pod=nodes.placement), pod_sandboxes.sandbox("rain"))
    before = pod_sandboxes.wait("rain", "Running")
    node, name = before["runtime"]["node"], before["runtime"]["name"]
    said = cluster.kubectl("drain", node, "--delete-emptydir-data", "--timeout=60s")
    assert f"pod/{name}" in said
    wait_for(lambda: pod_sandboxes.status("rain").get("recoveries") == 1, what="the recovery is counted")
    after = pod_sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] != before["runtime"]["id"]
    assert after["runtime"]["node"] != node


def test_a_change_while_hot_is_drift_and_never_two_at_once(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    changed: dict[str, Any] = {"container": {"env": {"PRICE": "$(HOME) $$"}}}
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    before = pod_sandboxes.wait("rain", "Running")
    pod_sandboxes.apply(pod_sandboxes.policy(**changed))
    drifted = pod_sandboxes.wait("rain", "ConfigChanged", kind="Drifted")
    assert drifted["runtime"]["id"] == before["runtime"]["id"]
    pod_sandboxes.apply(pod_sandboxes.policy(hotWindowSeconds=1, **changed))
    most = 0
    for _ in range(600):
        most = max(most, len(pods()))
        now = pod_sandboxes.status("rain")
        if now.get("runtime", {}).get("id") != before["runtime"]["id"] and now["phase"] == "Ready":
            break
        time.sleep(0.05)
    after = pod_sandboxes.wait("rain", "Running")
    assert most == 1
    assert after["runtime"]["id"] != before["runtime"]["id"]
    assert after["configHash"] == after["desiredConfigHash"]
    assert after.get("recoveries", 0) == 0
    said = pod_sandboxes.kubectl("exec", after["runtime"]["name"], "--", "sh", "-c", 'printf %s "$PRICE"')
    assert said == "$(HOME) $$"


def test_idle_is_pruned_and_a_touch_brings_it_back(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    lasting = pod_sandboxes.policy(hotWindowSeconds=1)
    pod_sandboxes.apply(lasting, pod_sandboxes.sandbox("rain"))
    before = pod_sandboxes.wait("rain", "Running")
    pod_sandboxes.apply(pod_sandboxes.policy(hotWindowSeconds=1, prune={"idleSeconds": 3}))
    pruned = pod_sandboxes.wait("rain", "Idle")
    assert pruned["phase"] == "Pruned"
    assert pods() == []
    pod_sandboxes.apply(lasting)
    pod_sandboxes.touch("rain")
    after = pod_sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] != before["runtime"]["id"]


def test_stopped_deletes_the_pod_and_running_makes_another(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    before = pod_sandboxes.wait("rain", "Running")
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain", state="Stopped"))
    pod_sandboxes.wait("rain", "Stopped")
    wait_for(lambda: not pods(), what="the Pod is gone")
    assert "runtime" not in pod_sandboxes.status("rain")
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain", state="Running"))
    after = pod_sandboxes.wait("rain", "Running")
    assert after["runtime"]["id"] != before["runtime"]["id"]
    assert after.get("recoveries", 0) == 0


def test_setup_runs_once_and_its_failure_tells_the_end_of_its_output(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes
) -> None:
    good = {"id": "good", "container": {"setupCommand": "echo ran >> /tmp/setup"}}
    bad = {
        "id": "bad",
        "container": {"setupCommand": "echo the disk $WORD is full; exit 3", "env": {"WORD": "platypus"}},
    }
    pod_sandboxes.apply(
        pod_sandboxes.policy(agents=[good, bad]), pod_sandboxes.sandbox("good"), pod_sandboxes.sandbox("bad")
    )
    status = pod_sandboxes.wait("good", "Running")
    assert status["runtime"]["setup"] == "Complete"
    said = pod_sandboxes.kubectl("exec", status["runtime"]["name"], "--", "sh", "-c", "cat /tmp/setup")
    assert said == "ran\n"
    message = pod_sandboxes.wait("bad", "SetupFailed")["message"]
    assert "exit code 3" in message
    assert "the disk *** is full" in message


def test_a_setup_that_a_hardened_pod_cannot_run_says_what_to_change(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes
) -> None:
    # A server that is not there answers nobody, as where the network policy is enforced.
    lost = {"setupCommand": "bash -c '> /dev/tcp/packages.example/80'", "dns": ["192.0.2.53"]}
    pod_sandboxes.apply(
        pod_sandboxes.policy(
            agents=[
                {"id": "packages", "container": {"setupCommand": "apt-get update && apt-get install -y jq"}},
                {"id": "network", "container": lost},
                {"id": "other", "container": {"setupCommand": "cat /no/such/file"}},
            ]
        ),
        *(pod_sandboxes.sandbox(name) for name in ("packages", "network", "other")),
    )

    def told(name: str) -> list[str]:
        return re.findall(r" set ([\w.]+) ", pod_sandboxes.wait(name, "SetupFailed")["message"])

    assert told("packages") == [
        "pod.egress.dns", "container.readOnlyRoot", "container.user", "container.capDrop"
    ]  # fmt: skip
    assert told("network") == ["pod.egress.dns"]
    assert told("other") == []
    wait_for(
        lambda: (
            "ceilings.capabilities has to list them" in pod_sandboxes.kubectl("get", "events", "-o", "yaml")
        ),
        what="an Event has room for all of it",
    )


def test_a_restart_of_the_operator_touches_nothing(
    operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    operator = operator_factory(**serving_pods()).wait_ready()
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    before = pod_sandboxes.get("rain")["metadata"]["resourceVersion"], uids(pods())
    operator.kill()
    operator_factory(**serving_pods()).wait_ready()
    time.sleep(3)
    assert (pod_sandboxes.get("rain")["metadata"]["resourceVersion"], uids(pods())) == before


def test_another_backend_is_drift_like_any_other(
    pod_operator: OperatorProcess,
    pod_sandboxes: Sandboxes,
    pods: Pods,
    containers: Any,
    tiny_image: str,
) -> None:
    """To the engine and back, with an image that each of them has; the finalizer comes and goes with the container."""
    here: dict[str, Any] = {"backend": "pod", "hotWindowSeconds": 1}
    there: dict[str, Any] = {"backend": "docker", "hotWindowSeconds": 1, "container": {"image": tiny_image}}
    pod_sandboxes.apply(pod_sandboxes.policy(**here), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    pod_sandboxes.apply(pod_sandboxes.policy(**there))
    wait_for(lambda: not pods() and len(containers()) == 1, what="a container in place of the Pod")
    status = pod_sandboxes.wait("rain", "Running")
    assert (status["backend"], status["runtime"]["backend"]) == ("docker", "docker")
    assert pod_sandboxes.get("rain")["metadata"]["finalizers"]
    pod_sandboxes.apply(pod_sandboxes.policy(**here))
    wait_for(lambda: len(pods()) == 1 and not containers(), what="a Pod in place of the container")
    wait_for(lambda: pod_sandboxes.status("rain")["backend"] == "pod", what="the status says so")
    pod_sandboxes.wait("rain", "Running")
    wait_for(lambda: not pod_sandboxes.get("rain")["metadata"].get("finalizers"), what="nothing guards it")
    assert pod_sandboxes.status("rain").get("recoveries", 0) == 0


def test_kubectl_tells_the_story(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, containers: Any
) -> None:
    """What a user asks first, and what he sees: wait, get -o wide, describe with its Events in order, exec, logs."""
    lasting = pod_sandboxes.policy(hotWindowSeconds=1)
    pod_sandboxes.apply(lasting, pod_sandboxes.sandbox("rain"))
    pod_sandboxes.kubectl("wait", "--for=condition=Ready", "sandbox/rain", "--timeout=60s")
    header, row = pod_sandboxes.kubectl("get", "sbx", "rain", "-o", "wide").splitlines()
    status = pod_sandboxes.status("rain")
    wide = dict(zip(header.split(), row.split(), strict=False))
    assert (wide["NAME"], wide["BACKEND"], wide["PHASE"], wide["READY"]) == ("rain", "pod", "Ready", "True")
    assert status["runtime"]["name"] in row
    name = pods()[0]["metadata"]["name"]
    assert pod_sandboxes.kubectl("exec", name, "--", "echo", "here") == "here\n"
    assert pod_sandboxes.kubectl("logs", name) == ""
    pod_sandboxes.apply(pod_sandboxes.policy(hotWindowSeconds=1, prune={"idleSeconds": 3}))
    pod_sandboxes.kubectl("wait", "--for=jsonpath={.status.phase}=Pruned", "sandbox/rain", "--timeout=60s")
    pod_sandboxes.apply(lasting)
    pod_sandboxes.touch("rain")
    pod_sandboxes.wait("rain", "Running")

    def told() -> list[str]:
        lines = pod_sandboxes.kubectl("describe", "sandbox", "rain").partition("Events:")[2].splitlines()
        return [line.split()[1] for line in lines if line.split()[:1] in (["Normal"], ["Warning"])]

    story = ["Running", "Pruning", "Idle", "Running"]
    wait_for(
        lambda: [e for e in told() if e != "Creating"] == story, what="the Events", tell=lambda: str(told())
    )


def test_a_copy_of_its_pod_changes_nothing_and_is_left_alone(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    """Whoever may create Pods can write our labels; that a living Sandbox owns it, the copy does not say."""
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    before = pod_sandboxes.wait("rain", "Running")
    (pod,) = pods()
    marks = {key: pod["metadata"][key] for key in ("labels", "annotations")}
    copies = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"copy-{number}", **marks},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "sandbox", "image": pod["spec"]["containers"][0]["image"]}],
            },
        }
        for number in range(4)  # which one comes first is by UID
    ]
    pod_sandboxes.apply(*copies)
    pod_sandboxes.touch("rain")
    time.sleep(3)
    assert pod_sandboxes.condition("rain") == ("True", "Running")
    assert pod_sandboxes.status("rain")["runtime"] == before["runtime"]
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain", state="Stopped"))
    wait_for(lambda: before["runtime"]["id"] not in uids(pods()), what="the real one is stopped")
    wait_for(
        lambda: pod_sandboxes.condition("rain") == ("Unknown", "NameConflict"), what="the copies are told of"
    )
    assert len(pods()) == 4
    pod_sandboxes.kubectl("delete", "pods", "--all", "--timeout=60s")
    pod_sandboxes.wait("rain", "Stopped")


def test_a_network_policy_is_restored_while_its_pod_differs(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes
) -> None:
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    pod_sandboxes.apply(pod_sandboxes.policy(container={"env": {"COLOUR": "blue"}}))
    pod_sandboxes.wait("rain", "ConfigChanged", kind="Drifted")
    (before,) = json.loads(pod_sandboxes.kubectl("get", "networkpolicies", "-o", "json"))["items"]
    pod_sandboxes.kubectl("delete", "networkpolicies", "--all")

    def restored() -> bool:
        found = json.loads(pod_sandboxes.kubectl("get", "networkpolicies", "-o", "json"))["items"]
        return [one["spec"] for one in found] == [before["spec"]]

    wait_for(restored, what="it is there again")


def test_a_pod_that_goes_during_its_setup_is_made_and_set_up_anew(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    setup = {"setupCommand": "sleep 20; echo ran >> /tmp/setup"}
    pod_sandboxes.apply(pod_sandboxes.policy(container=setup), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "SettingUp")
    (first,) = pods()
    pod_sandboxes.kubectl("delete", "pod", first["metadata"]["name"], "--force", "--grace-period=0")
    wait_for(
        lambda: first["metadata"]["uid"] not in uids(pods()) and len(pods()) == 1, what="another is there"
    )
    status = pod_sandboxes.wait("rain", "Running", timeout=120)
    said = pod_sandboxes.kubectl("exec", status["runtime"]["name"], "--", "sh", "-c", "cat /tmp/setup")
    assert said == "ran\n"
    assert uids(pods()) == [status["runtime"]["id"]]
