"""Every property becomes an argument of the create call, and nothing else does."""

# ruff: noqa: S108 - paths inside containers

from typing import Any

import pytest

from sandkeeper.api.workspace import Access
from sandkeeper.config.binds import Mount
from sandkeeper.config.pod import HostPathVolume
from sandkeeper.config.resolution import UlimitValue
from sandkeeper.config.sources import HostSource
from sandkeeper.runtimes.docker.arguments import HostFacts, create_body
from support.engine import a_config

LABELS = {"sandkeeper.dev/installation": "one"}

HOST = {
    "NetworkMode": "none",
    "ReadonlyRootfs": True,
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges"],
    "Tmpfs": {"/tmp": "", "/var/tmp": "", "/run": ""},
    "Mounts": [{"Type": "volume", "Target": "/workspace"}],
    "Init": True,
    "RestartPolicy": {"Name": "no"},
}

BODY = {
    "Image": "tools:1",
    "Entrypoint": [""],
    "Cmd": ["sleep", "infinity"],
    "Env": ["LANG=C.UTF-8"],
    "User": "1000:1000",
    "WorkingDir": "/workspace",
    "Labels": LABELS,
    "StopSignal": "SIGTERM",
    "Healthcheck": {"Test": ["NONE"]},
    "HostConfig": HOST,
}


def body(facts: HostFacts | None = None, **changes: Any) -> dict[str, Any]:
    config = a_config(**{"image": "tools:1", **changes})
    return create_body(config, facts or HostFacts(user=config.user), labels=LABELS, image=config.image)


