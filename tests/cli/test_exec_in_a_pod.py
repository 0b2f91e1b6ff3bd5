"""``sandkeeper exec`` in a real Pod; the test plays the operator's part."""

import os
import pty
import signal
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli.executing import Executing, PlayedPod, read_until
from support.cluster import Cluster
from support.proxy import ApiProxy
from support.waiting import wait_for

pytestmark = pytest.mark.cluster

Visit = Callable[..., Path]


@pytest.fixture
def visitor(cluster: Cluster, played_pod: PlayedPod, tmp_path: Path) -> Visit:
    """Make a service account that may do what a list of kubectl's options says, and its kubeconfig."""

    def make(name: str, *allowed: str) -> Path:
        played_pod.kubectl("create", "serviceaccount", name)
        for number, options in enumerate(allowed):
            role = f"{name}-{number}"
            played_pod.kubectl("create", "role", role, *options.split())
            subject = f"--serviceaccount={played_pod.namespace}:{name}"
            played_pod.kubectl("create", "rolebinding", role, f"--role={role}", subject)
        config = yaml.safe_load(
            cluster.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "yaml")
        )
        config["users"][0]["user"] = {"token": played_pod.kubectl("create", "token", name)}
        path = tmp_path / name
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    return make


def test_a_long_command_is_used_all_the_time(played_pod: PlayedPod, in_pod: Executing) -> None:
    seen = {played_pod.last_used}
    with subprocess.Popen(in_pod.words("rain", "--", "sleep", "60"), env=in_pod.environment) as running:
        try:
            for _ in range(3):
                wait_for(lambda: played_pod.last_used not in seen, what="one more use")
                seen.add(played_pod.last_used)
            assert running.poll() is None
        finally:
            running.kill()


def test_another_pod_of_the_same_name_is_refused(played_pod: PlayedPod, in_pod: Executing) -> None:
    with played_pod.recorded(id="11111111-2222-3333-4444-555555555555"):
        done = in_pod("rain", "--", "true")
    assert done.returncode == 125
    assert b"is another one than was recorded" in done.stderr


def test_a_pod_that_is_gone(played_pod: PlayedPod, in_pod: Executing) -> None:
    with played_pod.recorded(name="nobody"):
        done = in_pod("rain", "--", "true")
    assert done.returncode == 125
    assert b"Pod 'nobody' of Sandbox 'rain' is gone" in done.stderr


def test_a_token_is_enough_and_what_is_not_allowed_is_said(visitor: Visit, in_pod: Executing) -> None:
    sandboxes = "--verb=get,list,patch --resource=sandboxes.sandkeeper.dev"
    pods, commands = "--verb=get --resource=pods", "--verb=get,create --resource=pods/exec"

    done = in_pod("rain", "--", "echo", "hi", KUBECONFIG=str(visitor("guest", sandboxes, pods, commands)))
    assert (done.returncode, done.stdout) == (0, b"hi\n")

    done = in_pod("rain", "--", "echo", "hi", KUBECONFIG=str(visitor("stranger", sandboxes, pods)))
    assert done.returncode == 125
    assert b"Cannot run a command in Pod 'rain-pod': not allowed:" in done.stderr
    assert b'cannot get resource "pods/exec"' in done.stderr


def test_a_connection_that_is_lost_is_no_end(in_pod: Executing, api_proxy: ApiProxy) -> None:
    with subprocess.Popen(
        in_pod.words("rain", "--", "sh", "-c", "echo begun; sleep 60"),
        env=in_pod.environment | {"KUBECONFIG": str(api_proxy.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == b"begun\n"
        api_proxy.cut()
        said = running.stderr.read()
        assert running.wait(60) == 125
    assert b"The connection to the command was lost, and it may still run" in said


def test_the_other_terminal_is_as_large_as_ours(in_pod: Executing) -> None:
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, (33, 111))
        # The size comes when the command runs already.
        script = "trap 'stty size' WINCH; stty size; while sleep 0.1; do :; done"
        with subprocess.Popen(
            in_pod.words("-t", "rain", "--", "sh", "-c", script),
            env=in_pod.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        ) as running:
            try:
                read_until(ours, b"33 111")
                termios.tcsetwinsize(theirs, (44, 122))
                running.send_signal(signal.SIGWINCH)
                read_until(ours, b"44 122")
            finally:
                running.kill()
    finally:
        os.close(ours)
        os.close(theirs)
