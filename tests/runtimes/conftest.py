"""What several tests of the backends need."""

import docker
import pytest

from sandkeeper.lifecycle.model import Observed
from sandkeeper.runtimes.docker.running import RunningCommand
from support.engine import Sh


@pytest.fixture
def sh(docker_client: docker.DockerClient) -> Sh:
    """Run a shell command in a sandbox, as its user; return the exit code and what it says."""

    def sh(made: Observed, command: str) -> tuple[int, str]:
        with RunningCommand(docker_client.api, made.id, ["/bin/sh", "-c", command], stdin=False) as running:
            said = b"".join(data for _, data in running.frames())
            return running.exit_code() or 0, said.decode().strip()

    return sh
