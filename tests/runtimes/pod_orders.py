"""Orders for Pods: the least, and one in which everything is set."""

# ruff: noqa: S108 - paths inside containers

from typing import Any, Final

from hypothesis import strategies as st

from sandkeeper.api.workspace import Access
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.pod import (
    ClaimTemplate,
    Egress,
    EgressPort,
    EgressRule,
    PodShape,
    SharedMount,
)
from sandkeeper.config.resolution import UlimitValue
from sandkeeper.config.sources import ClaimSource, ConfigMapSource
from sandkeeper.runtimes.pod.desired import pod_body
from sandkeeper.runtimes.protocol import Order, Owner
from support.engine import a_config

INSTALLATION: Final = "25b7961fe90a68f9"
KEY: Final = RuntimeKey("team", "0f6c", "default", "agent:dev")
CEILINGS: Final = Ceilings(bind_roots=("/srv", "/srv/household", "/data/"))

TEXT = st.text(st.characters(), max_size=80)  # lone surrogates as well
CONFUSING = st.text(st.sampled_from('aA-_.:/ "\\,[]é\0'), max_size=6)
KEYS = st.builds(RuntimeKey, *[TEXT | CONFUSING] * 4)
INSTALLATIONS = st.sampled_from([INSTALLATION, "0000000000000000"])

EVERYTHING: Final[dict[str, Any]] = {
    "image": "registry.example:5000/tools@sha256:" + "0" * 64,
    "container_prefix": "everything-",
    "workdir": "/srv/work",
    "read_only_root": False,
    "tmpfs": ("/srv", "/dev/shm:size=1g,exec", "/srv/work/cache:ro,nosuid,nodev"),
    "user": "0:3000",
    "access": Access.RO,
    "agent": ClaimSource(name="household", sub_path="agents/dev"),
    "binds": ("/srv/household/shared:/srv/work/sharing:rw", "/data:/data:ro"),
    "cap_drop": ("NET_RAW", "MKNOD"),
    "env": {"PRICE": "$5 or $(HOME) or $$", "A": "", "GREETING": "grüß dich"},
    "setup_command": "make",
    "memory": 512 << 20,
    "milli_cpus": 1500,
    "gpus": "2",
    "seccomp_profile": "strict.json",
    "apparmor_profile": "strict",
    "dns": ("192.0.2.53", "2001:db8::53"),
    "extra_hosts": ("db:10.0.0.1", "six:2001:db8::1", "Cache:10.0.0.1"),
    "init": False,
    "workspace": ClaimTemplate(
        size=1 << 30,
        storage_class="fast",
        access_modes=("ReadWriteOnce", "ReadWriteMany"),
    ),
    "pod": PodShape(
        runtime_class_name="gvisor",
        node_selector={"pool": "sandboxes"},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
                }
            }
        },
        tolerations=({"key": "sandboxes", "operator": "Exists", "effect": "NoSchedule"},),
        priority_class_name="low",
        image_pull_secrets=("registry", "mirror"),
        image_pull_policy="Always",
        labels={"team": "a", "app.kubernetes.io/managed-by": "somebody"},
        annotations={"note": "yes", "sandkeeper.dev/key": "shared"},
        ephemeral_storage=2 << 30,
        gpu_resource="amd.com/gpu",
        mounts=(
            SharedMount(
                path="/srv/work/papers",
                source=ClaimSource(name="household", sub_path="papers"),
                read_only=False,
            ),
            SharedMount(path="/settings", source=ConfigMapSource("settings")),
        ),
        egress=Egress(
            dns=True,
            internet=True,
            to=(
                EgressRule("10.1.0.0/16", (EgressPort("TCP", 443), EgressPort("UDP", 5000, 5010))),
                EgressRule("2001:db8:1::/48"),
            ),
        ),
    ),
}
"""A value for every property that means something to a Pod."""

REFUSED: Final[dict[str, Any]] = {
    "image_fallback": True,
    "memory_swap": 1,
    "network": "bridge",
    "pids_limit": 100,
    "setup_timeout_seconds": 5,
    "ulimits": {"core": UlimitValue(0, 0)},
}
"""What no Pod can have, and what says nothing about it."""


def order(key: RuntimeKey = KEY, owners: tuple[Owner, ...] = (), **changes: Any) -> Order:
    """Order a Pod as the built-in level has it, but for the changes."""
    return Order(
        key=key,
        config=a_config(**{"image": "tools:1", **changes}),
        config_hash="v1-0123456789abcdef",
        owners=owners,
    )


def pod_of(wanted: Order, installation: str = INSTALLATION) -> dict[str, Any]:
    """Make the Pod of an order, where the ceilings allow a few directories."""
    return pod_body(wanted, installation=installation, ceilings=CEILINGS)
