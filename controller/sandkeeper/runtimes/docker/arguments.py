"""From a resolved configuration to the body of a create call: a pure function, and the only place that knows both.

Where the configuration is silent (None), the argument is left out and the engine's own default applies. Notably:

* ``memory`` without ``memorySwap`` allows as much swap again, as with ``docker run``;
* a tmpfs without options is rw, nosuid, nodev, noexec, with mode 1777, so that any user can write to it, and what is in
  it counts as memory;
* the engine's seccomp and AppArmor profiles apply.

Stated always, whatever the configuration or the image says: no new privileges, no restarts by the engine, no health
checks (a command that the image would run in the sandbox), no entrypoint, and SIGTERM as the signal to stop.

What is mounted on the host in a directory that a sandbox may only read is not shown to it: many an engine would make
the directory read-only, and leave open what is mounted in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandkeeper.config.binds import Mount
from sandkeeper.config.mounts import has_copy
from sandkeeper.config.pod import EmptyDirVolume
from sandkeeper.config.resolution import RuntimeConfig

__all__ = ["COMMAND", "HostFacts", "create_body", "has_volume"]

COMMAND: Final = ("sleep", "infinity")

_NANO_CPUS: Final = 1_000_000
"""Of one thousandth of a CPU."""


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """What had to be looked up on the host, for a configuration names things that only the host can tell."""

    user: str
    """``uid`` or ``uid:gid``; no longer ``auto``."""
    mounts: tuple[Mount, ...] = ()
    """All that is mounted of the host, the sources with every symbolic link resolved."""
    seccomp: str | None = None
    """The profile itself, as JSON, or ``unconfined``."""


def has_volume(config: RuntimeConfig) -> bool:
    """Whether the container has a volume of its own for a workspace, which goes with it."""
    return has_copy(config) and isinstance(config.workspace, EmptyDirVolume)


def create_body(
    config: RuntimeConfig, facts: HostFacts, *, labels: Mapping[str, str], image: str
) -> dict[str, Any]:
    """Return the body of the call that creates the container."""
    return {
        "Image": image,
        # An entrypoint of the image would take the command for its arguments; [""] is how one is taken away.
        "Entrypoint": [""],
        "Cmd": list(COMMAND),
        "Env": [f"{name}={value}" for name, value in sorted(config.env.items())],
        "User": facts.user,
        "WorkingDir": config.workdir,
        "Labels": dict(labels),
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(config, facts),
    }


def _host_config(config: RuntimeConfig, facts: HostFacts) -> dict[str, Any]:
    mounts = [_mount(mount) for mount in facts.mounts]
    if has_volume(config):
        mounts.append({"Type": "volume", "Target": config.workdir})
    return {
        "NetworkMode": config.network,
        "ReadonlyRootfs": config.read_only_root,
        "CapDrop": list(config.cap_drop),
        "SecurityOpt": _security(config, facts),
        "Tmpfs": dict(_path_and_options(spec) for spec in config.tmpfs),
        "Mounts": mounts,
        "Init": config.init,
        "RestartPolicy": {"Name": "no"},
        **_limits(config),
        **({"Dns": list(config.dns)} if config.dns else {}),
        **({"ExtraHosts": list(config.extra_hosts)} if config.extra_hosts else {}),
    }


def _security(config: RuntimeConfig, facts: HostFacts) -> list[str]:
    options = ["no-new-privileges"]
    if facts.seccomp is not None:
        options.append(f"seccomp={facts.seccomp}")
    if config.apparmor_profile is not None:
        options.append(f"apparmor={config.apparmor_profile}")
    return options


def _path_and_options(spec: str) -> tuple[str, str]:
    path, _, options = spec.partition(":")
    return path, options


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        # Unlike a bind, a mount is refused where its source is missing; the engine would make it, as root.
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.mode == "ro",
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": mount.mode == "ro"},
    }


def _limits(config: RuntimeConfig) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if config.pids_limit is not None:
        limits["PidsLimit"] = config.pids_limit
    if config.memory is not None:
        limits["Memory"] = config.memory
    if config.memory_swap is not None:
        limits["MemorySwap"] = config.memory_swap
    if config.milli_cpus is not None:
        limits["NanoCpus"] = config.milli_cpus * _NANO_CPUS
    if config.ulimits:
        limits["Ulimits"] = [
            {"Name": name, "Soft": limit.soft, "Hard": limit.hard}
            for name, limit in sorted(config.ulimits.items())
        ]
    if config.gpus is not None:
        limits["DeviceRequests"] = [_gpus(config.gpus)]
    return limits


def _gpus(text: str) -> dict[str, Any]:
    ids = text.removeprefix("device=")
    which = {"DeviceIDs": ids.split(",")} if ids != text else {"Count": -1 if text == "all" else int(text)}
    return {"Driver": "", "Capabilities": [["gpu"]], "Options": {}, **which}
