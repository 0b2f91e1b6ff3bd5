"""Places in which a bridge is tried: a name space of this machine, a container and a Pod, all laid out alike.

Each has mounts that are in the bridge's table, and others beside and below them that are not. What is to be found in
the read-only ones is put there by way of ``/prepare``, where they can be written to. All run as an ordinary user.
"""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import docker

from sandkeeper.bridge.commands import Ended, Exec, Output
from sandkeeper.bridge.containers import ContainerExec
from sandkeeper.bridge.files import FileBridge
from sandkeeper.bridge.pods import PodExec
from sandkeeper.bridge.table import Mount, MountTable
from sandkeeper.cluster.api import KubeApi
from sandkeeper.config.mounts import Role
from sandkeeper.runtimes.docker.commands import Commands
from sandkeeper.runtimes.docker.transport import connect_to
from support.cluster import Cluster, new_namespace
from support.pods import POD_IMAGE

__all__ = ["Namespace", "Pod", "Yard", "container", "namespace", "pod"]

IMAGE: Final = "debian:bookworm-slim"
"""It has Python as small as it comes."""
POD: Final = "yard"
_USER: Final = 1000
_SECONDS: Final = 60.0

DIRECTORIES: Final = ("workspace", "skills", "team", "agent", "elsewhere")
LAYOUT: Final = (
    ("/workspace", "workspace", "rw"),
    ("/workspace/skills", "skills", "ro"),
    ("/workspace/deep/team", "team", "rw"),
    ("/agent", "agent", "ro"),
    ("/elsewhere", "elsewhere", "rw"),
    ("/workspace/hidden", "elsewhere", "rw"),
    ("/prepare/skills", "skills", "rw"),
    ("/prepare/agent", "agent", "rw"),
)
"""Where each directory is mounted. The last four the bridge knows nothing of."""


def table(hosts: dict[str, str] | None = None) -> MountTable:
    """Make the table of the mounts that the bridge serves."""
    roles = (Role.WORKSPACE, Role.SKILLS, Role.BIND, Role.AGENT)
    return MountTable(
        Mount(role=role, target=target, read_only=mode == "ro", host=(hosts or {}).get(directory))
        for role, (target, directory, mode) in zip(roles, LAYOUT, strict=False)
    )


