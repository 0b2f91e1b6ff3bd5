"""The chart installed for real: what a platform team would see."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from chart.installing import Installation, acting_as, installation
from sandkeeper.api.names import FINALIZER
from support.cluster import Cluster, new_namespace
from support.helm import Helm
from support.manifests import to_json
from support.operator import Sandboxes
from support.pods import POD_IMAGE, Pods
from support.waiting import wait_for
from testbed.images import BASE
from testbed.providers import Provider

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.engine,
    pytest.mark.xdist_group("chart"),
    pytest.mark.timeout(900),  # the image and Helm may have to be built
]


@pytest.fixture
def sk(
    cluster: Cluster, crds: None, namespace: str, helm_program: Path, operator_on_node: str
) -> Iterator[Installation]:
    """An installation to be, in the test's namespace, where nothing may run that is not restricted."""
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    helm = Helm(helm_program, cluster.kubeconfig)
    with installation(helm, cluster, namespace=namespace, image=operator_on_node) as made:
        yield made


@pytest.fixture
def tenant(cluster: Cluster) -> Iterator[str]:
    """A namespace in which the operator is not."""
    with new_namespace(cluster) as name:
        yield name


def test_who_may_edit_gets_a_sandbox_and_cannot_change_what_it_may_do(
    sk: Installation, cluster: Cluster, tenant: str, tmp_path: Path
) -> None:
    sk.install(
        **{
            "config.watchNamespaces": [tenant],
            "defaultPolicy": {"enabled": True, "spec": {"container": {"image": POD_IMAGE}}},
        }
    )
    editor = acting_as(cluster, namespace=tenant, role="edit", folder=tmp_path)
    theirs = Sandboxes(editor, tenant, POD_IMAGE)
    theirs.apply(theirs.sandbox("rain"))
    status = theirs.wait("rain", "Running")
    assert status["policy"] == f"{sk.namespace}/default", (
        "from where the operator is, which serves it by name only"
    )
    theirs.touch("rain")

    for command in (
        lambda: theirs.apply(theirs.policy()),
        lambda: theirs.kubectl(
            "patch", "sandbox", "rain", "--subresource=status", "--type=merge", "-p", "{}"
        ),
        lambda: acting_as(cluster, namespace=tenant, role="view", folder=tmp_path).kubectl(
            "-n", tenant, "delete", "sandbox", "rain"
        ),
    ):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            command()
        assert "orbidden" in caught.value.stderr
    admin = Sandboxes(acting_as(cluster, namespace=tenant, role="admin", folder=tmp_path), tenant, POD_IMAGE)
    admin.apply(admin.policy("theirs"))


def test_of_two_replicas_one_leads_and_both_are_ready(sk: Installation, pods: Pods) -> None:
    sk.install(replicaCount=2)
    both = sk.pods()
    assert len(both) == 2
    wait_for(lambda: sorted(leads(sk)) == [0.0, 1.0], what="one of them leads", tell=sk.tell)
    holder = sk.kubectl("get", "lease", f"{sk.name}-leader", "-o", "jsonpath={.spec.holderIdentity}")
    (leader,) = (pod for pod in both if sk.metric(pod, "sandkeeper_leader"))
    assert holder.startswith(f"{leader['metadata']['name']}_")
    for pod in both:
        assert {status["restartCount"] for status in pod["status"]["containerStatuses"]} == {0}


def leads(sk: Installation) -> list[float]:
    return [sk.metric(pod, "sandkeeper_leader") for pod in sk.pods()]


