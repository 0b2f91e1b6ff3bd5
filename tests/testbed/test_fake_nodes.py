from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException
from kubernetes.config import new_client_from_config

from support.cluster import new_namespace
from support.waiting import wait_for
from testbed import kwok
from testbed.fake_nodes import GROUP_LABEL
from testbed.paths import MODULES

if TYPE_CHECKING:
    from support.cluster import Cluster, OwnCluster
    from support.nodes import FakeNodesFactory
    from testbed.fake_nodes import FakeNodes

pytestmark = pytest.mark.cluster


def a_pod(nodes: FakeNodes, name: str = "fake", **spec: Any) -> str:
    container = {"name": "main", "image": "none.invalid/none"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    return json.dumps({**pod, "spec": {**nodes.placement, "containers": [container], **spec}})


def nodes_of(cluster: Cluster, group: str) -> list[str]:
    listed = cluster.kubectl("get", "nodes", "-l", f"{GROUP_LABEL}={group}", "-o", "name")
    return listed.split()


def pods_of(cluster: Cluster, nodes: FakeNodes) -> list[str]:
    listed = cluster.get("pods", "-A")["items"]
    return [pod["metadata"]["name"] for pod in listed if pod["spec"].get("nodeName") in nodes.names]


def test_a_pod_gets_ready_and_nothing_is_left(cluster: Cluster, namespace: str) -> None:
    with cluster.fake_nodes(2) as nodes:
        cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=a_pod(nodes))
        cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/fake", "--timeout=60s")
        assert cluster.get("-n", namespace, "pod", "fake")["spec"]["nodeName"] in nodes.names
        assert len(nodes_of(cluster, nodes.group)) == 2
        (run,) = [run for run in kwok.runs(cluster.layout) if run.group == nodes.group]
        assert run.process.alive
    assert not run.process.alive
    assert nodes.group not in [run.group for run in kwok.runs(cluster.layout)]
    assert not nodes_of(cluster, nodes.group)
    assert not pods_of(cluster, nodes)


def test_groups_keep_apart(cluster: Cluster, namespace: str, fake_nodes: FakeNodesFactory) -> None:
    first, second = fake_nodes(prefix="same"), fake_nodes(prefix="same")
    for number, nodes in enumerate((first, second)):
        cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=a_pod(nodes, f"p{number}"))
    cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
    assert pods_of(cluster, first) == ["p0"]
    assert pods_of(cluster, second) == ["p1"]


def test_a_pod_of_the_same_name_survives_the_end_of_the_one_before(
    cluster: Cluster, namespace: str, fake_nodes: FakeNodesFactory
) -> None:
    nodes = fake_nodes()
    names = [f"again-{number}" for number in range(10)]
    with new_client_from_config(config_file=str(cluster.kubeconfig)) as connection:  # type: ignore[no-untyped-call]
        core = CoreV1Api(connection)
        made = {name: made_at_once(core, namespace, a_pod(nodes, name)) for name in names}
        cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
        for name in names:
            core.delete_namespaced_pod(name, namespace)
            made[name] = made_at_once(core, namespace, a_pod(nodes, name))
    cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
    listed = cluster.get("-n", namespace, "pods")["items"]
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in listed} == made


def made_at_once(core: CoreV1Api, namespace: str, pod: str) -> str:
    """Make a Pod as soon as its name is free; return its UID."""
    deadline = time.monotonic() + 20
    while True:
        try:
            made = core.create_namespaced_pod(namespace, json.loads(pod))
        except ApiException as error:
            if error.status != HTTPStatus.CONFLICT or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            assert made.metadata is not None
            return str(made.metadata.uid)


@pytest.mark.xdist_group("fake-nodes")
def test_what_a_killed_process_left_is_removed_by_the_next(own_cluster: OwnCluster) -> None:
    # Among others who need fake nodes, any of them might be the next.
    script = (
        "import os, sys, time\n"
        "from testbed import bed\n"
        "from testbed.fake_nodes import fake_nodes\n"
        "from testbed.paths import Layout\n"
        "layout = Layout.from_environment(os.environ)\n"
        "with fake_nodes(layout, bed.load(layout), prefix='left') as nodes:\n"
        "    print(nodes.group, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    environ = os.environ | {
        "PYTHONPATH": str(MODULES.parent),
        "SANDKEEPER_STATE": str(own_cluster.layout.state),
    }
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        group = other.stdout.readline().strip()
        other.send_signal(signal.SIGKILL)
    (run,) = [run for run in kwok.runs(own_cluster.layout) if run.group == group]
    assert run.process.alive
    assert nodes_of(own_cluster, group)
    with own_cluster.fake_nodes(0):
        assert not run.process.alive
        assert not nodes_of(own_cluster, group)


@pytest.mark.xdist_group("fake-nodes")
def test_a_silent_node_is_found_unreachable_and_can_be_given_up(own_cluster: OwnCluster) -> None:
    kubectl = own_cluster.kubectl
    with own_cluster.fake_nodes(2) as nodes, new_namespace(own_cluster) as namespace:
        kubectl("-n", namespace, "apply", "-f", "-", stdin=a_pod(nodes))
        kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/fake", "--timeout=60s")
        node = own_cluster.get("-n", namespace, "pod", "fake")["spec"]["nodeName"]
        nodes.silence(node)
        nodes.wait_unreachable(node)
        nodes.wait_ready(*(name for name in nodes.names if name != node))
        # Nobody is there who would end it.
        kubectl("-n", namespace, "delete", "pod", "fake", "--wait=false")
        assert "deletionTimestamp" in own_cluster.get("-n", namespace, "pod", "fake")["metadata"]
        nodes.put_out_of_service(node)
        kubectl("-n", namespace, "wait", "--for=delete", "pod/fake", "--timeout=60s")

        nodes.put_into_service(node)
        nodes.revive(node)
        nodes.wait_ready()
        nodes.delete(node)
        wait_for(lambda: len(nodes_of(own_cluster, nodes.group)) == 1, what="one node is left")
