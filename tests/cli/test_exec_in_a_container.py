"""``sandkeeper exec`` in real containers of a real operator."""

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.operator import OperatorProcess, Sandboxes

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

Exec = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def rain(sandboxes: Sandboxes, operator: OperatorProcess) -> Sandboxes:
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=3, prune={"idleSeconds": 4}), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    return sandboxes


def environment(cluster: Cluster) -> dict[str, str]:
    found = {"KUBECONFIG": str(cluster.kubeconfig), "DOCKER_HOST": cluster.docker_host}
    return (
        os.environ | found | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "CALLERS_OWN": "secret"}
    )


def words(namespace: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "sandkeeper.cli", "exec", "-n", namespace, *arguments]


@pytest.fixture
def execute(cluster: Cluster, namespace: str) -> Exec:
    def run(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words(namespace, arguments),
            env=environment(cluster),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=90,
        )

    return run


def test_streams_and_exit_code_are_the_commands_own(rain: Sandboxes, execute: Exec) -> None:
    done = execute("rain", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_input_is_passed_on_to_its_end(rain: Sandboxes, execute: Exec) -> None:
    blob = os.urandom(1_000_000)
    done = execute("-i", "rain", "--", "cat", stdin=blob)
    assert done.returncode == 0
    assert done.stdout == blob


def test_without_i_there_is_no_input(rain: Sandboxes, execute: Exec) -> None:
    assert execute("rain", "--", "cat", stdin=b"not for you").stdout == b""


def test_nothing_of_the_callers_environment_goes_with_it(rain: Sandboxes, execute: Exec) -> None:
    said = execute("rain", "--", "env").stdout
    assert b"LANG=C.UTF-8" in said
    assert b"CALLERS_OWN" not in said


def test_a_program_that_is_not_there(rain: Sandboxes, execute: Exec) -> None:
    done = execute("rain", "--", "no-such-program")
    assert done.returncode in {126, 127}
    assert b"no-such-program" in done.stdout + done.stderr


def test_whoever_reads_the_output_may_go(rain: Sandboxes, cluster: Cluster, namespace: str) -> None:
    script = f"{shlex.join(words(namespace, ['rain', '--', 'yes']))} | head -n 1"
    done = subprocess.run(
        ["sh", "-c", script], env=environment(cluster), capture_output=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == (b"y\n", b"")


def test_a_long_command_is_one_long_use(rain: Sandboxes, execute: Exec) -> None:
    before = rain.status("rain")["runtime"]["id"]
    assert execute("rain", "--", "sleep", "8").returncode == 0
    assert rain.status("rain")["runtime"]["id"] == before


def test_what_was_pruned_comes_back_first(rain: Sandboxes, execute: Exec) -> None:
    rain.wait("rain", "Idle")
    assert execute("rain", "--", "echo", "back").stdout == b"back\n"


def test_another_engine_is_refused(rain: Sandboxes, cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    elsewhere = environment(cluster) | {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    done = subprocess.run(
        words(namespace, ["rain", "--", "true"]), env=elsewhere, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 125
    assert b"The Docker engine was not reached" in done.stderr


def test_with_a_terminal_on_both_sides(rain: Sandboxes, cluster: Cluster, namespace: str) -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.Popen(
            words(
                namespace, ["-it", "rain", "--", "sh", "-c", "test -t 0 && echo a terminal; read x; exit $x"]
            ),
            env=environment(cluster),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        said = b""
        while b"a terminal" not in said:
            said += os.read(ours, 4096)
        os.write(ours, b"5\n")
        assert done.wait(60) == 5
    finally:
        os.close(ours)
        os.close(theirs)


def test_without_a_terminal_of_ours_there_is_none_of_theirs(rain: Sandboxes, execute: Exec) -> None:
    done = execute("-t", "rain", "--", "sh", "-c", "test -t 0 || echo none")
    assert done.stdout == b"none\n"
    assert b"is no terminal" in done.stderr
