"""What docs/how-to says of workspaces and directories on a Docker host is true: each block of it is tried."""

import subprocess
from pathlib import Path
from typing import Any

import docker
import pytest

from support.engine import run_in_shell
from support.how_tos import HowTo
from support.operator import OperatorFactory, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


class Household:
    """A directory of the host, and what stands on a page about it."""

    def __init__(self, root: Path, how_to: HowTo, sandboxes: Sandboxes, client: docker.DockerClient) -> None:
        self.root = root
        self.how_to = how_to
        self.sandboxes = sandboxes
        self._client = client

    def prepare(self, *, lines: slice = slice(None)) -> None:
        """Do what the page says is to be done in a shell."""
        for line in "".join(self.how_to.commands).splitlines()[lines]:
            subprocess.run(["sh", "-ec", line], check=True)

    def apply(self, *names: str, **changes: Any) -> None:
        """Apply the policy, for the tests' small image, and a Sandbox for each name."""
        (manifest,) = self.how_to.manifests
        spec = {**manifest["spec"], **changes}
        spec["container"] = {**spec.get("container", {}), "image": self.sandboxes.image}
        self.sandboxes.apply(
            {
                **manifest,
                "metadata": {**manifest["metadata"], "namespace": self.sandboxes.namespace},
                "spec": spec,
            },
            *map(self.sandboxes.sandbox, names),
        )

    def sh(self, name: str, command: str) -> tuple[int, str]:
        """Run a command in a sandbox that is ready."""
        return run_in_shell(self._client, self.sandboxes.status(name)["runtime"]["id"], command)


def household(
    tmp_path: Path, page: str, section: str | None, sandboxes: Sandboxes, client: docker.DockerClient
) -> Household:
    root = tmp_path / "household"
    root.mkdir()
    how_to = HowTo(page, section=section, instead={"/srv/household": str(root)})
    return Household(root, how_to, sandboxes, client)


def test_workspaces_with_docker(
    tmp_path: Path,
    operator_factory: OperatorFactory,
    sandboxes: Sandboxes,
    docker_client: docker.DockerClient,
) -> None:
    home = household(tmp_path, "workspaces.md", "With Docker", sandboxes, docker_client)
    (settings,) = home.how_to.settings
    operator_factory(**settings).wait_ready()

    home.apply("rain", "reed", "tio-claude", hotWindowSeconds=1)
    for name in ("rain", "reed", "tio-claude"):
        sandboxes.wait(name, "VolumeMissing")
    assert list(home.root.iterdir()) == []

    home.prepare(lines=slice(1))
    for name in ("rain", "reed", "tio-claude"):
        (home.root / "agents" / name / "SOUL.md").write_text(f"I am {name}.")
        (home.root / "agents" / name / "USER.md").symlink_to("/etc/passwd")
    home.prepare(lines=slice(1, None))
    for name in ("rain", "reed", "tio-claude"):
        sandboxes.touch(name)
        assert sandboxes.wait(name, "Running", timeout=120)["runtime"]["user"] == "1000:1000"

    assert home.sh("rain", "cat SOUL.md; touch notes") == (0, "I am rain.")
    assert (home.root / "agents/rain/notes").exists()
    assert home.sh("reed", "cat /agent/SOUL.md SOUL.md") == (0, "I am reed.I am reed.")
    assert home.sh("reed", "touch x /agent/x")[0] == 1
    assert home.sh("tio-claude", "cat SOUL.md && touch notes && ls /agent || true")[1].startswith(
        "I am tio-claude."
    )
    assert not (home.root / "agents/tio-claude/notes").exists()

    (copy,) = (home.root / "copies").glob("agent-tio-claude-*")
    assert sorted(path.name for path in copy.iterdir()) == ["skills", "workspace"]
    assert (copy.stat().st_uid, copy.stat().st_mode & 0o777) == (0, 0o700)
    assert (copy / "workspace").stat().st_uid == 1000
    assert "USER.md" in sandboxes.kubectl("get", "sandbox", "tio-claude", "-o", "yaml")
    assert sandboxes.condition("tio-claude", "WorkspaceIncomplete") == ("True", "SeedSkipped")
    assert sandboxes.condition("rain", "WorkspaceIncomplete") == ("", "")

    (copy / "workspace/work").write_text("of the sandbox")
    (home.root / "agents/tio-claude/USER.md").unlink()
    sandboxes.annotate("tio-claude", wipe="once")
    wait_for(lambda: not (copy / "workspace/work").exists(), what="the copy is made afresh", timeout=120)
    wait_for(
        lambda: sandboxes.condition("tio-claude", "WorkspaceIncomplete") == ("", ""),
        what="nothing is left out",
    )
    sandboxes.wait("tio-claude", "Running")
    assert home.sh("tio-claude", "ls") == (0, "SOUL.md\nskills")


def test_directories(
    tmp_path: Path,
    operator_factory: OperatorFactory,
    sandboxes: Sandboxes,
    docker_client: docker.DockerClient,
) -> None:
    home = household(tmp_path, "directories.md", None, sandboxes, docker_client)
    (settings,) = home.how_to.settings
    home.prepare()
    (home.root / "lore/book").write_text("once upon a time")
    operator_factory(**settings).wait_ready()

    home.apply("rain", "tio-claude", "test-local")

    for name in ("rain", "tio-claude"):
        sandboxes.wait(name, "Running")
        assert home.sh(name, f"echo {name} > /workspace/shared/{name}; id -u") == (0, "1000")
    sandboxes.wait("test-local", "NotSandboxed")
    assert sorted(path.name for path in (home.root / "shared").iterdir()) == ["rain", "tio-claude"]
    assert home.sh("rain", "cat /lore/book") == (0, "once upon a time")
    assert home.sh("rain", "touch /lore/x")[0] == 1
    assert home.sh("tio-claude", "ls /lore")[0] == 1
    sandboxes.kubectl("delete", "sandbox", "rain", "tio-claude", "test-local")
    assert sorted(path.name for path in (home.root / "shared").iterdir()) == ["rain", "tio-claude"]
