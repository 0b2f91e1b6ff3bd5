"""Volumes for Pods on the real node: the test bed provisions none, so each is a directory of the node, this machine."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster
from support.manifests import to_json
from testbed.providers import Provider

__all__ = ["GROUP", "SHARED", "Volumes", "claim"]

GROUP = 1000
"""Of the user that sandboxes run as."""
SHARED = 0o2770
"""Mode of a directory in which the group may do everything, as the how-to has it."""


class Volumes:
    """Directories of this machine as volumes of the cluster, each for one claim of the test's namespace."""

    def __init__(self, cluster: Cluster, namespace: str, root: Path) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self.root = root

    def directory(self, name: str, *, mode: int = SHARED, group: int = GROUP) -> Path:
        """Make a directory as an administrator would."""
        path = self.root / name
        path.mkdir(parents=True)
        os.chown(path, 0, group)
        path.chmod(mode)
        return path

    def bring(self, claim: str, *, access: str = "ReadWriteOnce", **directory: int) -> Path:
        """Make a volume that the claim of this name gets, and nobody else; return its directory."""
        path = self.directory(f"volume-{claim}", **directory)
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": f"{self._namespace}-{claim}",
                "labels": {"kubernetes.io/metadata.name": self._namespace},
            },
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": [access],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": self._namespace, "name": claim},
                "hostPath": {"path": str(path), "type": "Directory"},
            },
        }
        self._cluster.kubectl("apply", "-f", "-", stdin=to_json(volume))
        return path

    def clean_up(self) -> None:
        """Take away what is of the whole cluster; before it, whatever is mounted."""
        self._cluster.kubectl(
            "-n", self._namespace, "delete", "sandboxes,pods,persistentvolumeclaims", "--all", "--timeout=50s"
        )
        chosen = f"kubernetes.io/metadata.name={self._namespace}"
        self._cluster.kubectl("delete", "persistentvolumes", "-l", chosen, "--timeout=50s")


@pytest.fixture
def volumes(cluster: Cluster, crds: Any, namespace: str) -> Iterator[Volumes]:
    """Give volumes to the test's claims; they go with the test, and so do their directories."""
    if cluster.known.provider is not Provider.LOCAL or os.geteuid() != 0:
        pytest.skip(
            "its volumes are directories of the node, which has to be this machine, of which we are root"
        )
    with tempfile.TemporaryDirectory(prefix="sk-volumes-") as root:
        made = Volumes(cluster, namespace, Path(root))
        try:
            yield made
        finally:
            made.clean_up()


def claim(name: str, *, access: str = "ReadWriteOnce") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": [access], "resources": {"requests": {"storage": "1Gi"}}},
    }
