"""Where a Pod's workspace is kept, on the real node, as a user sees it.

The cluster of the test bed has no provisioner: its volumes are directories of its node, which is this very machine.
"""

import json
import re
import subprocess
from typing import Any

import pytest

from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import installation_id, runtime_name
from sandkeeper.runtimes.pod.claims import claim_name
from support.cluster import HARDENED_POD, Cluster
from support.how_tos import HowTo
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.pods import POD_IMAGE, Pods, serving_pods
from support.volumes import GROUP, SHARED, Volumes, claim
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster]


def kept_in(kind: str, **fields: Any) -> dict[str, Any]:
    return {"volume": {kind: fields}}


def keeping(agent: str, workspace: dict[str, Any]) -> dict[str, Any]:
    """Make the entry of a policy for one agent."""
    return {"id": agent, "workspace": workspace}


def run(sandboxes: Sandboxes, name: str, command: str) -> str:
    """Run a command where the Sandbox's commands run, and return all that it prints."""
    pod = sandboxes.status(name)["runtime"]["name"]
    return sandboxes.kubectl("exec", pod, "--", "sh", "-c", f"exec 2>&1; {command} || true").strip()


def claims_of(sandboxes: Sandboxes) -> list[dict[str, Any]]:
    found = json.loads(sandboxes.kubectl("get", "persistentvolumeclaims", "-o", "json"))
    return list(found["items"])


def owners(thing: dict[str, Any]) -> set[str]:
    """Name those it belongs to. Which of them is its controller matters to a Pod alone, for `kubectl drain`."""
    return {reference["name"] for reference in thing["metadata"].get("ownerReferences", [])}


def owned_by(sandboxes: Sandboxes, *names: str) -> None:
    """Wait until there is one claim, of these Sandboxes."""
    wait_for(
        lambda: [owners(one) for one in claims_of(sandboxes)] == [set(names)],
        what=f"a claim of {', '.join(names) or 'nobody'}",
        tell=lambda: sandboxes.kubectl("get", "persistentvolumeclaims", "-o", "yaml"),
    )


def replaced(sandboxes: Sandboxes, name: str, before: dict[str, Any]) -> dict[str, Any]:
    """Wait until another runtime is ready."""
    old = before["runtime"]["id"]
    wait_for(
        lambda: sandboxes.status(name).get("runtime", {}).get("id", old) != old,
        what=f"{name} has another runtime",
        tell=lambda: sandboxes.kubectl("get", "sandboxes", "-o", "yaml"),
    )
    return sandboxes.wait(name, "Running")


def make_first_claim(sandboxes: Sandboxes, volumes: Volumes) -> dict[str, Any]:
    """Wait for the claim that the operator makes, and give it its volume."""
    wait_for(lambda: claims_of(sandboxes), what="a claim is made")
    (made,) = claims_of(sandboxes)
    volumes.bring(made["metadata"]["name"])
    return made


def test_a_directory_of_the_pods_own_goes_with_it(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes
) -> None:
    pod_sandboxes.apply(pod_sandboxes.policy(hotWindowSeconds=1), pod_sandboxes.sandbox("rain"))
    before = pod_sandboxes.wait("rain", "Running")
    assert run(pod_sandboxes, "rain", "id -u; pwd; echo mine > note; ls -A") == "1000\n/workspace\nnote"
    pod_sandboxes.annotate("rain", recreate="1")
    replaced(pod_sandboxes, "rain", before)
    assert run(pod_sandboxes, "rain", "ls -A") == ""


