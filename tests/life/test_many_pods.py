"""Hundreds of Sandboxes as Pods on fake nodes: none is lost and none has two, whoever is restarted meanwhile."""

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster import OwnCluster
from support.crds import install_crds
from support.manifests import to_json
from support.operator import OperatorProcess, Sandboxes
from support.pods import POD_IMAGE, serving_pods
from support.waiting import wait_for
from testbed.fake_nodes import FakeNodes

pytestmark = [pytest.mark.cluster]

MANY = 500
NODES = 20

Start = Callable[[], OperatorProcess]


@pytest.fixture
def nodes(own_cluster: OwnCluster) -> Iterator[FakeNodes]:
    with own_cluster.fake_nodes(NODES, prefix="many") as made:
        yield made


@pytest.fixture
def place(own_cluster: OwnCluster) -> str:
    """A namespace of a cluster that has our kinds."""
    install_crds(own_cluster)
    # It goes with the cluster.
    own_cluster.kubectl("create", "namespace", "many")
    own_cluster.kubectl("-n", "many", "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    return "many"


@pytest.fixture
def start(own_cluster: OwnCluster, place: str, tmp_path: Path) -> Iterator[Start]:
    """Start operators for the namespace; they end with the test."""
    config, started = tmp_path / "operator.yaml", list[OperatorProcess]()
    settings = {"namespace": place, "release": "test", "watchNamespaces": [place], **serving_pods()}
    config.write_text(yaml.safe_dump({**settings, "backends": ["pod"]}), encoding="utf-8")
    env = os.environ | {
        "KUBECONFIG": str(own_cluster.kubeconfig),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }

    def begin() -> OperatorProcess:
        process = OperatorProcess(config=config, log=tmp_path / "operator.log", env=env, crash=None)
        started.append(process)
        return process.wait_ready()

    yield begin
    for process in started:
        process.kill()


class World:
    """All Sandboxes and Pods of a namespace, read at once."""

    def __init__(self, cluster: OwnCluster, namespace: str) -> None:
        self.sandboxes = cluster.get("-n", namespace, "sandboxes")["items"]
        self.pods = cluster.get("-n", namespace, "pods")["items"]

    @property
    def unready(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.sandboxes if not _is_ready(one)]

    @property
    def versions(self) -> dict[str, str]:
        """Whoever writes an object changes its version."""
        found = [*self.sandboxes, *self.pods]
        return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in found}

    @property
    def runtimes(self) -> dict[str, str]:
        """The Pod that each Sandbox has, as its status says."""
        return {one["metadata"]["name"]: one["status"]["runtime"]["id"] for one in self.sandboxes}

    def assert_one_for_each(self) -> None:
        names = Counter(one["metadata"]["name"] for one in self.sandboxes)
        owners = Counter(
            owner["name"] for pod in self.pods for owner in pod["metadata"].get("ownerReferences", [])
        )
        assert owners == names
        assert sorted(self.runtimes.values()) == sorted(pod["metadata"]["uid"] for pod in self.pods)


def _is_ready(sandbox: dict[str, Any]) -> bool:
    conditions = sandbox.get("status", {}).get("conditions", [])
    return ("Ready", "True") in [(condition["type"], condition["status"]) for condition in conditions]


def writes(operator: OperatorProcess) -> int:
    """Everything that it wrote, Events and the lease aside."""
    found = re.findall(
        r'^sandkeeper_api_requests_total\{code="\d+",resource="([^"]+)",verb="(?:POST|PUT|PATCH|DELETE)"\} (\S+)$',
        operator.read("/metrics"),
        re.MULTILINE,
    )
    return sum(int(float(count)) for what, count in found if what not in {"events", "leases"})


def passes(operator: OperatorProcess) -> float:
    counts = re.findall(r"^sandkeeper_reconcile_total\{.*\} (\S+)$", operator.read("/metrics"), re.MULTILINE)
    return sum(map(float, counts))


def settle(operator: OperatorProcess, *, least: int = 0) -> None:
    """Wait until it has made so many passes and makes no more."""
    before = -1.0
    for _ in range(60):
        now = passes(operator)
        if now == before and now >= least:
            return
        before = now
        time.sleep(1.5)
    raise AssertionError(f"the operator does not come to rest; {before:g} passes")


def test_none_is_lost_and_none_has_two_whoever_is_restarted(
    own_cluster: OwnCluster, place: str, nodes: FakeNodes, start: Start
) -> None:
    user = Sandboxes(own_cluster, place, POD_IMAGE)

    def look() -> World:
        return World(own_cluster, place)

    def make(*names: str) -> None:
        sandboxes = [user.sandbox(name) for name in names]
        own_cluster.kubectl("create", "-f", "-", stdin=to_json(*sandboxes), seconds=120)
        # Reading hundreds of objects takes time from those who work on them; so not while there is much to do.
        settle(operator, least=len(names))
        wait_for(lambda: look().unready == [], what="all are Ready", timeout=120, pause=1)

    operator = start()
    user.apply(user.policy(pod=nodes.placement))
    make(*(f"s{number}" for number in range(MANY)))
    first = look()
    assert len(first.pods) == MANY
    first.assert_one_for_each()

    operator.kill()
    operator = start()
    settle(operator, least=MANY)
    assert writes(operator) == 0
    assert look().versions == first.versions

    own_cluster.restart_api_server()
    make("after")
    last = look()
    last.assert_one_for_each()
    assert {**first.runtimes, "after": last.runtimes["after"]} == last.runtimes