@dataclass(frozen=True)
class Yard:
    """One of them."""

    run: Exec
    hosts: dict[str, str] | None = None
    """The directories of this machine, where they are on it."""

    @property
    def bridge(self) -> FileBridge:
        """A bridge into it."""
        return FileBridge(table(self.hosts), self.run)

    async def sh(self, script: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Do something in it that code in a sandbox might do, and return what that prints."""
        ended = await self.run(
            ["/bin/sh", "-euc", script, "sh", *arguments], stdin, limit=1 << 20, seconds=_SECONDS
        )
        assert ended.code == 0, (script, ended)
        return ended.stdout

    async def python(self, program: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a program in it, likewise."""
        command = ["/usr/bin/python3", "-I", "-S", "-c", program, *arguments]
        ended = await self.run(command, stdin, limit=1 << 20, seconds=3 * _SECONDS)
        assert ended.code == 0, ended
        return ended.stdout

    async def clean(self) -> None:
        """Empty all directories, but for what the others are mounted on."""
        places = [target for target, _, mode in LAYOUT if mode == "rw"]
        await self.sh('find "$@" -mindepth 1 -delete 2>/dev/null || true', *places)


# --- a name space of this machine -------------------------------------------------------------------------------------


class Namespace:
    """A process in name spaces of its own, with mounts that nobody else sees; commands join it."""

    def __init__(self, script: str, *arguments: str, root: bool = False) -> None:
        """Make it by a script that mounts, and that ``exec``'s what waits."""
        self._process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        self._enter = ["nsenter", f"--target={self._process.pid}", "--mount", "--root", "--wd"]
        if not root:
            self._enter += [f"--setuid={_USER}", f"--setgid={_USER}"]

    def close(self) -> None:
        """End it; its mounts go with it."""
        self._process.communicate()  # it waits for its input to end

    async def __call__(self, command: Sequence[str], stdin: bytes, *, limit: int, seconds: float) -> Ended:
        """Run a command in it."""
        output = Output(limit)
        process = await asyncio.create_subprocess_exec(
            *self._enter,
            *command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin"},
        )
        try:
            async with asyncio.timeout(seconds):
                stdout, stderr = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        output.stdout(stdout)
        output.stderr(stderr)
        return output.ended(process.returncode)


_SMALL_SYSTEM: Final = """
    root=$1 directories=$2; shift 2
    mount -t tmpfs -o mode=755 tmpfs "$root"
    cd "$root"
    mkdir usr proc dev tmp; chmod 1777 tmp
    mount --rbind /usr usr; mount --rbind /proc proc; mount --rbind /dev dev
    for each in bin lib lib64; do ln -s "usr/$each" "$each"; done
    mkdir small; mount -t tmpfs -o size=1m,mode=1777 tmpfs small
    while [ $# -gt 0 ]; do
        mkdir -p "./$1"; mount --bind "$directories/$2" "./$1"
        [ "$3" = rw ] || mount -o remount,bind,ro "./$1"
        shift 3
    done
    exec chroot . sh -c 'echo ready; read end'
"""


@contextmanager
def namespace() -> Iterator[Yard]:
    """Lay one out on this machine, with no engine at all."""
    with _directories() as hosts, tempfile.TemporaryDirectory() as root:
        layout = [word for mount in LAYOUT for word in mount]
        made = Namespace(_SMALL_SYSTEM, root, str(Path(hosts["workspace"]).parent), *layout)
        try:
            yield Yard(made, hosts)
        finally:
            made.close()


@contextmanager
def _directories() -> Iterator[dict[str, str]]:
    # Not in pytest's own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory(prefix="sk-yard-") as folder:
        Path(folder).chmod(0o755)
        for name in DIRECTORIES:
            path = Path(folder, name)
            path.mkdir()
            os.chown(path, _USER, _USER)
        for target, _, _ in LAYOUT:
            if target.startswith("/workspace/"):
                below = Path(folder) / target[1:]
                below.mkdir(parents=True)
                for made in (below, below.parent):
                    os.chown(made, _USER, _USER)
        yield {name: str(Path(folder, name)) for name in DIRECTORIES}


# --- a container ------------------------------------------------------------------------------------------------------


@contextmanager
def container(client: docker.DockerClient, url: str, *, image: str = IMAGE) -> Iterator[Yard]:
    """Lay one out in a container, as hardened as the operator makes them."""
    commands = Commands(connect_to(url))
    with _directories() as hosts:
        made = client.containers.create(
            image,
            ["sleep", "infinity"],
            init=True,
            user=f"{_USER}:{_USER}",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            working_dir="/workspace",
            read_only=True,
            network_mode="none",
            tmpfs={"/tmp": ""},  # noqa: S108 - in the container
            volumes=[f"{hosts[directory]}:{target}:{mode}" for target, directory, mode in LAYOUT],
        )
        try:
            made.start()
            yield Yard(ContainerExec(commands, str(made.id)), hosts)
        finally:
            commands.close()
            made.remove(force=True)


# --- a Pod ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pod:
    """The Pod of a yard."""

    namespace: str
    uid: str

    def yard(self, api: KubeApi) -> Yard:
        """Return it as one client sees it."""
        connection = api._connection
        return Yard(PodExec(api, connection, namespace=self.namespace, name=POD, uid=self.uid))


@contextmanager
def pod(cluster: Cluster, *, image: str = POD_IMAGE) -> Iterator[Pod]:
    """Lay one out in a Pod, likewise."""
    with new_namespace(cluster) as namespace:
        cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(_pod(image)))
        cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", f"pod/{POD}", "--timeout=60s")
        uid = cluster.kubectl("-n", namespace, "get", "pod", POD, "-o", "jsonpath={.metadata.uid}")
        yield Pod(namespace, uid)


def _pod(image: str) -> dict[str, Any]:
    mounts = [
        {"name": directory, "mountPath": target, "readOnly": mode == "ro"}
        for target, directory, mode in LAYOUT
    ]
    container = {
        "name": "sandbox",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["sleep", "infinity"],
        "workingDir": "/workspace",
        "volumeMounts": [*mounts, {"name": "notes", "mountPath": "/config", "readOnly": True}],
        "securityContext": {
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": name, "emptyDir": {}} for name in DIRECTORIES]
        + [{"name": "notes", "configMap": {"name": "notes"}}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }
    pod = {"kind": "Pod", "metadata": {"name": POD}, "spec": spec}
    notes = {"kind": "ConfigMap", "metadata": {"name": "notes"}, "data": {"SOUL.md": "who I am"}}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"apiVersion": "v1", **one} for one in (notes, pod)],
    }
