"""The chart installed for real: the operator as Pods on the real node, with no rights but those of the chart."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.cluster import Cluster
from support.helm import CHART, Helm, Refused
from support.waiting import wait_for

__all__ = ["Installation", "acting_as", "installation"]

Object = dict[str, Any]


class Installation:
    """One release, in a namespace of its own."""

    def __init__(self, helm: Helm, cluster: Cluster, *, namespace: str, image: str) -> None:
        self.helm, self.cluster, self.namespace = helm, cluster, namespace
        repository, _, tag = image.rpartition(":")
        # Others install into the same cluster: what has no namespace is called after the release.
        self.name = f"r{namespace.removeprefix('t')}"
        self._values = {
            "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
            "crds": {"enabled": False},
            "config": {"watchNamespaces": [namespace], "backends": ["pod"], "defaultBackend": "pod"},
        }

    def put(self, command: str, **values: Any) -> None:
        """Install or upgrade, and wait until it is ready; a name of a value may have dots in it."""
        set_values = [
            part
            for name, value in (self._values | values).items()
            for part in ("--set-json", f"{name}={json.dumps(value)}")
        ]
        try:
            self._run(command, self.name, str(CHART), *set_values, "--wait", "--timeout", "150s")
        except Refused as refused:
            refused.add_note(self.tell())
            raise

    def install(self, **values: Any) -> "Installation":
        """Install it."""
        self.put("install", **values)
        return self

    def upgrade(self, **values: Any) -> None:
        """Upgrade it to these values, and the defaults of others."""
        self.put("upgrade", **values)
        self.kubectl("rollout", "status", f"deployment/{self.fullname}", "--timeout=150s", seconds=160)

    def uninstall(self) -> str:
        """Uninstall it, and wait until its Pods are gone; return what Helm says."""
        said = self._run("uninstall", self.name, "--wait", "--timeout", "150s")
        self.kubectl("wait", "--for=delete", "pods", "-l", self.selector, "--timeout=90s", seconds=100)
        return said

    def _run(self, *arguments: str) -> str:
        return self.helm.run(*arguments, "--namespace", self.namespace)

    @property
    def fullname(self) -> str:
        """What its objects are called."""
        return self.name if "sandkeeper" in self.name else f"{self.name}-sandkeeper"

    @property
    def selector(self) -> str:
        """By which its Pods are found."""
        return f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component=operator"

    def kubectl(self, *arguments: str, seconds: float = 60.0) -> str:
        """Run kubectl in its namespace."""
        return self.cluster.kubectl("-n", self.namespace, *arguments, seconds=seconds)

    def pods(self) -> list[Object]:
        """Its Pods, without those on their way out."""
        found = self.cluster.get("-n", self.namespace, "pods", "-l", self.selector)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def metric(self, pod: Object, name: str) -> float:
        """Read a metric without labels from one of them."""
        page = self.cluster.kubectl(
            *("get", "--raw"),
            f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}:8080/proxy/metrics",
        )
        (line,) = (line for line in page.splitlines() if line.startswith(f"{name} "))
        return float(line.split()[1])

    def tell(self) -> str:
        """Say how its Pods fare."""
        return self.kubectl("describe", "pods") + self.kubectl(
            "logs", "-l", f"app.kubernetes.io/instance={self.name}", "--tail=40", "--prefix"
        )


@contextmanager
def installation(helm: Helm, cluster: Cluster, *, namespace: str, image: str) -> Iterator[Installation]:
    """Give an installation to be; whatever becomes of it is gone afterwards."""
    made = Installation(helm, cluster, namespace=namespace, image=image)
    try:
        yield made
    finally:
        with suppress(Refused):
            helm.run("uninstall", made.name, "--namespace", namespace, "--no-hooks")
        kinds = "clusterroles,clusterrolebindings"
        cluster.kubectl("delete", kinds, "-l", f"app.kubernetes.io/instance={made.name}")


def acting_as(cluster: Cluster, *, namespace: str, role: str, folder: Path) -> Cluster:
    """Give the cluster as a user sees it who has one of the cluster's own roles in a namespace, and nothing else."""
    name = f"user-{role}"
    cluster.kubectl("-n", namespace, "create", "serviceaccount", name)
    cluster.kubectl(
        *("-n", namespace, "create", "rolebinding", name),
        *(f"--clusterrole={role}", f"--serviceaccount={namespace}:{name}"),
    )
    kubeconfig = folder / f"{name}.kubeconfig"
    kubeconfig.write_text(
        cluster.kubectl("config", "view", "--minify", "--flatten", "--raw"), encoding="utf-8"
    )
    theirs = replace(cluster, kubeconfig=kubeconfig)
    token = cluster.kubectl("-n", namespace, "create", "token", name).strip()
    user = theirs.kubectl("config", "view", "-o", "jsonpath={.users[0].name}")
    theirs.kubectl("config", "delete-user", user)
    theirs.kubectl("config", "set-credentials", user, f"--token={token}")

    def is_told() -> bool:
        # The cluster's roles are put together from ours a moment after ours are made.
        with suppress(Exception):
            return theirs.kubectl("-n", namespace, "auth", "can-i", "get", "sandboxes").strip() == "yes"
        return False

    wait_for(is_told, what=f"the role {role} covers our kinds")
    return theirs