def test_the_built_in_level() -> None:
    assert body() == BODY


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image": "other@sha256:abc"}, {"Image": "other@sha256:abc"}),
        ({"env": {}}, {"Env": []}),
        ({"env": {"B": "2=2", "A": ""}}, {"Env": ["A=", "B=2=2"]}),
        ({"container_prefix": "other-"}, {}),
        ({"setup_command": "make", "setup_timeout_seconds": 5, "image_fallback": True}, {}),
    ],
)
def test_a_property_of_the_container(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert body(**changes) == BODY | expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"read_only_root": False}, {"ReadonlyRootfs": False}),
        ({"tmpfs": ()}, {"Tmpfs": {}}),
        ({"tmpfs": ("/tmp:size=64m,exec", "/x")}, {"Tmpfs": {"/tmp": "size=64m,exec", "/x": ""}}),
        ({"network": "bridge"}, {"NetworkMode": "bridge"}),
        ({"network": "container:other"}, {"NetworkMode": "container:other"}),
        ({"cap_drop": ("NET_RAW", "MKNOD")}, {"CapDrop": ["NET_RAW", "MKNOD"]}),
        ({"cap_drop": ()}, {"CapDrop": []}),
        ({"pids_limit": 100}, {"PidsLimit": 100}),
        ({"memory": 512 << 20}, {"Memory": 536870912}),
        ({"memory": 512 << 20, "memory_swap": 1 << 30}, {"Memory": 536870912, "MemorySwap": 1073741824}),
        ({"memory_swap": -1}, {"MemorySwap": -1}),
        ({"milli_cpus": 1500}, {"NanoCpus": 1_500_000_000}),
        (
            {"gpus": "all"},
            {"DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]], "Options": {}}]},
        ),
        (
            {"gpus": "2"},
            {"DeviceRequests": [{"Driver": "", "Count": 2, "Capabilities": [["gpu"]], "Options": {}}]},
        ),
        (
            {"gpus": "device=0,GPU-1"},
            {
                "DeviceRequests": [
                    {"Driver": "", "DeviceIDs": ["0", "GPU-1"], "Capabilities": [["gpu"]], "Options": {}}
                ]
            },
        ),
        (
            {"ulimits": {"nproc": UlimitValue(10, 20), "nofile": UlimitValue(1024, -1)}},
            {
                "Ulimits": [
                    {"Name": "nofile", "Soft": 1024, "Hard": -1},
                    {"Name": "nproc", "Soft": 10, "Hard": 20},
                ]
            },
        ),
        ({"apparmor_profile": "strict"}, {"SecurityOpt": ["no-new-privileges", "apparmor=strict"]}),
        ({"dns": ("1.1.1.1", "::1")}, {"Dns": ["1.1.1.1", "::1"]}),
        (
            {"extra_hosts": ("db:10.0.0.1", "h:host-gateway")},
            {"ExtraHosts": ["db:10.0.0.1", "h:host-gateway"]},
        ),
        ({"init": False}, {"Init": False}),
    ],
)
def test_a_property_of_its_surroundings(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert body(**changes) == BODY | {"HostConfig": HOST | expected}


AGENT = HostSource("/srv/agents/rain")
ROOT = HostPathVolume("/srv/sandboxes")


@pytest.mark.parametrize(
    ("changes", "volumes"),
    [
        ({}, ["/workspace"]),
        ({"workdir": "/srv/work"}, ["/srv/work"]),
        ({"workdir": "/"}, []),
        ({"tmpfs": ("/workspace",)}, []),
        ({"tmpfs": ("/workspace/cache",)}, ["/workspace"]),
        ({"workspace": ROOT}, []),
        ({"workspace": ROOT, "agent": AGENT}, []),
        ({"agent": AGENT, "access": Access.RW}, []),
    ],
)
def test_a_workspace_that_is_kept_nowhere_is_a_volume_of_the_containers(
    changes: dict[str, Any], volumes: list[str]
) -> None:
    made = body(**changes)

    assert made["WorkingDir"] == changes.get("workdir", "/workspace")
    assert made["HostConfig"]["Mounts"] == [{"Type": "volume", "Target": path} for path in volumes]


def test_what_was_looked_up_on_the_host_counts_and_not_what_was_asked_for() -> None:
    facts = HostFacts(
        user="2000:3000",
        mounts=(Mount("/real/a", "/workspace", "rw"), Mount("/real/b", "/b", "ro")),
        seccomp='{"defaultAction":"SCMP_ACT_ALLOW"}',
    )

    made = body(
        facts, user="auto", agent=AGENT, access=Access.RW, binds=("/b:/b:ro",), seccomp_profile="mine"
    )

    assert made == BODY | {
        "User": "2000:3000",
        "HostConfig": HOST
        | {
            "SecurityOpt": ["no-new-privileges", 'seccomp={"defaultAction":"SCMP_ACT_ALLOW"}'],
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": "/real/a",
                    "Target": "/workspace",
                    "ReadOnly": False,
                    "BindOptions": {"Propagation": "rprivate", "NonRecursive": False},
                },
                {
                    "Type": "bind",
                    "Source": "/real/b",
                    "Target": "/b",
                    "ReadOnly": True,
                    "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
                },
            ],
        },
    }


def test_every_property_is_accounted_for() -> None:
    """A new property has to become an argument, or be named here as one that shapes no container."""
    elsewhere = {
        "backend",
        "container_prefix",
        "setup_command",
        "setup_timeout_seconds",
        "image_fallback",
        "binds",
        "seccomp_profile",
        "user",
        "image",
        "pod",
        # these two were looked up on the host
        "access",
        "agent",
    }
    config = a_config("tools:1")
    probes: dict[str, Any] = {
        "workdir": "/w",
        "workspace": ROOT,
        "read_only_root": False,
        "tmpfs": (),
        "network": "x",
        "cap_drop": (),
        "env": {},
        "pids_limit": 1,
        "memory": 1,
        "memory_swap": 1,
        "milli_cpus": 1,
        "gpus": "all",
        "ulimits": {"core": UlimitValue(0, 0)},
        "apparmor_profile": "x",
        "dns": ("::1",),
        "extra_hosts": ("a:1.1.1.1",),
        "init": False,
    }

    assert set(vars(config)) == elsewhere | set(probes)
    assert all(body(**{name: value}) != BODY for name, value in probes.items())
