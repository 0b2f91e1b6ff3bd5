"""The images as they are used: no network, no capability, a root that cannot be written, nobody's user."""

# ruff: noqa: S105, S106 - a password that only the test's own container has

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker
import pytest

from support.images import Inside, inside
from support.waiting import wait_for

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("images"), pytest.mark.timeout(600)]

BROWSER_SECONDS = 120
BRIDGE_MODULES = "base64, fcntl, hashlib, json, os, secrets, shutil, stat, zlib"
TOOLS_OF_BASE = ["bash", "curl", "git", "jq", "python3", "rg"]
TOOLS_OF_COMMON = [
    *TOOLS_OF_BASE,
    *(
        "node",
        "npm",
        "pnpm",
        "bun",
        "bunx",
        "go",
        "rustc",
        "cargo",
        "gcc",
        "g++",
        "make",
        "pkg-config",
        "wget",
    ),
]
COMPILED = {
    "C": ("answer.c", "int main(void) { return 42; }", "gcc -o answer answer.c"),
    "Rust": ("answer.rs", "fn main() { std::process::exit(42) }", "rustc answer.rs"),
    "Go": (
        "answer.go",
        'package main\nimport "os"\nfunc main() { os.Exit(42) }',
        "GOCACHE=/tmp/go go build answer.go",
    ),
}


@pytest.fixture(scope="module")
def in_base(docker_client: docker.DockerClient, base_image: str) -> Iterator[Inside]:
    with inside(docker_client, base_image) as found:
        yield found


@pytest.fixture(scope="module")
def in_common(docker_client: docker.DockerClient, common_image: str) -> Iterator[Inside]:
    with inside(docker_client, common_image) as found:
        yield found


@pytest.fixture(params=["base", "common", "browser"])
def shipped(request: pytest.FixtureRequest) -> str:
    """Each of the images."""
    found: str = request.getfixturevalue(f"{request.param}_image")
    return found


def settings(client: docker.DockerClient, image: str) -> dict[str, Any]:
    found: dict[str, Any] = client.images.get(image).attrs["Config"]
    return found


def test_each_names_its_user_by_number(docker_client: docker.DockerClient, shipped: str) -> None:
    config = settings(docker_client, shipped)
    assert config["User"] == "1000:1000"
    assert config["WorkingDir"] == "/workspace"
    assert not config["Entrypoint"]


def test_what_they_run_when_nobody_says(
    docker_client: docker.DockerClient, base_image: str, common_image: str, browser_image: str
) -> None:
    assert settings(docker_client, base_image)["Cmd"] == ["sleep", "infinity"]
    assert settings(docker_client, common_image)["Cmd"] == ["sleep", "infinity"]
    browser = settings(docker_client, browser_image)
    assert browser["Cmd"] == ["sandkeeper-browser"]
    assert set(browser["ExposedPorts"]) == {"9222/tcp", "5900/tcp", "6080/tcp"}


def test_each_sleeps_and_has_what_seeding_and_the_file_bridge_need(
    docker_client: docker.DockerClient, shipped: str
) -> None:
    with inside(docker_client, shipped, command=["sleep", "infinity"]) as sandbox:
        assert sandbox.run("id -u; id -g; id -un").split() == ["1000", "1000", "sandbox"]
        assert sandbox.run(f"python3 -I -c 'import {BRIDGE_MODULES}; print(json.dumps([42]))'") == "[42]\n"
        sandbox.run("echo mine > /workspace/file")
        assert sandbox.try_run("echo no > /etc/file")[0] != 0


def test_nothing_of_how_they_were_built_is_left(docker_client: docker.DockerClient, shipped: str) -> None:
    left = r".*/(extra-ca.*|extras|extras\.sh|\.npm|_cacache|.*\.deb|.*_Packages|.*InRelease)"
    with inside(docker_client, shipped) as sandbox:
        # Something to be found: that nothing else is then says something.
        sandbox.run("touch /workspace/extra-ca.crt")
        for user in ("0", "1000"):
            find = f"find / /workspace -xdev -regextype egrep -regex '{left}' 2>/dev/null || true"
            assert sandbox.run(find, user=user).split() == ["/workspace/extra-ca.crt"]
    told = json.dumps(docker_client.images.get(shipped).history())
    assert "CA_FILE" not in told
    assert "extra-ca" not in told


@pytest.mark.parametrize("tool", TOOLS_OF_BASE)
def test_the_base_image_has(in_base: Inside, tool: str) -> None:
    assert re.search(r"\d", in_base.run(f"{tool} --version"))


@pytest.mark.parametrize("tool", TOOLS_OF_COMMON)
def test_the_common_image_has(in_common: Inside, tool: str) -> None:
    left_out = in_common.run("cat /usr/local/share/sandkeeper/left-out")
    if f"{tool.replace('bunx', 'bun')} is left out" in left_out:
        pytest.skip(left_out)
    assert re.search(r"\d", in_common.run(f"{tool} {'version' if tool == 'go' else '--version'}"))


