"""``sandkeeper exec`` and the lives of real containers of a real operator."""

from pathlib import Path

import pytest

from cli.executing import Executing
from support.cluster import Cluster
from support.operator import OperatorProcess, Sandboxes

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


@pytest.fixture
def rain(sandboxes: Sandboxes, operator: OperatorProcess) -> Sandboxes:
    sandboxes.apply(
        sandboxes.policy(hotWindowSeconds=3, prune={"idleSeconds": 20}), sandboxes.sandbox("rain")
    )
    sandboxes.wait("rain", "Running")
    return sandboxes


@pytest.fixture
def execute(cluster: Cluster, namespace: str) -> Executing:
    return Executing(cluster, namespace)


def test_a_long_command_is_one_long_use(rain: Sandboxes, execute: Executing) -> None:
    before = rain.status("rain")["runtime"]["id"]
    assert execute("rain", "--", "sleep", "30").returncode == 0
    assert rain.status("rain")["runtime"]["id"] == before


def test_what_was_pruned_comes_back_first(rain: Sandboxes, execute: Executing) -> None:
    rain.wait("rain", "Idle")
    assert execute("rain", "--", "echo", "back").stdout == b"back\n"


def test_another_engine_is_refused(rain: Sandboxes, execute: Executing, tmp_path: Path) -> None:
    done = execute("rain", "--", "true", DOCKER_HOST=f"unix://{tmp_path}/nobody.sock")
    assert done.returncode == 125
    assert b"The Docker engine was not reached" in done.stderr
