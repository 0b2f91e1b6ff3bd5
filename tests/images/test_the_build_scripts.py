"""The build scripts and what is told of them, on an engine of the test's own: their names and layers go with it."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest

from sandkeeper.api.policy import AgentSandboxPolicySpec
from support.how_tos import HowTo
from testbed import images, shipped_images
from testbed.engine import Engine

ROOT = Path(__file__).parents[2]
NAMES = list(shipped_images.TARGETS)
NOTHING = {"PACKAGES": "", "INSTALL_PNPM": "0", "INSTALL_BUN": "0", "INSTALL_BREW": "0"}
"""What to set so that a build is a matter of seconds."""
ON_HOST = {"build.sh": "build.sh --network host", "docker build": "docker build --network host"}
"""An engine that leaves the machine's network alone has no other network that leads anywhere."""

pytestmark = [
    pytest.mark.engine,
    pytest.mark.xdist_group("images"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="no dockerd; `make cluster-up` installs it"),
]


class Builder:
    """Runs commands against one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def try_run(self, command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euc", command],
            cwd=ROOT,
            env={**os.environ, "DOCKER_HOST": self._engine.url, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def run(self, command: str, **env: str) -> str:
        done = self.try_run(command, **env)
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def build(self, name: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a script with nothing to install, on the test bed's Debian unless told otherwise."""
        return self.try_run(f"deploy/images/{name}/build.sh", **{"BASE_IMAGE": images.BASE, **NOTHING, **env})

    def settings(self, image: str) -> dict[str, Any]:
        client = docker.DockerClient(base_url=self._engine.url)
        try:
            found: dict[str, Any] = client.images.get(image).attrs["Config"]
            return found
        finally:
            client.close()


@pytest.fixture
def builder(new_engine: Callable[..., Engine]) -> Builder:
    return Builder(new_engine(base=True))


def test_what_the_how_to_says_works(builder: Builder) -> None:
    how_to = HowTo("images.md", instead=ON_HOST)
    scripts = [command for command in how_to.commands if command.startswith("deploy/")]
    assert len(scripts) == len(NAMES)
    for command, name in zip(scripts, NAMES, strict=True):
        assert command == f"deploy/images/{name}/build.sh --network host\n"
        # As they stand they build for minutes, before the tests, into what the tests of the images look at.
        on_debian = {} if name == "common" else {"BASE_IMAGE": images.BASE}
        builder.run(command, **NOTHING, **on_debian)
        assert builder.settings(shipped_images.TARGETS[name])["User"] == "1000:1000"
    others = [command for command in how_to.commands if command not in scripts]
    said = [builder.run(command) for command in others]
    assert len(said) == 3
    assert re.match(r"3\.\d+", said[-1])
    for image in ("my-sandbox:make", "my-sandbox:sqlite"):
        assert builder.settings(image)["User"] == "1000:1000"
        assert builder.settings(image)["Cmd"] == ["sleep", "infinity"]
    for document in how_to.manifests:
        AgentSandboxPolicySpec.model_validate(document["spec"])
    assert how_to.manifests


def test_another_user_is_one_of_the_image_and_owns_the_workspace(builder: Builder) -> None:
    who = "id -u; id -g; id -un; stat -c %u:%g /workspace"
    for name in NAMES:
        target = f"sandkeeper-other-user:{name}"
        done = builder.build(name, FINAL_USER="2000:3000", TARGET_IMAGE=target)
        assert done.returncode == 0, done.stdout
        assert builder.settings(target)["User"] == "2000:3000"
        told = builder.run(f"docker run --rm --network none {target} bash -c '{who}'").split()
        assert told[:2] == ["2000", "3000"]
        assert told[2] in {"sandbox", "developer"}
        assert told[3] == "2000:3000"


def test_what_cannot_be_built_says_why(builder: Builder) -> None:
    for name in NAMES:
        for user in ("sandbox", "1000:sandbox", "-1:1"):
            done = builder.build(name, FINAL_USER=user)
            assert done.returncode != 0
            assert f"FINAL_USER={user}: give numbers, as in 1000:1000" in done.stdout
    for tool in ("pnpm", "bun"):
        done = builder.build("common", **{f"INSTALL_{tool.upper()}": "1"})
        assert done.returncode != 0
        assert f"add nodejs and npm to PACKAGES, or set INSTALL_{tool.upper()}=0" in done.stdout
    done = builder.build("common", INSTALL_BREW="1")
    assert done.returncode != 0
    assert "add git to PACKAGES, or set INSTALL_BREW=0" in done.stdout
