"""What docs/how-to/carry-over.md says is true: its commands are run, up to sandboxes like the gateway's."""

import shutil
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from support.engine import run_in_shell
from support.operator import OperatorFactory, Sandboxes
from support.pages import Page

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


def test_the_policy_makes_what_the_gateway_had(
    tmp_path: Path,
    operator_factory: OperatorFactory,
    sandboxes: Sandboxes,
    docker_client: docker.DockerClient,
    shell_env: dict[str, str],
) -> None:
    home = tmp_path / "home"
    for name in ("shared", "workspace", "workspace-tio-claude"):
        (home / ".openclaw" / name).mkdir(parents=True)
        (home / ".openclaw" / name / "whose").write_text(name)
        shutil.chown(home / ".openclaw" / name, 1000, 1000)
    page = Page(
        "how-to/carry-over.md",
        instead={"/home/rain": str(home), "openclaw-sandbox:bookworm-slim": sandboxes.image},
    )
    page.follow(shell_env, folder=tmp_path)
    settings: dict[str, Any] = yaml.safe_load((tmp_path / "operator.yaml").read_text())
    operator_factory(**settings).wait_ready()

    names = ("rain", "tio-claude", "test-local", "stranger")
    sandboxes.apply(*map(sandboxes.sandbox, names))

    def sh(name: str, command: str) -> tuple[int, str]:
        return run_in_shell(docker_client, sandboxes.status(name)["runtime"]["id"], command)

    for name, own in (("rain", "workspace"), ("tio-claude", "workspace-tio-claude")):
        sandboxes.wait(name, "Running")
        assert sh(name, f"cat whose; echo; id -u; echo {name} > shared/{name}") == (0, f"{own}\n1000")
    assert sh("rain", "cat shared/tio-claude") == (0, "tio-claude")
    sandboxes.wait("test-local", "NotSandboxed")
    assert "say in workspace.agent where that is" in sandboxes.wait("stranger", "InvalidConfig")["message"]
