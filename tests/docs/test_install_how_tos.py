"""The pages on installing and upgrading, followed on a real cluster with the operator's own image."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chart.installing import Installation, installation
from support.cluster import Cluster
from support.helm import Helm
from support.operator import Sandboxes
from support.pages import Page

ROOT = Path(__file__).parents[2]
IMAGE = "registry.example/team/sandkeeper"

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.engine,
    pytest.mark.xdist_group("chart"),
    pytest.mark.timeout(900),  # the image and Helm may have to be built
]


@pytest.fixture
def to_be(
    cluster: Cluster, crds: None, namespace: str, helm_program: Path, operator_on_node: str
) -> Iterator[Installation]:
    helm = Helm(helm_program, cluster.kubeconfig)
    with installation(helm, cluster, namespace=namespace, image=operator_on_node) as made:
        # With the chart's name in it, a release is all that its objects are called, as on the pages.
        made.name = f"sandkeeper-{namespace}"
        yield made


def follow(name: str, to_be: Installation, shell_env: dict[str, str], **instead: str) -> None:
    """Follow a page as if it spoke of this installation, which others share the cluster with."""
    page = Page(f"how-to/{name}.md")
    # The image is built by these before the tests, and there is nowhere to push it.
    page.steps = [step for step in page.steps if "docker push" not in step.command]
    assert page.steps
    for number, step in enumerate(page.steps):
        command = step.command
        for old, new in {
            "--namespace sandkeeper-system": f"--namespace {to_be.namespace}",
            "deployment/sandkeeper": f"deployment/{to_be.name}",
            "sandkeeper-leader": f"{to_be.name}-leader",
            **{
                f"helm {verb} sandkeeper": f"helm {verb} {to_be.name}"
                for verb in ("install", "upgrade", "uninstall")
            },
            "helm rollback sandkeeper": f"helm rollback {to_be.name}",
            **instead,
        }.items():
            command = command.replace(old, new)
        page.steps[number] = type(step)(command, step.shown)
    environment = shell_env | {
        "NAMESPACE": to_be.namespace,
        "PATH": f"{to_be.helm.program.parent}{os.pathsep}{shell_env['PATH']}",
    }
    page.follow(environment, folder=ROOT)


def test_installing(to_be: Installation, shell_env: dict[str, str], operator_on_node: str) -> None:
    image, _, tag = operator_on_node.rpartition(":")
    ours = f"image.tag={tag},crds.enabled=false,config.watchNamespaces={{{to_be.namespace}}}"
    follow("install", to_be, shell_env, **{f"image.repository={IMAGE}": f"image.repository={image},{ours}"})
    assert to_be.pods() == [], "the page ends with nothing"


def test_upgrading(to_be: Installation, shell_env: dict[str, str], pod_sandboxes: Sandboxes) -> None:
    to_be.install()
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    before = pod_sandboxes.wait("rain", "Running")["runtime"]
    follow(
        "upgrade",
        to_be,
        shell_env,
        **{"--reset-then-reuse-values": "--reset-then-reuse-values --set config.workers=3"},
    )
    assert pod_sandboxes.wait("rain", "Running")["runtime"] == before
    revisions = to_be.helm.run("history", to_be.name, "--namespace", to_be.namespace, "-o", "yaml")
    assert revisions.count("\n  revision:") == 3
