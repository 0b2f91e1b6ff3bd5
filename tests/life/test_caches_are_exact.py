"""After a watch was lost and what it missed is gone from history, no ghost is left: on a control plane of its own."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster import OwnCluster, new_namespace
from support.crds import install_crds
from support.operator import OperatorProcess, Sandboxes
from support.pods import POD_IMAGE, serving_pods
from support.proxy import ApiProxy
from support.waiting import wait_for
from testbed.fake_nodes import FakeNodes

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("own-cluster")]


@pytest.fixture
def nodes(own_cluster: OwnCluster) -> Iterator[FakeNodes]:
    install_crds(own_cluster)
    with own_cluster.fake_nodes(1, prefix="exact") as nodes:
        yield nodes


@pytest.fixture
def world(own_cluster: OwnCluster, nodes: FakeNodes) -> Iterator[Sandboxes]:
    with new_namespace(own_cluster) as namespace:
        yield Sandboxes(own_cluster, namespace, POD_IMAGE)


@pytest.fixture
def proxy(own_cluster: OwnCluster, tmp_path: Path) -> Iterator[ApiProxy]:
    with ApiProxy(own_cluster.kubeconfig, tmp_path) as proxy:
        yield proxy


@pytest.fixture
def operator(proxy: ApiProxy, world: Sandboxes, tmp_path: Path) -> Iterator[OperatorProcess]:
    config = tmp_path / "operator.yaml"
    settings = {"namespace": world.namespace, "release": "test", "watchNamespaces": [world.namespace]}
    config.write_text(yaml.safe_dump({**settings, **serving_pods(backends=["pod"])}))
    environment = os.environ | {
        "KUBECONFIG": str(proxy.kubeconfig),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    process = OperatorProcess(config=config, log=tmp_path / "operator.log", env=environment, crash=None)
    try:
        yield process.wait_ready()
    finally:
        process.kill()


def live_pods(world: Sandboxes) -> dict[str, str]:
    """The UIDs of the Pods by the agent that they are for."""
    found = json.loads(world.kubectl("get", "pods", "-o", "json"))["items"]
    return {
        pod["metadata"]["annotations"]["sandkeeper.dev/key"].removeprefix("agent:"): pod["metadata"]["uid"]
        for pod in found
        if "deletionTimestamp" not in pod["metadata"]
    }


def recorded(world: Sandboxes, name: str) -> Any:
    return world.status(name).get("runtime", {}).get("id")


def test_no_ghost_is_left_after_history_was_lost(
    own_cluster: OwnCluster,
    proxy: ApiProxy,
    operator: OperatorProcess,
    world: Sandboxes,
    nodes: FakeNodes,
) -> None:
    names = ("stays", "loses-its-pod", "goes", "comes-again")
    policy = world.policy(pod=nodes.placement)
    world.apply(policy, *(world.sandbox(name) for name in names))
    for name in names:
        world.wait(name, "Running")
    before = {name: recorded(world, name) for name in names}
    assert live_pods(world) == before

    proxy.cut()
    for name in ("goes", "comes-again"):
        world.kubectl("delete", "sandbox", name, "--timeout=30s")
    gone = [world.get(name)["status"]["runtime"]["name"] for name in ("loses-its-pod",)]
    world.kubectl("delete", "pod", *gone, "--force", "--grace-period=0", "--timeout=30s")
    wait_for(lambda: set(live_pods(world)) == {"stays"}, what="their Pods are gone")
    world.apply(world.sandbox("comes-again"), world.sandbox("is-new"))
    own_cluster.stop_api_server()
    own_cluster.compact_etcd()
    own_cluster.start_api_server()
    seen = proxy.gone
    proxy.heal()

    there = ("stays", "loses-its-pod", "comes-again", "is-new")
    wait_for(
        lambda: (
            {world.condition(name) for name in there} == {("True", "Running")}
            and {name: recorded(world, name) for name in there} == live_pods(world)
        ),
        what="each has a Pod that is there",
        tell=lambda: world.kubectl("get", "sandboxes,pods", "-o", "wide"),
        timeout=120,
    )
    assert proxy.gone > seen, "no watch was told that its revision is gone, so this test shows nothing"
    after = live_pods(world)
    assert after["stays"] == before["stays"]
    assert after["loses-its-pod"] != before["loses-its-pod"]
    assert after["comes-again"] != before["comes-again"]
    assert world.status("stays").get("recoveries", 0) == 0
    assert world.status("loses-its-pod")["recoveries"] == 1
    assert world.status("comes-again").get("recoveries", 0) == 0
    # What went while nobody looked is not known any more: whoever comes under its key begins afresh.
    world.apply(world.sandbox("goes"))
    status = world.wait("goes", "Running")
    assert status["runtime"]["id"] == live_pods(world)["goes"] != before["goes"]
