"""What docs/how-to/roll-out-a-change.md says to run does what it says."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster
from support.how_tos import HowTo
from support.nodes import FakeNodesFactory
from support.operator import OperatorFactory, Sandboxes
from support.pods import POD_IMAGE, serving_pods
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

NAMES = [f"s{number}" for number in range(4)]
PAGE = "roll-out-a-change.md"


@pytest.fixture
def shell(cluster: Cluster, namespace: str, tmp_path: Path) -> Callable[[str], str]:
    """Run what stands there in the test's namespace, as somebody does whose kubectl looks there."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig.read_text(encoding="utf-8"), encoding="utf-8")
    environment = os.environ | {
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{Path(cluster.program).parent}:{os.environ['PATH']}",
    }

    def run(commands: str) -> str:
        return subprocess.run(
            ["sh", "-euc", commands], env=environment, capture_output=True, text=True, check=True, timeout=180
        ).stdout

    run(f"kubectl config set-context --current --namespace={namespace}")
    return run


def test_a_change_is_followed_stops_and_goes_on(
    shell: Callable[[str], str],
    operator_factory: OperatorFactory,
    pod_sandboxes: Sandboxes,
    fake_nodes: FakeNodesFactory,
) -> None:
    user, placement = pod_sandboxes, fake_nodes(1).placement
    change, follow, wait = HowTo(PAGE).commands[:3]
    ask, go_on = HowTo(PAGE, section="When it stops").commands
    (pause,) = HowTo(PAGE, section="Hold everything back").commands
    operator_factory(**serving_pods(), lease=False).wait_ready()
    policy = HowTo(PAGE).policy("default", image=POD_IMAGE)
    policy["spec"]["pod"] = placement
    user.apply(policy, *(user.sandbox(name) for name in NAMES))
    before = {name: user.wait(name, "Running")["configHash"] for name in NAMES}

    shell(change)
    shell(wait)
    heading, row = shell(follow).splitlines()
    for column in ("READY", "RUNTIMES", "CURRENT", "DRIFTED", "BLOCKED", "ROLLOUT"):
        assert column in heading
    assert row.split()[1:6] == ["True", "4", "4", "0", "0"]
    after = {name: user.status(name)["configHash"] for name in NAMES}
    assert not before.items() & after.items()

    nowhere = {"nodeSelector": {"example.com/there": "is-none"}}
    user.kubectl("patch", "asp", "default", "--type=merge", "-p", json.dumps({"spec": {"pod": nowhere}}))
    wait_for(lambda: "The replacement failed of s" in shell(ask), what="it stops", timeout=120)

    def away() -> list[dict[str, Any]]:
        found = json.loads(user.kubectl("get", "sandboxes", "-o", "json"))["items"]
        return [one for one in found if "removing" in one["status"]]

    assert len(away()) == 1
    assert "Unschedulable" in shell(ask)
    shell(go_on)
    wait_for(lambda: len(away()) == 2, what="it goes on to the next", timeout=60)
    shell(pause)
    wait_for(lambda: "RolloutBlocked" in shell(follow) or "RolloutPaused" in shell(follow), what="it is held")


def test_the_switch_is_a_setting_of_the_operator() -> None:
    assert HowTo(PAGE, section="Hold everything back").settings == [{"removals": "forbidden"}]
