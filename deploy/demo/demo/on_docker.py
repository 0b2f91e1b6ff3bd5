"""The household as containers of one Docker engine, with its directories bound into them."""

from collections.abc import Iterator
from contextlib import contextmanager

import docker

from demo import narration
from demo.narration import check
from demo.stage import NAMESPACE, Stage
from sandkeeper.api.names import Label
from testbed.bed import Bed


class OnDocker:
    """Looks through the engine's eyes."""

    noun = "container"

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def equip(self, bed: Bed) -> None:
        """Nothing is missing: the image is on the engine already."""

    def runtimes(self, agent: str | None = None) -> list[str]:
        """List containers, as the engine tells them."""
        wanted = [f"{Label.NAMESPACE}={NAMESPACE}"]
        wanted += [f"{Label.KEY}=agent:{agent}"] if agent else []
        with self._engine() as engine:
            found = engine.containers.list(all=True, filters={"label": wanted}, ignore_removed=True)
            return [str(each.id) for each in found]

    def is_gone(self, agent: str) -> bool:
        """At once: a Sandbox is deleted when its container is."""
        return not self.runtimes(agent)

    def kill(self, runtime: str) -> None:
        """Kill a container."""
        narration.command("docker", ["kill", runtime[:12]])
        with self._engine() as engine:
            engine.containers.get(runtime).kill()

    def isolate(self) -> None:
        """Show the network interfaces."""
        seen = self.stage.sandkeeper("exec", "rain", "--", "ls", "/sys/class/net")
        check(seen.stdout.split() == ["lo"], "Rain's sandbox has no network but its own loopback")

    def hints(self) -> list[str]:
        """Name the filter that finds the containers."""
        return [f"docker ps --filter label={Label.NAMESPACE}={NAMESPACE}"]

    @contextmanager
    def _engine(self) -> Iterator[docker.DockerClient]:
        client = docker.DockerClient(base_url=self.stage.variables["DOCKER_HOST"])
        try:
            yield client
        finally:
            client.close()
