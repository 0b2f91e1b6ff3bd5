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

from support.cluster import HARDENED_POD, Cluster
from testbed import images, probes, processes
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

    def run(self, command: str, *, fails: bool | None = False) -> subprocess.CompletedProcess[str]:
        """Run a command of the test bed. ``fails``: whether it has to; None: it may."""
        done = subprocess.run(
            [sys.executable, "-m", "testbed", command],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert fails is None or (done.returncode != 0) == fails, done.stderr
        return done

    def wait_well(self) -> str:
        """Wait until every part of it is found to be well, and return what is said of them."""

        def check() -> str | None:
            said = self.run("status", fails=None)
            return said.stdout if said.returncode else None

        probes.wait("every part", check, seconds=120)
        return self.run("status", fails=None).stdout

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


def traces(state: str) -> set[str]:
    """Describe what a test bed could leave on the machine."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    folders = (
        "/run/containerd/s",
        "/run/sandkeeper-testbed",
        "/sys/class/net",
        "/var/lib/cni/results",
        "/var/log/containers",
    )
    programs = re.compile("dockerd|containerd|kubelet|etcd|kube-|docker-proxy|pause")
    return {
        *(f"process {found}" for found in processes.mentioning(state)),
        *(
            f"process {path.name} {read(path / 'cmdline')}"
            for path in Path("/proc").iterdir()
            if path.name.isdigit() and programs.match(read(path / "comm")) and not is_dead(path)
        ),
        *(f"mount {line.split()[4]}" for line in mounts),
        # A built-in chain that was never asked for before says the same as none.
        *(
            "rule " + line.split(" [")[0]
            for line in rules.splitlines()
            if line.startswith("-") or (line.startswith(":") and " ACCEPT " not in line)
        ),
        *(f"control group {path}" for path in Path("/sys/fs/cgroup").glob("*/*") if path.is_dir()),
        *(str(path) for folder in folders for path in Path(folder).glob("*")),
        f"forwarding {Path('/proc/sys/net/ipv4/ip_forward').read_text(encoding='utf-8')}",
    }


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def beds() -> set[str]:
    return {path.name for path in Path("/run/sandkeeper-testbed").glob("octet-*")}


def is_dead(path: Path) -> bool:
    record = processes.record_of(int(path.name))
    return record is None or not record.alive


def test_up_is_idempotent_heals_and_down_leaves_nothing(second: Bed) -> None:
    before, others = traces(second.state), beds()

    second.run("status", fails=True)
    second.run("env", fails=True)
    second.run("up")
    second.wait_well()
    assert "Already up" in second.run("up").stderr
    instance = json.loads((Path(second.state) / "instance.json").read_text(encoding="utf-8"))
    marks = [second.state, instance["identity"], f"10.{instance['octet']}."]

    second.shell(
        "kubectl apply -f - && kubectl wait --for=condition=Ready pod/hardened --timeout=180s",
        stdin=json.dumps(HARDENED_POD),
    )
    second.shell(
        "docker network create mine >&2; "
        "docker run --detach --network mine --publish 127.0.0.1::80 debian:bookworm-slim sleep 1000 >&2",
    )

    # What dies is started again, and nothing else is.
    pids = dict(re.findall(r"^(\S+) +(\d+) ", second.wait_well(), re.MULTILINE))
    for name in ("kube-scheduler", "kubelet"):
        os.kill(int(pids[name]), 9)
    probes.wait(
        "their end",
        lambda: None if "does not run" in second.run("status", fails=True).stdout else "no",
        seconds=60,
    )
    second.run("up")
    healed = dict(re.findall(r"^(\S+) +(\d+) ", second.wait_well(), re.MULTILINE))
    assert {name for name in pids if pids[name] != healed[name]} == {"kube-scheduler", "kubelet"}
    assert "hardened" in second.shell("kubectl get pod hardened -o name")

    second.run("down")
    left = traces(second.state) - before

    def check() -> str | None:
        # Other tests may be at work on this machine: what they make comes and goes, what we left stays.
        left.intersection_update(traces(second.state))
        if others or beds():
            # Or a whole other test bed, on its way up or down: then only what has a name of this one tells something.
            left.intersection_update([one for one in left if any(mark in one for mark in marks)])
        return "\n".join(sorted(left)) or None

    probes.wait("a machine without traces", check, seconds=60)
    assert not Path(second.state).exists()
    assert "Nothing is up" in second.run("down").stderr


@pytest.mark.cluster
def test_a_cluster_that_the_caller_names_is_used_and_left_alone(cluster: Cluster, second: Bed) -> None:
    second.environ |= {
        "SANDKEEPER_TEST_KUBECONFIG": str(cluster.kubeconfig),
        "DOCKER_HOST": cluster.docker_host,
        "PATH": f"{Path(cluster.program).parent}:{os.environ['PATH']}",
    }
    assert "Cluster: kubeconfig" in second.run("up").stderr
    assert f"export DOCKER_HOST={cluster.docker_host}" in second.run("env").stdout
    second.run("status")
    second.run("down")
    assert cluster.kubectl("get", "--raw", "/readyz") == "ok"
    # The first test bed put it there, and still needs it.
    assert images.check_base(cluster.docker_host) is None
