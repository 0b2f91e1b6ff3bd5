"""Pods that die, never start, or are lost with their node: what users are told, and how each comes back.

All on one operator, each with Sandboxes of its own. What takes the kubelet or the control plane a minute is begun with
the first test and looked at by the last ones.
"""

# ruff: noqa: S108 - paths inside containers

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import docker
import pytest
import yaml

from support.cluster import Cluster, new_namespace
from support.manifests import to_json
from support.operator import OperatorProcess, Sandboxes
from support.pods import POD_IMAGE, serving_pods
from support.waiting import wait_for
from testbed.fake_nodes import TOLERATION, FakeNodes

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("pods-in-trouble")]

SLOW = 150
"""Seconds. The kubelet measures disks once a minute; a silent node is found out within one, and a deleted one's Pods go
within another."""

MAIN = """
for process in /proc/[0-9]*; do
  if [ "$(tr '\\0' ' ' 2>/dev/null <$process/cmdline)" = "sleep infinity " ]; then main=${process#/proc/}; fi
done
"""
"""Finds the main process from inside, which is possible because all processes of the Pod see each other."""


class Watch:
    """All that becomes of the objects of one kind in a namespace, in order and complete."""

    def __init__(self, cluster: Cluster, namespace: str, kind: str) -> None:
        self._seen: list[tuple[str, dict[str, Any]]] = []
        self._process = subprocess.Popen(
            [
                *(cluster.program, "--kubeconfig", str(cluster.kubeconfig), "-n", namespace),
                *("get", kind, "--watch", "--output-watch-events", "-o", "json"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def of(self, matches: Callable[[dict[str, Any]], bool]) -> list[tuple[str, dict[str, Any]]]:
        """Return what happened to some objects: ADDED, MODIFIED or DELETED, and the object."""
        return [(kind, found) for kind, found in tuple(self._seen) if matches(found)]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            self._seen.append((event["type"], event["object"]))


@dataclass
class Ground:
    """One operator in a namespace of its own, and all that happens there."""

    cluster: Cluster
    namespace: str
    sandboxes: Sandboxes
    _watched: dict[str, Watch] = field(default_factory=dict)

    def begin(self, name: str, **policy: Any) -> None:
        """Make a Sandbox with a policy of its own."""
        self.set_policy(name, **policy)
        self.sandboxes.apply(self.sandboxes.sandbox(name, policyRef={"name": name}))

    def set_policy(self, name: str, **policy: Any) -> None:
        self.sandboxes.apply(self.sandboxes.policy(name, **policy))

    def ready(self, name: str, *, recoveries: int = 0, timeout: float = 60) -> dict[str, Any]:
        """Wait until it is Ready after so many recoveries."""

        def is_ready() -> bool:
            status = self.sandboxes.status(name)
            return status.get("phase") == "Ready" and status.get("recoveries", 0) == recoveries

        wait_for(
            is_ready,
            what=f"{name} is ready after {recoveries} recoveries",
            timeout=timeout,
            tell=lambda: json.dumps([self.statuses(name)[-3:], self.told(name)], indent=1),
        )
        return self.sandboxes.status(name)

    def waits(self, name: str, reason: str, *, timeout: float = 60) -> dict[str, Any]:
        """Wait until it is said why it is not Ready."""
        status: dict[str, Any] = self.sandboxes.wait(name, reason, timeout=timeout)
        return status

    def statuses(self, name: str) -> list[dict[str, Any]]:
        """Return every status that was ever written."""
        seen = self._watch("sandboxes").of(lambda sandbox: sandbox["metadata"]["name"] == name)
        return [sandbox["status"] for kind, sandbox in seen if kind == "MODIFIED" and "status" in sandbox]

    def message(self, name: str, reason: str) -> str:
        """Return the message of the first Event with this reason."""
        return next(message for _, told, message in self.told(name) if told == reason)

    def told(self, name: str) -> list[tuple[str, str, str]]:
        """Return the Events about it, in order: kind, reason, message."""
        seen = self._watch("events").of(
            lambda event: (
                (event["involvedObject"]["kind"], event["involvedObject"].get("name")) == ("Sandbox", name)
            )
        )
        return [(event["type"], event["reason"], event["message"]) for _, event in seen]

    def reasons(self, name: str) -> list[str]:
        """Return the reasons of the Warnings about it, in order."""
        return [reason for kind, reason, _ in self.told(name) if kind == "Warning"]

    def wait_told(self, name: str, *reasons: str) -> None:
        """Wait until just these Warnings were posted, in this order; they are posted after the status."""
        wait_for(
            lambda: self.reasons(name)[: len(reasons)] == list(reasons),
            what=f"{name}: Warnings {', '.join(reasons)}",
            timeout=60,
            tell=lambda: json.dumps(self.told(name), indent=1),
        )
        assert self.reasons(name) == list(reasons)

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Return its Pods as they are at the moment."""
        found = json.loads(self.sandboxes.kubectl("get", "pods", "-o", "json"))["items"]
        return [pod for pod in found if _belongs(pod, name)]

    def pod_history(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """Return all that ever happened to its Pods."""
        return self._watch("pods").of(lambda pod: _belongs(pod, name))

    def most_pods(self, name: str) -> int:
        """Tell how many Pods it ever had at the same time."""
        there: set[str] = set()
        most = 0
        for kind, pod in self.pod_history(name):
            (there.discard if kind == "DELETED" else there.add)(pod["metadata"]["uid"])
            most = max(most, len(there))
        return most

    def run(self, name: str, script: str) -> str:
        """Run a script in its Pod, which may die of it."""
        pod = self.sandboxes.status(name)["runtime"]["name"]
        try:
            return self.sandboxes.kubectl("exec", pod, "--", "sh", "-c", script)
        except subprocess.CalledProcessError as error:
            return str(error.stdout) + str(error.stderr)

    def patch_pod(self, name: str, patch: dict[str, Any]) -> None:
        (pod,) = self.pods(name)
        metadata = pod["metadata"]
        self.sandboxes.kubectl("patch", "pod", metadata["name"], "--type=merge", "-p", json.dumps(patch))

    def close(self) -> None:
        for watch in self._watched.values():
            watch.close()

    def _watch(self, kind: str) -> Watch:
        return self._watched[kind]

    def open(self) -> "Ground":
        for kind in ("sandboxes", "pods", "events"):
            self._watched[kind] = Watch(self.cluster, self.namespace, kind)
        return self


def _belongs(pod: dict[str, Any], name: str) -> bool:
    return any(owner["name"] == name for owner in pod["metadata"].get("ownerReferences", []))


def ready_of(status: dict[str, Any]) -> tuple[str, str]:
    """Return the status and the reason of the condition Ready."""
    (ready,) = [found for found in status["conditions"] if found["type"] == "Ready"]
    return ready["status"], ready["reason"]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def on(node: str, *, silent: bool = False) -> dict[str, Any]:
    """Lead a Pod to one fake node, even a silent one, and leave it there when nothing is heard of that for minutes."""
    lost = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": effect}
        for what in ("not-ready", "unreachable")
        for effect in ("NoExecute", *["NoSchedule"] * silent)
    ]
    return {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [dict(TOLERATION), *lost]}


@pytest.fixture(scope="module")
def ground(cluster: Cluster, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """One operator for all tests here."""
    with ExitStack() as stack:
        namespace = stack.enter_context(new_namespace(cluster))
        folder = tmp_path_factory.mktemp("operator")
        config = folder / "operator.yaml"
        settings = {"namespace": namespace, "release": "test", "watchNamespaces": [namespace]}
        config.write_text(yaml.safe_dump(serving_pods(**settings)))
        environment = os.environ | {
            "KUBECONFIG": str(cluster.kubeconfig),
            "DOCKER_HOST": cluster.docker_host,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        process = OperatorProcess(config=config, log=folder / "operator.log", env=environment, crash=None)
        stack.callback(process.kill)
        process.wait_ready()
        made = Ground(cluster, namespace, Sandboxes(cluster, namespace, POD_IMAGE))
        stack.callback(made.close)
        yield made.open()


@dataclass(frozen=True)
class Slow:
    """Troubles that were begun before the first test."""

    nodes: FakeNodes
    silent: tuple[str, str]
    absent_image: str


@pytest.fixture(scope="module", autouse=True)
def slow(ground: Ground, cluster: Cluster) -> Iterator[Slow]:
    """Begin what takes its time: full disks, nodes that fall silent, an image that cannot be pulled."""
    absent = f"sandkeeper-absent-{secrets.token_hex(4)}:1"
    with cluster.fake_nodes(2, prefix="silent") as nodes:
        deleted, given_up = nodes.names
        ground.begin("on-deleted-node", pod=on(deleted))
        ground.begin("on-node-out-of-service", pod=on(given_up))
        ground.begin("full-volume", workspace={"volume": {"emptyDir": {"sizeLimit": "1m"}}})
        ground.begin("full-disk", pod={"ephemeralStorage": "1m"})
        ground.begin("absent-image", container={"image": f"docker.io/library/{absent}"})
        for name in ("on-deleted-node", "on-node-out-of-service"):
            ground.ready(name)
        for node in nodes.names:
            nodes.silence(node)
        # Whether anybody has noticed as yet or not.
        ground.begin("never-started", pod=on(deleted, silent=True))
        for name in ("full-volume", "full-disk"):
            ground.ready(name)
            ground.run(name, "dd if=/dev/zero of=big bs=1M count=8")
        yield Slow(nodes, (deleted, given_up), absent)


# --- it runs, and dies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [("--wait",), ("--force", "--grace-period=0")], ids=["gently", "by-force"])
def test_one_that_somebody_deletes_is_made_anew(ground: Ground, how: tuple[str, ...]) -> None:
    name = f"deleted{'-by-force' * ('--force' in how)}"
    ground.begin(name)
    before = ground.ready(name)
    ground.sandboxes.kubectl("delete", "pod", before["runtime"]["name"], *how)
    after = ground.ready(name, recoveries=1)
    assert after["runtime"]["id"] != before["runtime"]["id"]
    assert ground.most_pods(name) == 1
    # That its container ended is what the deletion did, and no news.
    ground.wait_told(name, "Recovering")


def test_one_whose_main_process_is_killed_is_made_anew_and_ever_later(ground: Ground) -> None:
    name = "killed"
    ground.begin(name)
    ground.ready(name)
    for death in (1, 2, 3):
        ground.run(name, f"{MAIN} kill -9 $main")
        ground.ready(name, recoveries=death)
    assert ground.most_pods(name) == 1
    ground.wait_told(name, *["Exited", "Recovering"] * 3)
    assert "exit code 137" in ground.message(name, "Exited")
    # The first is made good at once, the second after 2 s, the third after 4 s, a tenth more or less.
    history = ground.pod_history(name)
    made = [_time(pod["metadata"]["creationTimestamp"]) for kind, pod in history if kind == "ADDED"]
    died = {
        pod["metadata"]["uid"]: _time(container["state"]["terminated"]["finishedAt"])
        for _, pod in history
        for container in pod["status"].get("containerStatuses", [])
        if "terminated" in container["state"]
    }
    second, third = (after - before for after, before in zip(made[2:], list(died.values())[1:], strict=True))
    assert second >= timedelta(seconds=1)  # of which the API server writes whole ones only
    assert third >= timedelta(seconds=3)
    told = [
        status for status in ground.statuses(name) if status.get("nextTransition", {}).get("what") == "Retry"
    ]
    assert (told[-1]["phase"], ready_of(told[-1])) == ("Failed", ("False", "Exited"))
    until = _time(told[-1]["nextTransition"]["at"])
    assert until - died[told[-1]["runtime"]["id"]] > timedelta(seconds=3.6)
    assert made[-1] >= until.replace(microsecond=0)


def test_that_it_ended_is_said_before_the_kubelet_has_done_with_it(ground: Ground) -> None:
    """Said first, and not that it starts: the Pod's phase follows about a second after the container's end."""
    ground.begin("ended")
    ground.ready("ended")
    ground.run("ended", f"{MAIN} kill -TERM $main")
    ground.ready("ended", recoveries=1)
    said = [ready_of(status) for status in ground.statuses("ended")]
    assert said[said.index(("True", "Running")) + 1] == ("False", "Exited")
    ground.wait_told("ended", "Exited", "Recovering")


def ends(ground: Ground, name: str) -> set[str]:
    """Return what the kubelet ever said of why a container of its Pods ended."""
    return {
        ended["reason"]
        for _, pod in ground.pod_history(name)
        for container in pod["status"].get("containerStatuses", [])
        if (ended := container["state"].get("terminated"))
    }


def test_one_whose_main_process_ran_out_of_memory_says_so(ground: Ground) -> None:
    # All that is in a tmpfs counts. Of those who ask for more the kernel kills the one that it was told to like best.
    fill = "dd if=/dev/zero of=/tmp/big bs=64k count=1600"
    for number in range(5):
        name = f"out-of-memory-{number}"
        ground.begin(name, container={"memory": "24m", "cpus": 0.5, "tmpfs": ["/tmp:size=100m"]})
        ground.ready(name)
        ground.run(name, f"{MAIN} echo 1000 >/proc/$main/oom_score_adj; {fill}")
        ground.ready(name, recoveries=1)
        if "OOMKilled" in ends(ground, name):
            break
        # containerd may hear that the process ended before it hears why, and then nobody ever knows.
    ground.wait_told(name, "OOMKilled", "Recovering")
    assert "Raise container.memory" in ground.message(name, "OOMKilled")


def test_memory_that_another_process_lacked_is_not_what_ended_it(ground: Ground) -> None:
    """The kernel kills what an exec started: nobody tells. The word sticks to the container, and shows when it ends."""
    name = "lacked-memory"
    ground.begin(name, container={"memory": "24m"})
    before = ground.ready(name)
    said = ground.run(name, "dd if=/dev/zero of=/dev/null bs=100M count=1; echo ended with $?")
    assert "ended with 137" in said
    (pod,) = ground.pods(name)
    assert pod["metadata"]["uid"] == before["runtime"]["id"]
    assert "running" in pod["status"]["containerStatuses"][0]["state"]
    assert ground.sandboxes.condition(name) == ("True", "Running")
    ground.run(name, f"{MAIN} kill -TERM $main")
    ground.ready(name, recoveries=1)
    ground.wait_told(name, "Exited", "Recovering")
    assert "exit code 143" in ground.message(name, "Exited")


def test_one_that_is_asked_to_leave_says_so(ground: Ground) -> None:
    name = "asked-to-leave"
    ground.begin(name)
    pod = ground.ready(name)["runtime"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": ground.namespace},
    }
    path = f"/api/v1/namespaces/{ground.namespace}/pods/{pod}/eviction"
    for time in (1, 2):
        ground.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
        ground.ready(name, recoveries=time)
    # The second waits, and is told to wait for the same reason.
    ground.wait_told(name, *["Evicted", "Recovering"] * 2)
    assert "EvictionByEvictionAPI" in ground.message(name, "Evicted")
    assert ground.most_pods(name) == 1


def test_one_that_does_not_go_is_waited_for(ground: Ground) -> None:
    name = "stuck"
    ground.begin(name)
    before = ground.ready(name)
    ground.patch_pod(name, {"metadata": {"finalizers": ["test.sandkeeper.dev/holds"]}})
    try:
        ground.sandboxes.kubectl("delete", "pod", before["runtime"]["name"], "--wait=false")
        status = ground.waits(name, "Terminating")
        assert status["phase"] == "Pending"
        wait_for(
            lambda: "finalizer" in ground.sandboxes.status(name)["message"], what="it says what to look for"
        )
        assert ground.sandboxes.condition(name) == ("False", "Terminating")
        assert [pod["metadata"]["uid"] for pod in ground.pods(name)] == [before["runtime"]["id"]]
    finally:
        ground.patch_pod(name, {"metadata": {"finalizers": None}})
    ground.ready(name, recoveries=1)
    assert ground.most_pods(name) == 1
    ground.wait_told(name, "Recovering")


# --- it never runs ----------------------------------------------------------------------------------------------------


def test_an_image_that_is_wrong_is_replaced_at_once_when_it_is_put_right(ground: Ground) -> None:
    name = "mistyped"
    ground.begin(name, container={"image": "docker.io/library/sandkeeper-mistyped:1"})
    ground.waits(name, "ImageMissing")
    (before,) = ground.pods(name)
    ground.set_policy(name)
    ground.ready(name)
    (after,) = ground.pods(name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert ground.most_pods(name) == 1
    ground.wait_told(name, "ImageMissing")


def test_an_image_without_the_main_process_cannot_be_started(
    ground: Ground, cluster: Cluster, docker_client: docker.DockerClient
) -> None:
    image = f"sandkeeper-empty-{secrets.token_hex(4)}:1"
    repository, _, tag = image.partition(":")
    docker_client.api.import_image_from_data(bytes(10240), repository=repository, tag=tag)
    try:
        cluster.load_image(image)
        ground.begin("nothing-in-it", container={"image": f"docker.io/library/{image}"})
        message = ground.waits("nothing-in-it", "StartFailed")["message"]
        assert '"sleep": executable file not found' in message
    finally:
        cluster.unload_image(image)
        docker_client.images.remove(image, force=True)


def test_what_no_node_takes_waits_for_one_that_does(ground: Ground, slow: Slow) -> None:
    name, wanted = "nowhere", {"test.sandkeeper.dev/wanted": secrets.token_hex(4)}
    ground.begin(name, pod={"nodeSelector": wanted, "tolerations": [dict(TOLERATION)]})
    status = ground.waits(name, "Unschedulable")
    assert status["phase"] == "Pending"
    assert "didn't match Pod's node affinity/selector" in status["message"]
    (before,) = ground.pods(name)
    with ground.cluster.fake_nodes(1, prefix="wanted") as nodes:
        (label,) = (f"{key}={value}" for key, value in wanted.items())
        ground.cluster.kubectl("label", "node", nodes.names[0], label)
        after = ground.ready(name)
        assert (after["runtime"]["id"], after["runtime"]["node"]) == (
            before["metadata"]["uid"],
            nodes.names[0],
        )
        ground.wait_told(name, "Unschedulable")
        ground.sandboxes.kubectl("delete", "sandbox", name)


def is_told_last(ground: Ground, name: str, reason: str) -> bool:
    return ground.reasons(name)[-1] == reason


def would_be_admitted(cluster: Cluster, manifest: dict[str, Any]) -> bool:
    with suppress(subprocess.CalledProcessError):
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=to_json(manifest))
        return True
    return False


def test_one_that_makes_room_for_another_comes_back_when_there_is_some(ground: Ground) -> None:
    name, hunter = "prey", f"hunter-{secrets.token_hex(4)}"
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": hunter},
        "value": 1000,
    }
    with ground.cluster.fake_nodes(1, prefix="prey") as nodes:
        (node,) = nodes.names
        room = ground.cluster.get("node", node)["status"]["allocatable"]["cpu"]
        assert room == "1k"
        ground.begin(name, container={"cpus": 600}, pod=on(node))
        before = ground.ready(name)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": hunter, "namespace": ground.namespace},
            "spec": {
                "priorityClassName": hunter,
                "containers": [{"name": "main", "image": "none", "resources": {"limits": {"cpu": "600"}}}],
                **on(node),
            },
        }
        try:
            ground.cluster.kubectl("apply", "-f", "-", stdin=to_json(priority))
            wait_for(
                lambda: would_be_admitted(ground.cluster, pod),
                what="the class is known where Pods are admitted",
            )
            # A kubelet takes its time to end a Pod. A silent one leaves us some to look: until it is missed.
            nodes.silence(node)
            ground.cluster.kubectl("apply", "-f", "-", stdin=to_json(pod))
            status = ground.waits(name, "Preempted")
            assert "higher priority" in status["message"]
            nodes.revive(node)
            ground.waits(name, "Unschedulable")
            assert [one["metadata"]["uid"] for one in ground.pods(name)] != [before["runtime"]["id"]]
            ground.sandboxes.kubectl("delete", "pod", hunter)
            ground.ready(name, recoveries=1)
        finally:
            ground.cluster.kubectl("delete", "priorityclass", hunter)
            with suppress(subprocess.CalledProcessError):
                ground.sandboxes.kubectl("delete", "pod", hunter, "--wait=false")
            nodes.revive(node)
        assert ground.most_pods(name) == 1
        ground.wait_told(name, "Preempted", "Unschedulable", "Recovering")
        ground.sandboxes.kubectl("delete", "sandbox", name)


# --- what takes its time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("full-volume", 'Usage of EmptyDir volume "workspace" exceeds the limit'),
        ("full-disk", "Pod ephemeral local storage usage exceeds the total limit"),
    ],
)
def test_one_that_fills_its_disk_is_evicted_and_made_anew(ground: Ground, name: str, said: str) -> None:
    ground.ready(name, recoveries=1, timeout=SLOW)
    ground.wait_told(name, "Evicted", "Recovering")
    assert said in ground.message(name, "Evicted")
    assert ground.most_pods(name) == 1


def test_an_image_that_cannot_be_had_is_told_once_and_taken_when_it_comes(
    ground: Ground, slow: Slow, cluster: Cluster, docker_client: docker.DockerClient, tiny_image: str
) -> None:
    name = "absent-image"

    def waits() -> list[str]:
        return [
            waiting["reason"]
            for _, pod in ground.pod_history(name)
            for container in pod["status"].get("containerStatuses", [])
            if (waiting := container["state"].get("waiting"))
        ]

    # The kubelet writes two words in turn, each pull anew.
    wait_for(lambda: waits().count("ErrImagePull") > 1, what="another pull fails", timeout=SLOW)
    wait_for(lambda: waits()[-1] == "ImagePullBackOff", what="it pauses again", timeout=SLOW)
    status = ground.waits(name, "ImageMissing")
    assert status["phase"] == "Failed"
    assert "failed to pull and unpack image" in status["message"]
    written = [ready_of(status) for status in ground.statuses(name)]
    assert written.count(("False", "ImageMissing")) == 1
    ground.wait_told(name, "ImageMissing")
    (before,) = ground.pods(name)
    repository, _, tag = slow.absent_image.partition(":")
    docker_client.images.get(tiny_image).tag(repository, tag)
    try:
        cluster.load_image(slow.absent_image)
        after = ground.ready(name)
        assert after["runtime"]["id"] == before["metadata"]["uid"]
    finally:
        cluster.unload_image(slow.absent_image)
        docker_client.images.remove(slow.absent_image, force=True)


def test_one_whose_node_is_silent_is_not_forced_until_the_node_is_given_up(
    ground: Ground, slow: Slow
) -> None:
    deleted, given_up = slow.silent
    before = {}
    for name in ("on-deleted-node", "on-node-out-of-service"):
        status = ground.waits(name, "NodeLost", timeout=SLOW)
        assert (status["phase"], ready_of(status)) == ("Unknown", ("Unknown", "NodeLost"))
        assert "has not answered since" in status["message"]
        (pod,) = ground.pods(name)
        assert "deletionTimestamp" not in pod["metadata"]
        assert pod["metadata"]["uid"] == status["runtime"]["id"]
        before[name] = pod["metadata"]["uid"]
    status = ground.waits("never-started", "NodeLost", timeout=SLOW)
    assert (status["phase"], status.get("runtime")) == ("Unknown", None)
    # Elsewhere there is room for what comes next.
    for name in (*before, "never-started"):
        ground.set_policy(name)
    assert [ground.pods(name)[0]["metadata"]["uid"] for name in before] == list(before.values())
    slow.nodes.put_out_of_service(given_up)
    slow.nodes.delete(deleted)
    for name, uid in before.items():
        after = ground.ready(name, recoveries=1, timeout=SLOW)
        assert after["runtime"]["id"] != uid
        assert ground.most_pods(name) == 1
        assert ground.reasons(name)[0] == "NodeLost"
        # Events are posted after the status.
        wait_for(partial(is_told_last, ground, name, "Recovering"), what=f"the recovery of {name} is told")
    ground.ready("never-started", timeout=SLOW)
    assert ground.most_pods("never-started") == 1
