"""``sandkeeper exec`` is the same for whoever uses it, in a container of a real operator as in a Pod."""

import os
import pty
import shlex
import subprocess

import pytest

from cli.executing import Executing, read_until
from support.cluster import Cluster
from support.operator import OperatorProcess, Sandboxes

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


@pytest.fixture
def in_container(
    sandboxes: Sandboxes, operator: OperatorProcess, cluster: Cluster, namespace: str
) -> Executing:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    return Executing(cluster, namespace)


@pytest.fixture(params=["in_container", "in_pod"])
def execute(request: pytest.FixtureRequest) -> Executing:
    found: Executing = request.getfixturevalue(request.param)
    return found


def test_streams_and_exit_code_are_the_commands_own(execute: Executing) -> None:
    done = execute("rain", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_input_is_passed_on_to_its_end(execute: Executing) -> None:
    blob = os.urandom(1_000_000)
    done = execute("-i", "rain", "--", "cat", stdin=blob)
    assert done.returncode == 0
    assert done.stdout == blob


def test_input_that_nobody_reads_does_no_harm(execute: Executing) -> None:
    done = execute("-i", "rain", "--", "sh", "-c", "exit 3", stdin=os.urandom(4_000))
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


def test_nor_does_a_lot_of_it_in_a_container(in_container: Executing) -> None:
    """In a Pod Kubernetes itself may then never say that the command ended: kubectl hangs as often as we do."""
    done = in_container("-i", "rain", "--", "sh", "-c", "exit 3", stdin=os.urandom(1_000_000))
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


def test_without_i_there_is_no_input(execute: Executing) -> None:
    done = execute("rain", "--", "cat", stdin=b"not for you")
    assert (done.returncode, done.stdout) == (0, b"")


def test_nothing_of_the_callers_environment_goes_with_it(execute: Executing) -> None:
    said = execute("rain", "--", "env").stdout
    assert b"LANG=C.UTF-8" in said
    assert b"CALLERS_OWN" not in said


def test_words_arrive_as_they_are(execute: Executing) -> None:
    done = execute("rain", "--", "echo", "a b", "", "&c=d%20", "ü;$HOME")
    assert done.stdout.decode() == "a b  &c=d%20 ü;$HOME\n"


def test_a_program_that_is_not_there(execute: Executing) -> None:
    done = execute("rain", "--", "no-such-program")
    assert done.returncode in {126, 127}
    assert b"no-such-program" in done.stdout + done.stderr


def test_a_command_that_was_killed(execute: Executing) -> None:
    assert execute("rain", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_whoever_reads_the_output_may_go(execute: Executing) -> None:
    script = f"{shlex.join(execute.words('rain', '--', 'yes'))} | head -n 1"
    done = subprocess.run(
        ["sh", "-c", script], env=execute.environment, capture_output=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == (b"y\n", b"")


def test_with_a_terminal_on_both_sides(execute: Executing) -> None:
    ours, theirs = pty.openpty()
    try:
        script = "test -t 0 && echo a terminal; read x; exit $x"
        done = subprocess.Popen(
            execute.words("-it", "rain", "--", "sh", "-c", script),
            env=execute.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        read_until(ours, b"a terminal")
        os.write(ours, b"5\n")
        assert done.wait(60) == 5
    finally:
        os.close(ours)
        os.close(theirs)


def test_without_a_terminal_of_ours_there_is_none_of_theirs(execute: Executing) -> None:
    done = execute("-t", "rain", "--", "sh", "-c", "test -t 0 || echo none")
    assert done.stdout == b"none\n"
    assert b"is no terminal" in done.stderr
