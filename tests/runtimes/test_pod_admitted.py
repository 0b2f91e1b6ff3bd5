"""The API server admits what we make, the strictest namespace all that needs no more than it allows."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from runtimes.pod_orders import EVERYTHING, INSTALLATION, KEY, order, pod_of
from sandkeeper.api.workspace import Access
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.pod import (
    ClaimTemplate,
    ClaimVolume,
    Egress,
    EgressPort,
    EgressRule,
    EmptyDirVolume,
    HostPathVolume,
    PodShape,
    SharedMount,
)
from sandkeeper.config.sources import ClaimSource, ConfigMapSource, HostSource
from sandkeeper.runtimes.pod.claims import claim_body
from sandkeeper.runtimes.pod.network import network_policy_body
from sandkeeper.runtimes.protocol import Owner
from support.cluster import Cluster

pytestmark = pytest.mark.cluster

AGENT = ClaimSource(name="household", sub_path="agents/dev")
SHARED = PodShape(
    mounts=(
        SharedMount(path="/workspace/shared", source=ClaimSource(name="household", sub_path="shared")),
        SharedMount(path="/settings", source=ConfigMapSource("settings")),
    )
)
OWNERS = (Owner(name="first", uid="1111"), Owner(name="second", uid="2222"))


@contextmanager
def a_namespace(cluster: Cluster, *labels: str) -> Iterator[str]:
    name = f"t-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    try:
        for label in labels:
            cluster.kubectl("label", "namespace", name, label)
        cluster.kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


# Nothing is really made, so all tests can do with two namespaces.
@pytest.fixture(scope="module")
def unlabelled(cluster: Cluster) -> Iterator[str]:
    """Give a namespace that admits whatever is valid."""
    with a_namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module")
def restricted(cluster: Cluster) -> Iterator[str]:
    """Give a namespace that admits only what the strictest Pod Security Standard does."""
    with a_namespace(cluster, "pod-security.kubernetes.io/enforce=restricted") as name:
        yield name


def key_in(namespace: str, scope: str = KEY.scope) -> RuntimeKey:
    return RuntimeKey(namespace, "0f6c", "default", scope)


def pod(namespace: str, scope: str = KEY.scope, **changes: Any) -> dict[str, Any]:
    return pod_of(order(key_in(namespace, scope), OWNERS, **changes))


def admitted(cluster: Cluster, body: dict[str, Any]) -> dict[str, Any]:
    """Ask the API server whether it would make the object; the object as it would be."""
    answer: dict[str, Any] = json.loads(
        cluster.kubectl(
            *("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-"),
            stdin=json.dumps(body),
        )
    )
    return answer


def test_the_built_in_level_is_admitted_where_the_least_is(cluster: Cluster, restricted: str) -> None:
    made = admitted(cluster, pod(restricted))

    assert made["spec"]["containers"][0]["command"] == ["sleep", "infinity"]
    assert [volume["name"] for volume in made["spec"]["volumes"]] == [
        "workspace",
        "tmpfs-0",
        "tmpfs-1",
        "tmpfs-2",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"workspace": EmptyDirVolume(1 << 30)},
        {"workspace": ClaimVolume("team-work")},
        {"workspace": ClaimTemplate(size=1 << 30)},
        *({"agent": AGENT, "access": access} for access in Access),
        {"agent": AGENT, "workspace": ClaimVolume("household"), "pod": SHARED, "read_only_root": False},
        {"agent": ConfigMapSource("dev"), "memory": 512 << 20, "gpus": "1"},
        {"user": "auto"},
        {"user": "2000"},
        {"seccomp_profile": "strict.json"},
        {"apparmor_profile": "strict"},
        {"read_only_root": False, "init": False, "env": {}, "tmpfs": ()},
        {"tmpfs": ("/workspace", "/dev/shm:size=1g", "/srv:ro")},  # noqa: S108 - a path inside the sandbox
        {"memory": 512 << 20, "milli_cpus": 1500, "gpus": "1"},
        {"dns": ("192.0.2.53", "2001:db8::53"), "extra_hosts": ("db:10.0.0.1", "Six:2001:db8::1")},
    ],
    ids=str,
)
def test_what_needs_no_more_is_admitted_there_too(
    cluster: Cluster, restricted: str, changes: dict[str, Any]
) -> None:
    admitted(cluster, pod(restricted, **changes))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"workspace": HostPathVolume("/srv/sandboxes")}, "restricted volume types"),
        ({"agent": HostSource("/srv/dev")}, "restricted volume types"),
        ({"binds": ("/srv/shared:/workspace/shared:ro",)}, "restricted volume types"),
        ({"user": "0"}, "runAsNonRoot"),
        ({"cap_drop": ("NET_RAW",)}, "unrestricted capabilities"),
        ({"seccomp_profile": "unconfined"}, "seccompProfile"),
        ({"apparmor_profile": "unconfined"}, "forbidden AppArmor profile"),
    ],
    ids=str,
)
def test_what_needs_more_is_not(cluster: Cluster, restricted: str, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        admitted(cluster, pod(restricted, **changes))

    assert 'violates PodSecurity "restricted' in caught.value.stderr
    assert why in caught.value.stderr


@pytest.fixture
def of_its_own(cluster: Cluster, unlabelled: str) -> Iterator[str]:
    """Give the name of a RuntimeClass and of a PriorityClass: one that is not there is refused."""
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": unlabelled},
        "handler": "runc",
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(runtime_class))
    try:
        cluster.kubectl("create", "priorityclass", unlabelled, "--value=1")
        yield unlabelled
    finally:
        cluster.kubectl(
            "delete", "--ignore-not-found", f"runtimeclass/{unlabelled}", f"priorityclass/{unlabelled}"
        )


def test_everything_at_once_is_admitted(cluster: Cluster, unlabelled: str, of_its_own: str) -> None:
    shape = replace(EVERYTHING["pod"], runtime_class_name=of_its_own, priority_class_name=of_its_own)
    changes = EVERYTHING | {"pod": shape}
    wanted = order(key_in(unlabelled), OWNERS, **changes)
    claim = claim_body(wanted, INSTALLATION)

    assert claim is not None
    for body in (claim, network_policy_body(wanted.key, wanted.config, INSTALLATION)):
        admitted(cluster, body)
    made = admitted(cluster, pod_of(wanted))
    assert {
        "name": "bind-0",
        "mountPath": "/data",
        "readOnly": True,
        "recursiveReadOnly": "IfPossible",
    } in made["spec"]["containers"][0]["volumeMounts"]
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]


@pytest.mark.parametrize(
    "changes",
    [
        {"workspace": HostPathVolume("/srv/sandboxes"), "agent": HostSource("/srv/dev")},
        {"agent": HostSource("/srv/dev"), "access": Access.RO, "binds": ("/srv/shared:/shared:ro",)},
        {"user": "0"},
        {"cap_drop": ()},
        {"seccomp_profile": "unconfined", "apparmor_profile": "unconfined"},
    ],
    ids=str,
)
def test_what_needs_more_is_admitted_elsewhere(
    cluster: Cluster, unlabelled: str, changes: dict[str, Any]
) -> None:
    admitted(cluster, pod(unlabelled, **changes))


@pytest.mark.parametrize(
    "scope", ["agent:dev:session:" + text for text in ("x" * 500, "ключ 🔑", "a/b: {c}")]
)
def test_any_session_key_makes_a_pod_and_a_claim(cluster: Cluster, restricted: str, scope: str) -> None:
    wanted = order(key_in(restricted, scope), OWNERS, workspace=ClaimTemplate(size=1 << 30))
    claim = claim_body(wanted, INSTALLATION)

    assert claim is not None
    for body in (claim, pod_of(wanted)):
        assert admitted(cluster, body)["metadata"]["annotations"]["sandkeeper.dev/key"] == scope


@pytest.mark.parametrize(
    "egress",
    [
        Egress(),
        Egress(
            dns=True,
            internet=True,
            to=(
                EgressRule("10.1.0.0/16", (EgressPort("TCP", 443), EgressPort("SCTP", 5000, 5010))),
                EgressRule("2001:db8:1::/48"),
                EgressRule("0.0.0.0/0"),
            ),
        ),
    ],
    ids=["nothing", "everything"],
)
def test_a_network_policy_is_admitted_as_it_is(cluster: Cluster, unlabelled: str, egress: Egress) -> None:
    config = order(pod=PodShape(egress=egress), dns=("192.0.2.53", "2001:db8::53")).config
    body = network_policy_body(key_in(unlabelled), config, INSTALLATION)

    # Nothing is filled in, so what is there can be compared with what is wanted.
    assert admitted(cluster, body)["spec"] == body["spec"]


@pytest.mark.parametrize(
    "template",
    [
        ClaimTemplate(size=1 << 30),
        ClaimTemplate(size=1, storage_class="", access_modes=("ReadWriteOncePod",), retain=True),
        ClaimTemplate(size=1 << 40, storage_class="fast", access_modes=("ReadWriteOnce", "ReadWriteMany")),
    ],
    ids=str,
)
def test_a_claim_is_admitted(cluster: Cluster, unlabelled: str, template: ClaimTemplate) -> None:
    body = claim_body(order(key_in(unlabelled), OWNERS, workspace=template), INSTALLATION)

    assert body is not None
    made = admitted(cluster, body)
    assert made["spec"]["accessModes"] == list(template.access_modes)
    if template.storage_class is not None:
        assert made["spec"]["storageClassName"] == template.storage_class
