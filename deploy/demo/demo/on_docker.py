"""The household as containers of one Docker engine, with its directories bound into them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import docker

from demo import household, narration
from demo.narration import check
from demo.stage import NAMESPACE, Stage
from sandkeeper.api.conditions import Reason
from sandkeeper.api.names import Label
from testbed.bed import Bed

_FOLDERS = ("rain", "tio-claude", "shared")
# The shared directory is mounted into each of the others; made by the engine, the mount point would be root's.
_MOUNT_POINTS = ("rain/shared", "tio-claude/shared")


class OnDocker:
    """Looks through the engine's eyes."""

    noun = "container"

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def equip(self, bed: Bed) -> None:  # noqa: ARG002 - the image is on the engine already
        """Make the directories: one for each agent, and one for both."""
        household.ensure(self.stage.places.household, *_FOLDERS, *_MOUNT_POINTS)

    def runtimes(self, agent: str | None = None) -> list[str]:
        """List containers, as the engine tells them."""
        wanted = [f"{Label.NAMESPACE}={NAMESPACE}"]
        wanted += [f"{Label.KEY}=agent:{agent}"] if agent else []
        with self._engine() as engine:
            return [str(each.id) for each in engine.containers.list(all=True, filters={"label": wanted})]

    def is_gone(self, agent: str) -> bool:
        """At once: a Sandbox is deleted when its container is."""
        return not self.runtimes(agent)

    def kill(self, runtime: str) -> None:
        """Kill a container."""
        narration.command("docker", ["kill", runtime[:12]])
        with self._engine() as engine:
            engine.containers.get(runtime).kill()

    def directory(self, agent: str) -> Path:
        """Name the directory that the policy binds."""
        return self.stage.places.household / agent

    def isolate(self) -> None:
        """Show the network interfaces."""
        seen = self.stage.sandkeeper("exec", "rain", "--", "ls", "/sys/class/net")
        check(seen.stdout.split() == ["lo"], "Rain's sandbox has no network but its own loopback")

    def share(self) -> None:
        """Write into the directory that both have."""
        script = "echo 'Notes for both of us.' > shared/notes.md"
        self.stage.sandkeeper("exec", "rain", "--", "sh", "-c", script)
        shared = self.stage.sandkeeper("exec", "tio-claude", "--", "cat", "shared/notes.md")
        check("Notes for both of us." in shared.stdout, "what Rain shares, Tio reads")

    def trespass(self) -> Mapping[str, str]:
        """Bind what lies outside the bind roots, by dots and by a link that an agent made."""
        linked = self.stage.sandkeeper("exec", "rain", "--", "ln", "-sfn", "/etc", "way-out")
        check(linked.returncode == 0, "Rain has a link to /etc in her directory, which the host would follow")
        self.stage.apply("trespass.yaml")
        return {"trespasser-by-dots": Reason.BIND_REFUSED, "trespasser-by-link": Reason.BIND_REFUSED}

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
