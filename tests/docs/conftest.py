"""Where what the documents say is tried."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from support.cluster import Cluster


@pytest.fixture
def shell_env(cluster: Cluster, namespace: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell with kubectl and our command, in the test's namespace."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    path = [str(Path(sys.executable).parent), str(Path(cluster.program).parent), os.environ["PATH"]]
    return os.environ | {
        "KUBECONFIG": str(kubeconfig),
        "DOCKER_HOST": cluster.docker_host,
        "PATH": os.pathsep.join(path),
    }
