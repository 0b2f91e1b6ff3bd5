"""The CustomResourceDefinitions install, both ways of `kubectl apply`, and serve what people expect of `kubectl`."""

import json
import subprocess
from contextlib import suppress
from typing import Any

import pytest

from api.documents import example
from sandkeeper.api import crd
from sandkeeper.api.crd import POLICY, SANDBOX
from sandkeeper.api.names import GROUP
from support.cluster import Cluster, OwnCluster
from support.crds import install_crds, remove_crds
from support.waiting import wait_for

pytestmark = pytest.mark.cluster

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.xdist_group("api-own")
@pytest.mark.parametrize("how", ["client-side", "server-side"])
def test_kubectl_apply_installs_them_and_applies_them_again(own_cluster: OwnCluster, how: str) -> None:
    remove_crds(own_cluster)
    server_side = f"--server-side={str(how == 'server-side').lower()}"

    install_crds(own_cluster, server_side)
    first = {resource: definition(own_cluster, resource) for resource in (SANDBOX, POLICY)}
    install_crds(own_cluster, server_side)

    for resource in (SANDBOX, POLICY):
        found = definition(own_cluster, resource)
        assert found["metadata"]["generation"] == first[resource]["metadata"]["generation"]
        assert (LAST_APPLIED in found["metadata"].get("annotations", {})) is (how == "client-side")
        problems = [
            condition
            for condition in found["status"]["conditions"]
            if condition["type"] == "NonStructuralSchema" and condition["status"] == "True"
        ]
        assert problems == []


def definition(cluster: Cluster, resource: crd.Resource) -> dict[str, Any]:
    return cluster.get("crd", f"{resource.plural}.{GROUP}")


@pytest.mark.usefixtures("crds")
def test_what_is_served_is_what_is_generated(cluster: Cluster) -> None:
    for resource in (SANDBOX, POLICY):
        served = definition(cluster, resource)["spec"]["versions"]
        assert served == crd.definition(resource)["spec"]["versions"]


@pytest.mark.usefixtures("crds")
def test_short_names_and_the_category_are_known(cluster: Cluster, namespace: str) -> None:
    apply_example(cluster, namespace, "sandbox-minimal")
    apply_example(cluster, namespace, "policy-minimal")
    assert "minimal" in cluster.kubectl("get", "-n", namespace, "sbx")
    assert "minimal" in cluster.kubectl("get", "-n", namespace, "asp")
    both: list[str] = []

    def known() -> bool:
        # While somebody else applies the same CRDs, the API server may not name one of them for a moment.
        with suppress(subprocess.CalledProcessError):
            both[:] = cluster.kubectl("get", "-n", namespace, "sandkeeper", "-o", "name").split()
        return len(both) == 2

    wait_for(known, what="the category is known", timeout=30)
    assert both == [
        "agentsandboxpolicy.sandkeeper.dev/minimal",
        "sandbox.sandkeeper.dev/minimal",
    ]


@pytest.mark.usefixtures("crds")
def test_the_columns_show_what_was_applied(cluster: Cluster, namespace: str) -> None:
    document = apply_example(cluster, namespace, "sandbox-maximal")
    status = json.dumps({"status": document["status"]})
    cluster.kubectl(
        *("patch", "-n", namespace, "sbx", "maximal"), *("--subresource=status", "--type=merge", "-p", status)
    )
    heading, row = cluster.kubectl("get", "-n", namespace, "sbx").splitlines()
    assert "AGENT" in heading
    assert heading.split() == ["NAME", "AGENT", "SCOPE", "BACKEND", "PHASE", "READY", "LAST", "USED", "AGE"]
    assert row.split()[:6] == ["maximal", "Dev_1.x-y", "session", "docker", "Ready", "True"]

    heading, row = cluster.kubectl("get", "-n", namespace, "sbx", "-o", "wide").splitlines()
    for column in ("REASON", "SESSION", "POLICY", "IMAGE", "RUNTIME", "NEXT", "NEXT AT", "MESSAGE"):
        assert column in heading
    assert "2026-03-02T12:00:00Z" in row

    apply_example(cluster, namespace, "policy-carried-over")
    heading, row = cluster.kubectl("get", "-n", namespace, "asp").splitlines()
    columns = [
        "NAME",
        "MODE",
        "SCOPE",
        "BACKEND",
        "READY",
        "RUNTIMES",
        "CURRENT",
        "DRIFTED",
        "BLOCKED",
        "AGE",
    ]
    assert heading.split() == columns
    assert row.split()[:3] == ["carried-over", "all", "agent"]


@pytest.mark.usefixtures("crds")
def test_sandboxes_are_selected_by_agent_and_session(cluster: Cluster, namespace: str) -> None:
    apply_example(cluster, namespace, "sandbox-minimal")
    apply_example(cluster, namespace, "sandbox-maximal")

    def selected(selector: str) -> list[str]:
        listed = cluster.get("-n", namespace, "sandboxes", "--field-selector", selector)
        return [item["metadata"]["name"] for item in listed["items"]]

    assert selected("spec.agentId=dev") == ["minimal"]
    assert selected("spec.sessionKey=main") == ["minimal"]
    assert selected("spec.agentId=Dev_1.x-y") == ["maximal"]
    assert selected("spec.agentId=dev,spec.sessionKey=other") == []


@pytest.mark.usefixtures("crds")
def test_kubectl_explains_a_field(cluster: Cluster) -> None:
    explained = cluster.kubectl("explain", "agentsandboxpolicy.spec.agents.container.memory")
    assert "512 MiB" in explained


def apply_example(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    document = example(name)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(document))
    return document
