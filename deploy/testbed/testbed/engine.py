"""A Docker engine of our own, for the test bed and for tests that break one.

Debian's ``dockerd`` with everything below one folder: images, sockets, pids. It starts a containerd of
its own, which dies with it, while the containers' shims and the containers live on. `Engine.stop` takes
them along, and whatever is still mounted.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import docker
from docker.errors import APIError, DockerException

from testbed import files, mounts, probes, processes

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_SOCKET = "unix:///var/run/docker.sock"

_OWN_ID_SINCE = 24
"""The version of the engine that keeps its id with its data."""

_READY_SECONDS = 60.0
_CALL_SECONDS = 60


@dataclass(frozen=True)
class EngineOptions:
    """How an engine treats the machine's network. By default it leaves that alone."""

    bridge: str | None = None
    """An existing bridge; without one, containers have only the networks ``none`` and ``host``."""
    filters: bool = False
    """Whether the engine writes packet filter rules; only one engine of a machine can."""
    address_pool: str | None = None
    """Where networks that users make take their addresses from."""
    control_group: str = "docker"
    """The control group that containers are below."""


class Engine:
    """One engine below one folder. Any number of these objects may speak about the same one."""

    def __init__(self, root: Path, options: EngineOptions | None = None) -> None:
        self.root = root
        self._options = options or EngineOptions()
        self._record = root / "dockerd.json"
        self._socket = root / "docker.sock"

    @property
    def url(self) -> str:
        """What DOCKER_HOST is to be."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int | None:
        """The daemon's pid, while it runs."""
        record = processes.load(self._record)
        return record.pid if record is not None and record.alive else None

    def check(self) -> str | None:
        """Say what is wrong with it, if anything is."""
        if self.pid is None:
            return f"dockerd does not run, see {self._log}"
        return probes.unix_http(self._socket, "/_ping")

    @property
    def _log(self) -> Path:
        return self.root / "dockerd.log"

    def start(self) -> None:
        """Start the daemon if it does not run; ready is another question."""
        if self.pid is not None:
            return
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._bury_containerd()
        (self.root / "dockerd.pid").unlink(missing_ok=True)
        # Else the machine's own settings would be taken, and its key: older engines derive their id
        # from that, so that all of a machine would be one and the same to whoever asks.
        config = self.root / "daemon.json"
        settings = (
            {"deprecated-key-path": f"{self.root}/key.json"} if _major_version() < _OWN_ID_SINCE else {}
        )
        files.ensure(config, json.dumps(settings))
        options = self._options
        pool = [] if options.address_pool is None else [f"base={options.address_pool},size=24"]
        record = processes.start(
            [
                "dockerd",
                f"--config-file={config}",
                f"--data-root={self.root}/data",
                f"--exec-root={self.root}/exec",
                f"--pidfile={self.root}/dockerd.pid",
                f"--host={self.url}",
                f"--bridge={options.bridge or 'none'}",
                f"--iptables={str(options.filters).lower()}",
                f"--cgroup-parent=/{options.control_group}",
                *(f"--default-address-pool={one}" for one in pool),
                "--log-level=warn",
            ],
            log=self._log,
        )
        processes.save(record, self._record)

    def wait_ready(self, *, seconds: float = _READY_SECONDS) -> None:
        """Wait until it answers; an error at once if the daemon ended."""

        def check() -> str | None:
            if self.pid is None:
                raise probes.NotReadyError(f"dockerd ended:\n{self._tail()}")
            return probes.unix_http(self._socket, "/_ping")

        probes.wait("dockerd", check, seconds=seconds)

    def _tail(self) -> str:
        with suppress(FileNotFoundError):
            return self._log.read_text(errors="replace")[-2000:]
        return "it left no log"

    def kill(self) -> None:
        """Kill the daemon and nothing else, as a crash would."""
        if (record := processes.load(self._record)) is not None:
            processes.stop([record], first=signal.SIGKILL)
        self._bury_containerd()

    def _bury_containerd(self) -> None:
        """See to it that the killed daemon's containerd is gone, and its pid file.

        The kernel kills it along with its parent, but a little later, and nobody may be in a hurry to
        reap it. A daemon that starts meanwhile takes the dead one for a living one and waits in vain.
        """
        folder = self.root / "exec" / "containerd"
        processes.stop(processes.mentioning(f"{folder}/containerd.toml"), first=signal.SIGKILL)
        (folder / "containerd.pid").unlink(missing_ok=True)

    def pause(self) -> None:
        """Let the daemon hang: it takes connections and answers none."""
        self._running().freeze()

    def resume(self) -> None:
        """Let the daemon go on."""
        self._running().send(signal.SIGCONT)

    def _running(self) -> processes.Record:
        record = processes.load(self._record)
        if record is None or not record.alive:
            raise ProcessLookupError("this engine does not run")
        return record

    def client(self) -> docker.DockerClient:
        """Connect to it."""
        return docker.DockerClient(base_url=self.url, timeout=_CALL_SECONDS)

    def stop(self) -> None:
        """Remove the containers, stop the daemon and its containerd, and unmount what is left."""
        record = processes.load(self._record)
        if record is not None and record.alive:
            record.send(signal.SIGCONT)
            if self.check() is None:
                with suppress(DockerException, OSError):
                    self._remove_containers_and_networks()
            processes.stop([record], grace=10.0)
        # What a killed daemon left: containerd and the shims have our paths in their arguments, and
        # the containers are the shims' children.
        processes.stop(
            processes.with_descendants(processes.mentioning(f"{self.root}/exec/")),
            first=signal.SIGKILL,
        )
        mounts.unmount_below(self.root)
        self._record.unlink(missing_ok=True)

    def _remove_containers_and_networks(self) -> None:
        client = self.client()
        try:
            for container in client.api.containers(all=True, quiet=True):
                with suppress(APIError):
                    client.api.remove_container(container["Id"], force=True)
            for network in client.api.networks(filters={"type": "custom"}):
                with suppress(APIError):
                    client.api.remove_network(network["Id"])
        finally:
            client.close()

    def destroy(self) -> None:
        """Stop it and remove everything that it stored."""
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def _major_version() -> int:
    done = subprocess.run(["dockerd", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\d+)\.", done.stdout)
    return int(found[1]) if found else _OWN_ID_SINCE
