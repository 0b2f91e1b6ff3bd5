"""The benchmark runs from end to end, in its quick form; its figures are not judged here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import docker
import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(720)]


def test_every_part_is_measured_and_nothing_is_left(
    cluster: Any, docker_client: docker.DockerClient, tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--output", str(tmp_path)],
        check=True,
        timeout=660,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    figures = json.loads((tmp_path / "performance.json").read_text(encoding="utf-8"))["figures"]
    containers_only = {"applyToReady", "path", "recovery", "writes", "many"}
    pods_only = {"podApplyToReady", "podPath", "podWrites", "podMany"}
    side_by_side = {"burst", "rate", "calmRate", "steps", "unchanged", "scale"}
    assert containers_only | pods_only | side_by_side | {"pure", "scrape"} <= set(figures)
    assert (tmp_path / "performance.md").read_text(encoding="utf-8").startswith("# Performance")
    drawn = {path.name for path in (tmp_path / "performance").iterdir()}
    assert drawn == {"calm-latency.svg", "latency.svg", "memory.svg", "processor.svg", "throughput.svg"}
    line = json.loads((tmp_path / "performance-history.jsonl").read_text(encoding="utf-8"))
    assert line["figures"]["burst"].keys() >= {"ofTheCeiling", "targets"}
    active = cluster.kubectl("get", "namespaces", "--field-selector=status.phase=Active", "-o", "name")
    assert "namespace/bench-" not in active
    containers = docker_client.containers.list(all=True, ignore_removed=True)
    assert [container.name for container in containers if "sandkeeper-bare" in str(container.name)] == []
