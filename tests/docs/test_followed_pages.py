"""Pages that are nothing but commands and what they say: each is followed from its beginning to its end."""

from pathlib import Path

import pytest

from support.operator import OperatorFactory, Sandboxes
from support.pages import Page, Step
from support.pods import POD_IMAGE

BUILT_IN_IMAGE = "sandkeeper-sandbox:bookworm-slim"

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


def test_debugging(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, shell_env: dict[str, str], tmp_path: Path
) -> None:
    operator_factory(backends=["docker", "pod"]).wait_ready()
    instead = {BUILT_IN_IMAGE: sandboxes.image, '"debian:bookworm-slim"': f'"{POD_IMAGE}"'}
    Page("how-to/debug.md", instead=instead).follow(shell_env, folder=tmp_path)


@pytest.mark.parametrize("backend", ["docker", "pod"])
def test_privacy(
    operator_factory: OperatorFactory,
    sandboxes: Sandboxes,
    shell_env: dict[str, str],
    tmp_path: Path,
    backend: str,
) -> None:
    operator_factory(
        backends=[backend], defaultBackend=backend, pod={"networkPolicyEnforced": True}
    ).wait_ready()
    image = sandboxes.image if backend == "docker" else POD_IMAGE
    page = Page("how-to/privacy.md", instead={BUILT_IN_IMAGE: image})
    if backend == "pod":
        # What is said of loopback is said of containers.
        page.steps = [step for step in page.steps if "/proc/net/dev" not in step.command]
    page.follow(shell_env, folder=tmp_path)


@pytest.mark.parametrize("backend", ["docker", "pod"])
def test_the_tutorial(
    operator_factory: OperatorFactory,
    sandboxes: Sandboxes,
    shell_env: dict[str, str],
    tmp_path: Path,
    backend: str,
) -> None:
    """But for its beginning and its end: the cluster, the operator and the namespace are the test's."""
    operator_factory(backends=[backend], defaultBackend=backend).wait_ready()
    page = Page("tutorial/first-sandbox.md", instead={"lab/rain": f"{sandboxes.namespace}/rain"})
    of_the_test = ("make cluster-up", "kubectl apply --server-side -f crds/", "kubectl create namespace")
    assert [step.command.startswith(of_the_test) for step in page.steps].count(True) == len(of_the_test)
    page.steps = [step for step in page.steps if not step.command.startswith(of_the_test)]
    page.steps[-1] = Step("kubectl delete sandbox rain", None)
    page.follow(shell_env, folder=tmp_path)
    assert sandboxes.kubectl("get", "sandboxes", "-o", "name") == ""