def test_an_upgrade_leaves_what_runs_alone(sk: Installation, pod_sandboxes: Sandboxes) -> None:
    sk.install()
    pod_sandboxes.apply(pod_sandboxes.policy(), *(pod_sandboxes.sandbox(name) for name in ("rain", "tio")))
    before = {name: ran_as(pod_sandboxes, name) for name in ("rain", "tio")}
    operators = {pod["metadata"]["uid"] for pod in sk.pods()}

    sk.upgrade(
        replicaCount=1,
        resources={"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
        **{"config.workers": 4},
    )

    wait_for(lambda: leads(sk) == [1.0], what="the new one leads", tell=sk.tell)
    assert not operators & {pod["metadata"]["uid"] for pod in sk.pods()}, "these are new"
    # The new one works, and has looked at these.
    pod_sandboxes.apply(pod_sandboxes.sandbox("new"))
    pod_sandboxes.wait("new", "Running")
    assert {name: ran_as(pod_sandboxes, name) for name in ("rain", "tio")} == before


def ran_as(sandboxes: Sandboxes, name: str) -> tuple[str, str]:
    """Wait until it is ready; return its Pod's UID and the container that is in it."""
    runtime = sandboxes.wait(name, "Running")["runtime"]
    pod = sandboxes._cluster.get("-n", sandboxes.namespace, "pod", runtime["name"])
    assert pod["metadata"]["uid"] == runtime["id"]
    (container,) = pod["status"]["containerStatuses"]
    assert container["restartCount"] == 0
    return runtime["id"], container["containerID"]


def test_what_is_left_runs_on_and_the_next_installation_takes_it_over(
    sk: Installation, pod_sandboxes: Sandboxes
) -> None:
    sk.install(replicaCount=1)
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    before = ran_as(pod_sandboxes, "rain")

    sk.uninstall()

    assert ran_as(pod_sandboxes, "rain") == before
    left = sk.kubectl("get", "all,roles,rolebindings,configmaps,serviceaccounts,jobs", "-o", "name").split()
    assert [one for one in left if sk.name in one] == []

    sk.install(replicaCount=1)
    pod_sandboxes.apply(pod_sandboxes.sandbox("new"))
    pod_sandboxes.wait("new", "Running")
    assert ran_as(pod_sandboxes, "rain") == before
    pod_sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=60s")


def with_an_engine(cluster: Cluster, sk: Installation) -> dict[str, Any]:
    """Return values under which the operator has the test bed's engine, by its socket."""
    socket = Path(cluster.docker_host.removeprefix("unix://"))
    if cluster.known.provider is not Provider.LOCAL or not socket.is_socket():
        pytest.skip("it needs an engine's socket on the node, which has to be this machine")
    # A directory of the node is nothing that a restricted Pod may have.
    cluster.kubectl(
        "label", "--overwrite", "namespace", sk.namespace, "pod-security.kubernetes.io/enforce=privileged"
    )
    return {
        "replicaCount": 1,
        "config.backends": ["docker", "pod"],
        "config.defaultBackend": "docker",
        "docker.socket": {"enabled": True, "path": str(socket), "group": socket.stat().st_gid},
    }


Containers = Callable[[], list[Any]]


@pytest.fixture
def on_docker(
    cluster: Cluster, crds: None, namespace: str, docker_client: docker.DockerClient
) -> Iterator[Sandboxes]:
    """Sandboxes whose containers go with the test, whether the operator is there or not."""
    try:
        yield Sandboxes(cluster, namespace, BASE)
    finally:
        for container in docker_client.containers.list(
            all=True, filters={"label": f"sandkeeper.dev/namespace={namespace}"}, ignore_removed=True
        ):
            container.remove(force=True, v=True)


def test_containers_run_on_and_nothing_hangs_once_the_operator_is_gone(
    sk: Installation, cluster: Cluster, on_docker: Sandboxes, containers: Containers
) -> None:
    sk.install(**with_an_engine(cluster, sk))
    on_docker.apply(on_docker.policy(), on_docker.sandbox("rain"))
    on_docker.wait("rain", "Running")
    (before,) = containers()
    assert on_docker.get("rain")["metadata"]["finalizers"] == [FINALIZER]

    sk.uninstall()

    (after,) = containers()
    assert (after.id, after.status) == (before.id, "running")
    assert "finalizers" not in on_docker.get("rain")["metadata"]
    assert sk.kubectl("get", "leases,jobs,serviceaccounts,roles", "-o", "name").split() == [
        "serviceaccount/default"
    ]
    on_docker.kubectl("delete", "sandbox", "rain", "--timeout=20s")


def test_sandboxes_are_deleted_with_all_that_runs_where_the_values_say_so(
    sk: Installation, cluster: Cluster, on_docker: Sandboxes, containers: Containers, pods: Pods
) -> None:
    sk.install(**with_an_engine(cluster, sk), **{"uninstall.sandboxes": "delete"})
    on_docker.apply(
        on_docker.policy(),
        on_docker.policy("pods", backend="pod", container={"image": POD_IMAGE}),
        on_docker.sandbox("rain"),
        on_docker.sandbox("tio", policyRef={"name": "pods"}),
    )
    for name in ("rain", "tio"):
        on_docker.wait(name, "Running")
    assert len(containers()) == 1

    sk.uninstall()

    assert containers() == []
    assert on_docker.kubectl("get", "sandboxes", "-o", "name") == ""
    assert len(on_docker.kubectl("get", "agentsandboxpolicies", "-o", "name").split()) == 2
    wait_for(lambda: pods() == [], what="the Pods went with their owners")


def test_a_finalizer_of_somebody_else_stays(sk: Installation, cluster: Cluster, on_docker: Sandboxes) -> None:
    sk.install(**with_an_engine(cluster, sk))
    on_docker.apply(on_docker.policy(), on_docker.sandbox("rain"))
    on_docker.wait("rain", "Running")
    both = {"metadata": {"finalizers": [FINALIZER, "example.com/theirs"]}}
    on_docker.kubectl("patch", "sandbox", "rain", "--type=merge", "-p", to_json(both))
    try:
        sk.uninstall()
        assert on_docker.get("rain")["metadata"]["finalizers"] == ["example.com/theirs"]
    finally:
        on_docker.kubectl(
            "patch", "sandbox", "rain", "--type=merge", "-p", '{"metadata": {"finalizers": null}}'
        )
