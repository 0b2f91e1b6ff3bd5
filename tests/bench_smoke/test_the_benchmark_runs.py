"""The benchmark runs from end to end, in its quick form; its figures are not judged here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import docker
import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(420)]


def test_every_part_is_measured_and_nothing_is_left(
    cluster: Any, docker_client: docker.DockerClient, tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--output", str(tmp_path)],
        check=True,
        timeout=360,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    figures = json.loads((tmp_path / "performance.json").read_text(encoding="utf-8"))["figures"]
    containers_only = {"applyToReady", "path", "recovery", "writes", "many"}
    pods_only = {"podApplyToReady", "podPath", "podWrites", "podMany"}
    assert set(figures) == containers_only | pods_only | {"pure"}
    assert (tmp_path / "performance.md").read_text(encoding="utf-8").startswith("# Performance")
    active = cluster.kubectl("get", "namespaces", "--field-selector=status.phase=Active", "-o", "name")
    assert "namespace/bench-" not in active
    containers = docker_client.containers.list(all=True, ignore_removed=True)
    assert [container.name for container in containers if "sandkeeper-bare" in str(container.name)] == []
