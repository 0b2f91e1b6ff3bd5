from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.cluster import HARDENED_POD

from testbed import probes, processes
from testbed.paths import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.testbed_cycle,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="the local cluster needs root"),
]


class Bed:
    """A second test bed, beside whichever is up."""

    def __init__(self, state: str) -> None:
        # It shares the cache, and nothing that the caller's shell took over from another one.
        left_out = {"DOCKER_HOST", "KUBECONFIG", "SANDKEEPER_TEST_KUBECONFIG"}
        kept = {name: value for name, value in os.environ.items() if name not in left_out}
        self.state = state
        self.environ = kept | {"SANDKEEPER_STATE": state, "PYTHONPATH": str(MODULES.parent)}

    def run(self, command: str, *, fails: bool = False) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "testbed", command],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done

    def shell(self, script: str, *, stdin: str = "") -> str:
        exported = self.run("env").stdout
        done = subprocess.run(
            ["bash", "-euc", exported + script],
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def second() -> Iterator[Bed]:
    # Short, because sockets are below it.
    state = tempfile.mkdtemp(prefix="sk-")
    bed = Bed(state)
    yield bed
    bed.run("down")
    shutil.rmtree(state, ignore_errors=True)


def traces(state: str) -> dict[str, list[str]]:
    """Describe what a test bed could leave on the machine."""
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    engines = "dockerd|containerd|kubelet|etcd|kube-|docker-proxy|pause"
    return {
        "processes": sorted(str(found) for found in processes.mentioning(state)),
        "programs": sorted(
            f"{path.name}"
            for path in Path("/proc").iterdir()
            if path.name.isdigit() and re.match(engines, command(path)) and not is_dead(path)
        ),
        "mounts": sorted(
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        ),
        "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        # An empty table that was never asked for before says the same as none.
        "rules": sorted(
            re.sub(r" \[.*", "", line)
            for line in rules.splitlines()
            if line.startswith("-") or (line.startswith(":") and " ACCEPT " not in line)
        ),
        "control groups": sorted(map(str, Path("/sys/fs/cgroup").glob("*/*"))),
        "sockets": sorted(map(str, Path("/run/containerd/s").glob("*"))),
        "notes": sorted(
            str(path)
            for folder in ("/run/sandkeeper-testbed", "/var/log/containers", "/var/lib/cni/results")
            for path in Path(folder).glob("*")
        ),
        "forwarding": [Path("/proc/sys/net/ipv4/ip_forward").read_text(encoding="utf-8")],
    }


def command(path: Path) -> str:
    try:
        return (path / "comm").read_text(encoding="utf-8")
    except OSError:
        return ""


def is_dead(path: Path) -> bool:
    record = processes.record_of(int(path.name))
    return record is None or not record.alive


def test_up_is_idempotent_heals_and_down_leaves_nothing(second: Bed) -> None:
    before = traces(second.state)

    second.run("status", fails=True)
    second.run("env", fails=True)
    second.run("up")
    assert "Already up" in second.run("up").stderr

    second.shell(
        "kubectl apply -f - && kubectl wait --for=condition=Ready pod/hardened",
        stdin=json.dumps(HARDENED_POD),
    )
    second.shell(
        "docker network create mine >&2; "
        "docker run --detach --network mine --publish 127.0.0.1::80 debian:bookworm-slim sleep 1000 >&2",
    ) if shutil.which("docker") else None

    # What dies is started again, and nothing else is.
    pids = dict(re.findall(r"^(\S+) +(\d+) ", second.run("status").stdout, re.MULTILINE))
    for name in ("kube-scheduler", "kubelet"):
        os.kill(int(pids[name]), 9)
    probes.wait(
        "their end",
        lambda: None if "does not run" in second.run("status", fails=True).stdout else "no",
        seconds=10,
    )
    second.run("up")
    healed = dict(re.findall(r"^(\S+) +(\d+) ", second.run("status").stdout, re.MULTILINE))
    assert {name for name in pids if pids[name] != healed[name]} == {"kube-scheduler", "kubelet"}
    assert "hardened" in second.shell("kubectl get pod hardened -o name")

    second.run("down")
    assert traces(second.state) == before
    assert not Path(second.state).exists()
    assert "Nothing is up" in second.run("down").stderr
