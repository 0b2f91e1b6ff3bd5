"""What several tests of the backends need."""

import docker
import pytest

from sandkeeper.lifecycle.model import Observed
from support.engine import Sh, run_in_shell


@pytest.fixture
def sh(docker_client: docker.DockerClient) -> Sh:
    """Run a shell command in a sandbox, as its user; return the exit code and what it says."""

    def sh(made: Observed, command: str) -> tuple[int, str]:
        return run_in_shell(docker_client, made.id, command)

    return sh