def test_agents_share_a_claim_and_each_sees_its_own_directory(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, volumes: Volumes
) -> None:
    disk = volumes.bring("household")
    policy: dict[str, Any] = {"hotWindowSeconds": 1, "workspace": kept_in("claim", name="household")}
    pod_sandboxes.apply(
        claim("household"),
        pod_sandboxes.policy(**policy),
        pod_sandboxes.sandbox("rain"),
        pod_sandboxes.sandbox("tio"),
    )
    before = pod_sandboxes.wait("rain", "Running")
    pod_sandboxes.wait("tio", "Running")
    for name in ("rain", "tio"):
        assert run(pod_sandboxes, name, f"echo {name} > note; ls -A; ls -A ..").split()[0] == "note"
    # What they wrote lies side by side; the kubelet made a directory for each like the one around it.
    notes = {path.parent: path.read_text() for path in disk.glob("*/note")}
    assert sorted(notes.values()) == ["rain\n", "tio\n"]
    for directory in notes:
        found = directory.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (0, GROUP, SHARED)

    pod_sandboxes.annotate("rain", recreate="1")
    after = replaced(pod_sandboxes, "rain", before)
    assert run(pod_sandboxes, "rain", "cat note") == "rain"

    pod_sandboxes.apply(pod_sandboxes.sandbox("rain", state="Stopped"))
    pod_sandboxes.wait("rain", "Stopped")
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain", state="Running"))
    after = replaced(pod_sandboxes, "rain", after)
    assert run(pod_sandboxes, "rain", "cat note") == "rain"

    pod_sandboxes.apply(pod_sandboxes.policy(**policy, prune={"idleSeconds": 2}))
    pod_sandboxes.wait("rain", "Idle")
    pod_sandboxes.wait("tio", "Idle")
    assert pods() == []
    pod_sandboxes.apply(pod_sandboxes.policy(**policy))
    pod_sandboxes.touch("rain")
    replaced(pod_sandboxes, "rain", after)
    assert run(pod_sandboxes, "rain", "cat note; ls -A") == "rain\nnote"


