from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.cluster import HARDENED_POD, shared_cluster
from testbed import processes

if TYPE_CHECKING:
    import docker

    from support.cluster import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def pod(cluster: Cluster, namespace: str) -> str:
    cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(HARDENED_POD))
    cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/hardened", "--timeout=60s")
    return "hardened"


def test_a_hardened_pod_runs_hardened(cluster: Cluster, namespace: str, pod: str) -> None:
    status = cluster.kubectl("-n", namespace, "exec", pod, "--", "cat", "/proc/self/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    assert int(fields["CapEff"], 16) == 0
    assert fields["Uid"].split() == ["1000"] * 4
    assert cluster.kubectl("-n", namespace, "logs", pod) == "here\n"


def test_the_pause_process_reaps_orphans(cluster: Cluster, namespace: str, pod: str) -> None:
    # The middle shell ends at once, so its child is an orphan when it ends itself.
    script = (
        "sh -c 'sleep 0.2 & echo $!' > /dev/shm/orphan; "
        "read orphan < /dev/shm/orphan; "
        "for i in $(seq 100); do [ -d /proc/$orphan ] || { echo reaped; exit; }; sleep 0.2; done; "
        "cat /proc/$orphan/stat"
    )
    assert cluster.kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", script) == "reaped\n"
    assert cluster.kubectl("-n", namespace, "exec", pod, "--", "cat", "/proc/1/comm") == "pause\n"


def test_a_pod_reaches_the_api_server_at_its_service(cluster: Cluster, namespace: str, pod: str) -> None:
    script = "exec 3<>/dev/tcp/$KUBERNETES_SERVICE_HOST/$KUBERNETES_SERVICE_PORT && echo open"
    assert cluster.kubectl("-n", namespace, "exec", pod, "--", "bash", "-c", script) == "open\n"


def test_writes_can_be_counted(cluster: Cluster) -> None:
    assert "apiserver_request_total{" in cluster.kubectl("get", "--raw", "/metrics")


def test_the_engine_runs_containers_with_a_network(docker_client: docker.DockerClient) -> None:
    output = docker_client.containers.run("debian:bookworm-slim", ["cat", "/proc/net/route"], remove=True)
    assert b"eth0" in output


def test_a_namespace_with_a_leftover_goes(cluster: Cluster, namespace: str) -> None:
    assert cluster.get("namespace", namespace)["status"]["phase"] == "Active"


def test_who_uses_the_bed_twice_and_leaves_once_still_uses_it(cluster: Cluster) -> None:
    def places() -> int:
        state = cluster.layout.state
        users = json.loads(state.with_name(f"{state.name}.users").read_text(encoding="utf-8"))["users"]
        me = processes.myself()
        return sum(user["pid"] == me.pid for user in users)

    before = places()
    with shared_cluster():
        assert places() == before + 1
    assert places() == before >= 1