def test_brew_is_there_or_the_image_says_why_not(in_common: Inside) -> None:
    code, said = in_common.try_run("brew --version")
    if code == 0:
        assert said.startswith("Homebrew ")
    else:
        why = in_common.run("cat /usr/local/share/sandkeeper/left-out")
        assert re.search(r"^brew is left out: \S+ cannot be reached$", why, re.MULTILINE)


@pytest.mark.parametrize("language", COMPILED)
def test_what_the_common_image_compiles_runs(in_common: Inside, language: str) -> None:
    name, source, build = COMPILED[language]
    in_common.run(f"cat > {name} <<'END'\n{source}\nEND\n{build}")
    code, said = in_common.try_run("./answer")
    assert code == 42, said


def test_a_page_is_rendered(docker_client: docker.DockerClient, browser_image: str) -> None:
    page = "data:text/html,<p id=answer></p><script>answer.append(6*7)</script>"
    with inside(docker_client, browser_image, command=["sleep", "infinity"]) as sandbox:
        found = sandbox.run(
            "HOME=/tmp chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
            f"--dump-dom '{page}' 2>/dev/null"
        )
    assert '<p id="answer">42</p>' in found


def answers(sandbox: Inside, address: str) -> bool:
    return sandbox.try_run(f"curl -fsS http://127.0.0.1:{address}")[0] == 0


def listens(sandbox: Inside, port: int) -> bool:
    return sandbox.try_run(f": </dev/tcp/127.0.0.1/{port}")[0] == 0


@contextmanager
def browser(client: docker.DockerClient, image: str, **env: str) -> Iterator[Inside]:
    """Run what the image runs when nobody says, until the browser can be driven."""
    with inside(
        client, image, env={f"SANDKEEPER_BROWSER_{name}": value for name, value in env.items()}
    ) as made:
        wait_for(
            lambda: answers(made, "9222/json/version"),
            what="CDP answers",
            timeout=BROWSER_SECONDS,
            tell=made.logs,
        )
        yield made


def test_the_browser_is_driven_and_watched(docker_client: docker.DockerClient, browser_image: str) -> None:
    secret = "s3cret-pw"
    with browser(docker_client, browser_image, VNC_PASSWORD=secret) as sandbox:
        driven = json.loads(sandbox.run("curl -fsS http://127.0.0.1:9222/json/version"))
        assert driven["webSocketDebuggerUrl"].startswith("ws://127.0.0.1:9222/")
        assert "HeadlessChrome" not in driven["User-Agent"]
        for what, answer in (
            ("noVNC answers", lambda: answers(sandbox, "6080/vnc.html")),
            ("VNC listens", lambda: listens(sandbox, 5900)),
        ):
            wait_for(answer, what=what, timeout=BROWSER_SECONDS, tell=sandbox.logs)
        hello = "import socket; print(socket.create_connection(('127.0.0.1', 5900)).recv(12))"
        assert "RFB 003" in sandbox.run(f'python3 -I -c "{hello}"')

        assert secret not in sandbox.run("cat /proc/[0-9]*/cmdline")
        assert secret not in sandbox.logs()
        of_browser = (
            "for one in /proc/[0-9]*; do [[ $(readlink $one/exe) != */chromium ]] || cat $one/environ; done"
        )
        environment = sandbox.run(of_browser)
        assert "DISPLAY=:1" in environment
        assert secret not in environment


def test_nobody_watches_without_a_password(docker_client: docker.DockerClient, browser_image: str) -> None:
    with browser(docker_client, browser_image) as sandbox:
        assert "SANDKEEPER_BROWSER_VNC_PASSWORD is not set" in sandbox.logs()
        assert not listens(sandbox, 5900)
        assert not listens(sandbox, 6080)


def test_a_browser_without_a_screen(docker_client: docker.DockerClient, browser_image: str) -> None:
    with browser(docker_client, browser_image, HEADLESS="1", VNC_PASSWORD="x") as sandbox:
        assert "HeadlessChrome" in sandbox.run("curl -fsS http://127.0.0.1:9222/json/version")
        assert sandbox.try_run("ls /tmp/.X1-lock")[0] != 0
        assert not listens(sandbox, 5900)


def test_a_browser_that_lost_its_screen_ends(docker_client: docker.DockerClient, browser_image: str) -> None:
    with browser(docker_client, browser_image) as sandbox:
        sandbox.run("kill $(</tmp/.X1-lock)")
        wait_for(
            lambda: not sandbox.is_running(), what="it ended", timeout=BROWSER_SECONDS, tell=sandbox.logs
        )