def test_whether_a_directory_can_be_written_to_is_told_by_the_one_around_it(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    """A volume that is a directory of the node is not given to the Pod's group, whatever ``fsGroup`` says."""
    modes = {"closed": (0o755, 0), "open": (0o1777, 0), "group": (SHARED, GROUP)}
    for name, (mode, group) in modes.items():
        volumes.bring(name, mode=mode, group=group)
    pod_sandboxes.apply(
        *map(claim, modes),
        pod_sandboxes.policy(agents=[keeping(name, kept_in("claim", name=name)) for name in modes]),
        *map(pod_sandboxes.sandbox, modes),
    )
    said = {}
    for name in modes:
        pod_sandboxes.wait(name, "Running")
        said[name] = run(pod_sandboxes, name, "stat -c '%u:%g %a' .; touch note && ls -A")
    assert said["closed"].splitlines()[0] == "0:0 755"
    assert "Permission denied" in said["closed"]
    assert said["open"] == "0:0 1777\nnote"
    assert said["group"] == f"0:{GROUP} 2770\nnote"


def test_a_claim_that_is_not_there_is_waited_for(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, volumes: Volumes
) -> None:
    volumes.bring("later")
    leaving = claim("leaving")
    leaving["metadata"]["finalizers"] = ["example.com/backup"]
    pod_sandboxes.apply(leaving)
    pod_sandboxes.kubectl("delete", "persistentvolumeclaim", "leaving", "--wait=false")
    pod_sandboxes.apply(
        pod_sandboxes.policy(
            agents=[
                keeping("rain", kept_in("claim", name="later")),
                keeping("tio", kept_in("claim", name="leaving")),
            ]
        ),
        pod_sandboxes.sandbox("rain"),
        pod_sandboxes.sandbox("tio"),
    )
    missing = pod_sandboxes.wait("rain", "VolumeMissing")["message"]
    assert missing == "There is no PersistentVolumeClaim later in the namespace: make it, or name another."
    pod_sandboxes.apply(claim("later"))
    going = pod_sandboxes.wait("tio", "VolumeMissing")["message"]
    assert going == "The PersistentVolumeClaim leaving is being deleted."
    assert not [pod for pod in pods() if "tio" in pod["metadata"]["name"]]
    patch = '{"metadata":{"finalizers":null}}'
    pod_sandboxes.kubectl("patch", "persistentvolumeclaim", "leaving", "--type=merge", "-p", patch)
    volumes.bring("leaving")
    pod_sandboxes.apply(claim("leaving"))
    # They are tried again ever later.
    pod_sandboxes.wait("rain", "Running", timeout=120)
    pod_sandboxes.wait("tio", "Running", timeout=120)


def test_a_claim_for_one_pod_is_had_by_one_after_the_other(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, volumes: Volumes
) -> None:
    volumes.bring("single", access="ReadWriteOncePod")
    pod_sandboxes.apply(
        claim("single", access="ReadWriteOncePod"),
        pod_sandboxes.policy(workspace=kept_in("claim", name="single")),
        pod_sandboxes.sandbox("rain"),
    )
    holder = pod_sandboxes.wait("rain", "Running")["runtime"]["name"]
    pod_sandboxes.apply(pod_sandboxes.sandbox("tio"))
    busy = pod_sandboxes.wait("tio", "VolumeBusy")
    assert (
        busy["message"]
        == f"The PersistentVolumeClaim single is for one Pod at a time, and the Pod {holder} has it."
    )
    assert [pod["metadata"]["name"] for pod in pods()] == [holder]
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain", state="Stopped"))
    # It is tried again ever later.
    pod_sandboxes.wait("tio", "Running", timeout=120)
    assert pod_sandboxes.status("tio").get("recoveries", 0) == 0


def test_a_claim_that_was_made_goes_with_the_last_of_its_sandboxes(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, volumes: Volumes
) -> None:
    def sharer(name: str, **spec: Any) -> dict[str, Any]:
        return pod_sandboxes.sandbox(name, agentId="rain", sessionKey=name, **spec)

    def policy(**changes: Any) -> dict[str, Any]:
        template = kept_in("template", size="1g", storageClassName="")
        return pod_sandboxes.policy(workspace=template, **changes)

    pod_sandboxes.apply(policy(), sharer("one"))
    made = make_first_claim(pod_sandboxes, volumes)
    pod_sandboxes.wait("one", "Running")
    (pod,) = pods()
    assert made["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert made["spec"]["resources"] == {"requests": {"storage": "1073741824"}}
    assert made["spec"]["storageClassName"] == ""
    assert made["metadata"]["name"].startswith("sandkeeper-agent-rain-")
    assert made["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
    assert made["metadata"]["annotations"].items() <= pod["metadata"]["annotations"].items()
    assert made["metadata"]["annotations"]["sandkeeper.dev/key"] == "agent:rain"
    assert owners(made) == {"one"}
    run(pod_sandboxes, "one", "echo kept > note")

    # One that joins while what runs is not what is wanted.
    pod_sandboxes.apply(policy(container={"env": {"GREETING": "hello"}}))
    pod_sandboxes.wait("one", "ConfigChanged", kind="Drifted")
    pod_sandboxes.apply(sharer("two"))
    owned_by(pod_sandboxes, "one", "two")
    pod_sandboxes.kubectl("delete", "sandbox", "one")
    owned_by(pod_sandboxes, "two")

    # Others while nothing runs, because all are stopped.
    pod_sandboxes.apply(sharer("two", state="Stopped"))
    pod_sandboxes.wait("two", "Stopped")
    wait_for(lambda: not pods(), what="the Pod is gone")
    pod_sandboxes.apply(sharer("three", state="Stopped"))
    owned_by(pod_sandboxes, "two", "three")
    pod_sandboxes.kubectl("delete", "sandbox", "two")
    owned_by(pod_sandboxes, "three")
    pod_sandboxes.apply(sharer("three", state="Running"), sharer("four"))
    pod_sandboxes.wait("three", "Running")
    assert run(pod_sandboxes, "three", "cat note") == "kept"

    # And because it was pruned.
    owned_by(pod_sandboxes, "three", "four")
    pod_sandboxes.apply(policy(hotWindowSeconds=1, prune={"idleSeconds": 2}))
    pod_sandboxes.wait("four", "Idle")
    wait_for(lambda: not pods(), what="the Pod is gone")
    pod_sandboxes.kubectl("delete", "sandbox", "three")
    owned_by(pod_sandboxes, "four")
    pod_sandboxes.apply(policy())
    pod_sandboxes.touch("four")
    pod_sandboxes.wait("four", "Running")
    assert run(pod_sandboxes, "four", "cat note") == "kept"
    (last,) = claims_of(pod_sandboxes)
    assert last["metadata"]["uid"] == made["metadata"]["uid"]
    pod_sandboxes.kubectl("delete", "sandbox", "four")
    wait_for(lambda: not claims_of(pod_sandboxes), what="the claim is gone with the last of them")


def test_a_claim_that_is_retained_is_found_again(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, volumes: Volumes
) -> None:
    def policy(retention: str) -> dict[str, Any]:
        template = kept_in("template", size="1g", storageClassName="", retention=retention)
        return pod_sandboxes.policy(hotWindowSeconds=1, workspace=template)

    pod_sandboxes.apply(policy("Retain"), pod_sandboxes.sandbox("rain"))
    made = make_first_claim(pod_sandboxes, volumes)
    pod_sandboxes.wait("rain", "Running")
    assert owners(made) == set()
    run(pod_sandboxes, "rain", "echo kept > note")
    pod_sandboxes.kubectl("delete", "sandbox", "rain")
    # The Pod has to go first: whatever collects it has looked at the claim by then.
    wait_for(lambda: not pods(), what="the Pod is gone")
    (left,) = claims_of(pod_sandboxes)
    assert "deletionTimestamp" not in left["metadata"]

    pod_sandboxes.apply(pod_sandboxes.sandbox("again", agentId="rain"))
    before = pod_sandboxes.wait("again", "Running")
    assert run(pod_sandboxes, "again", "cat note") == "kept"
    assert [one["metadata"]["uid"] for one in claims_of(pod_sandboxes)] == [made["metadata"]["uid"]]

    # A policy that no longer uses it does not say that it may go.
    pod_sandboxes.apply(pod_sandboxes.policy(hotWindowSeconds=1))
    replaced(pod_sandboxes, "again", before)
    assert run(pod_sandboxes, "again", "ls -A") == ""
    owned_by(pod_sandboxes)
    # One that says so does, and is believed without a new Pod.
    pod_sandboxes.apply(policy("Delete"))
    owned_by(pod_sandboxes, "again")
    pod_sandboxes.apply(policy("Retain"))
    owned_by(pod_sandboxes)


def test_a_directory_of_the_node_is_for_the_installer_to_allow(  # noqa: PLR0917 - fixtures
    cluster: Cluster,
    namespace: str,
    operator_factory: OperatorFactory,
    pod_sandboxes: Sandboxes,
    pods: Pods,
    volumes: Volumes,
) -> None:
    disk = volumes.directory("agents")
    without = operator_factory(**serving_pods()).wait_ready()
    pod_sandboxes.apply(
        pod_sandboxes.policy(workspace=kept_in("hostPath", path=str(disk))), pod_sandboxes.sandbox("rain")
    )
    refused = pod_sandboxes.wait("rain", "BindRefused")["message"]
    assert refused == (
        f"workspace.volume.hostPath: '{disk}' is refused: {disk} is outside the operator's bind roots; "
        "ask the installer to add its directory to ceilings.bindRoots"
    )
    assert pods() == []
    without.stop()
    operator_factory(**serving_pods(ceilings={"bindRoots": [str(disk)]})).wait_ready()
    pod_sandboxes.wait("rain", "Running")
    assert run(pod_sandboxes, "rain", "echo rain > note; ls -A") == "note"
    assert [path.read_text() for path in disk.glob("*/note")] == ["rain\n"]

    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    pod_sandboxes.apply(pod_sandboxes.sandbox("tio"))
    forbidden = pod_sandboxes.wait("tio", "CreateFailed")["message"]
    assert 'violates PodSecurity "restricted:latest": restricted volume types' in forbidden
    assert 'uses restricted volume type "hostPath"' in forbidden
    # What runs is not given up for what would be refused.
    pod_sandboxes.apply(
        pod_sandboxes.policy(hotWindowSeconds=1, workspace=kept_in("hostPath", path=str(disk)))
    )
    pod_sandboxes.annotate("rain", recreate="1")
    pod_sandboxes.wait("rain", "ReplacementBlocked", kind="Drifted")
    assert pod_sandboxes.condition("rain") == ("True", "Running")


def test_a_directory_that_the_node_lacks_is_told_by_the_nodes_events(
    operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    missing = volumes.root / "not-yet"
    operator_factory(**serving_pods(ceilings={"bindRoots": [str(missing)]})).wait_ready()
    pod_sandboxes.apply(
        pod_sandboxes.policy(workspace=kept_in("hostPath", path=str(missing))), pod_sandboxes.sandbox("rain")
    )
    message = pod_sandboxes.wait("rain", "VolumeMissing", timeout=120)["message"]
    assert "is not a directory" in message
    missing.mkdir()
    pod_sandboxes.wait("rain", "Running", timeout=180)


def test_what_belongs_to_somebody_else_is_left_alone(  # noqa: PLR0917 - fixtures
    cluster: Cluster,
    namespace: str,
    pod_operator: OperatorProcess,
    pod_sandboxes: Sandboxes,
    pods: Pods,
    volumes: Volumes,
) -> None:
    uid = cluster.get("namespace", namespace)["metadata"]["uid"]
    us = installation_id(
        kube_system_uid=cluster.get("namespace", "kube-system")["metadata"]["uid"],
        namespace=namespace,
        release="test",
    )
    rain, tio, kite = (
        RuntimeKey(namespace, uid, "default", f"agent:{name}") for name in ("rain", "tio", "kite")
    )
    plain = claim(claim_name(rain, us))
    labelled = claim(claim_name(tio, us))
    labelled["metadata"]["labels"] = {
        "app.kubernetes.io/managed-by": "sandkeeper",
        "sandkeeper.dev/installation": us,
    }
    pod: dict[str, Any] = {**HARDENED_POD, "metadata": {"name": runtime_name("sandkeeper-", kite, us)}}
    strangers = (plain, labelled, pod)
    pod_sandboxes.apply(*strangers)
    pod_sandboxes.kubectl("wait", "--for=condition=Ready", f"pod/{pod['metadata']['name']}", "--timeout=60s")

    def state() -> list[tuple[str, dict[str, Any], set[str]]]:
        found = [*claims_of(pod_sandboxes), *pods()]
        return [
            (one["metadata"]["uid"], one["metadata"].get("labels", {}), owners(one))
            for one in found
            if "deletionTimestamp" not in one["metadata"]
        ]

    before = state()
    assert len(before) == len(strangers)
    template = kept_in("template", size="1g", storageClassName="")
    pod_sandboxes.apply(
        pod_sandboxes.policy(agents=[keeping(name, template) for name in ("rain", "tio")]),
        *map(pod_sandboxes.sandbox, ("rain", "tio", "kite")),
    )
    kinds = {"rain": plain, "tio": labelled, "kite": pod}
    for name, thing in kinds.items():
        message = pod_sandboxes.wait(name, "NameConflict")["message"]
        assert f"There is a {thing['kind']} {thing['metadata']['name']} that is not proven" in message
        assert "It is left alone; rename or remove it" in message
    # Asked again and again it stays so.
    tries = re.compile(r'sandkeeper_effects_total\{.*result="NameConflict"\} (\d+)')
    wait_for(
        lambda: int(tries.findall(pod_operator.read("/metrics"))[0]) >= 6,
        what="each was tried again",
        tell=lambda: pod_operator.read("/metrics"),
    )
    assert state() == before
    for name in kinds:
        assert pod_sandboxes.condition(name) == ("False", "NameConflict")

    names = [f"{thing['kind']}/{thing['metadata']['name']}" for thing in strangers]
    pod_sandboxes.kubectl("delete", "--timeout=50s", *names)
    for one in (plain, labelled):
        volumes.bring(one["metadata"]["name"])
    for name in kinds:
        pod_sandboxes.wait(name, "Running", timeout=120)  # they are tried again ever more slowly


def test_the_how_to_is_true(
    operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    household = volumes.directory("srv", mode=0o755, group=0)
    how_to = HowTo("workspaces.md", section="With Pods", instead={"/srv/household": str(household)})
    (settings,) = how_to.settings
    (shared, _, config_map) = how_to.manifests
    (commands,) = how_to.commands
    operator_factory(**serving_pods(**settings)).wait_ready()
    subprocess.run(["sh", "-euc", commands], check=True)
    (household / "tio-claude/SOUL.md").write_text("the soul of tio")
    disk = volumes.bring("household", access="ReadWriteMany")
    names = ("rain", "tio-claude", "visitor", "builder", "test-local")
    pod_sandboxes.apply(shared, config_map, how_to.policy("default", image=POD_IMAGE))
    pod_sandboxes.apply(*map(pod_sandboxes.sandbox, names))
    wait_for(lambda: len(claims_of(pod_sandboxes)) == 2, what="a claim is made")
    listed = pod_sandboxes.kubectl(
        "get", "pvc", "-l", "app.kubernetes.io/managed-by=sandkeeper", "-o", "name"
    )
    (made,) = (line.removeprefix("persistentvolumeclaim/") for line in listed.split())
    builders = volumes.bring(made)
    for name in names:
        pod_sandboxes.wait(name, "Running")
        touched = run(pod_sandboxes, name, f"touch note shared/{name}; ls note")
        assert ("Read-only file system" in touched) == (name == "visitor")
    # Each where the policy says: the agent's own, a copy on the node, a claim made for it, nowhere that lasts.
    assert (disk / "agents/rain/note").exists()
    (copy,) = (household / "copies").glob("agent-tio-claude-*")
    assert (copy / "note").exists()
    assert (copy / "SOUL.md").read_text() == "the soul of tio"
    assert not (household / "tio-claude/note").exists()
    assert (builders / "note").exists()
    assert run(pod_sandboxes, "visitor", "cat SOUL.md") == "You are a guest here."
    assert {path.name for path in (disk / "shared").iterdir()} == set(names)
