"""Every property becomes a part of the Pod, and nothing else does."""

# ruff: noqa: S108 - paths inside containers

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtimes.pod_orders import (
    CONFUSING,
    EVERYTHING,
    INSTALLATION,
    INSTALLATIONS,
    KEY,
    KEYS,
    REFUSED,
    TEXT,
    order,
    pod_of,
)
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import key_from_pod
from sandkeeper.config.pod import (
    ClaimTemplate,
    ClaimVolume,
    Egress,
    EmptyDirVolume,
    HostPathVolume,
    PodShape,
)
from sandkeeper.runtimes.pod.claims import claim_name
from sandkeeper.runtimes.pod.mounting import TMPFS_SIZE
from sandkeeper.runtimes.pod.network import network_hash
from sandkeeper.runtimes.pod.preparing import prepare_command
from sandkeeper.runtimes.protocol import Owner

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)

LABELS = {
    "app.kubernetes.io/managed-by": "sandkeeper",
    "sandkeeper.dev/installation": INSTALLATION,
    "sandkeeper.dev/key-hash": "ec5ba6772fef51e5f3f4818efcb51dc9b3c33359",
    "sandkeeper.dev/network": "c3a0a7567716e4c8b5e1",
}

ANNOTATIONS = {
    "sandkeeper.dev/namespace-uid": "0f6c",
    "sandkeeper.dev/policy": "default",
    "sandkeeper.dev/key": "agent:dev",
    "sandkeeper.dev/config-hash": "v1-0123456789abcdef",
}

METADATA = {
    "name": "sk-test-agent-dev-5rn2m5zp55i6l",
    "namespace": "team",
    "labels": LABELS,
    "annotations": ANNOTATIONS,
}

SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "fsGroup": 1000,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}

CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

CONTAINER = {
    "name": "sandbox",
    "image": "tools:1",
    "imagePullPolicy": "IfNotPresent",
    "command": ["sleep", "infinity"],
    "workingDir": "/workspace",
    "env": [{"name": "LANG", "value": "C.UTF-8"}],
    "securityContext": CONTAINER_SECURITY,
    "volumeMounts": [
        {"name": "tmpfs-2", "mountPath": "/run"},
        {"name": "tmpfs-0", "mountPath": "/tmp"},
        {"name": "tmpfs-1", "mountPath": "/var/tmp"},
        {"name": "workspace", "mountPath": "/workspace"},
    ],
}

LIMITS = {"memory": "536870912", "cpu": "1500m", "ephemeral-storage": "2147483648"}

IN_MEMORY = {"medium": "Memory", "sizeLimit": "268435456"}

SPEC = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 5,
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "shareProcessNamespace": True,
    "securityContext": SECURITY,
    "containers": [CONTAINER],
    "volumes": [
        {"name": "workspace", "emptyDir": {}},
        {"name": "tmpfs-0", "emptyDir": IN_MEMORY},
        {"name": "tmpfs-1", "emptyDir": IN_MEMORY},
        {"name": "tmpfs-2", "emptyDir": IN_MEMORY},
    ],
    "dnsPolicy": "ClusterFirst",
}

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": SPEC}


def network(egress: Egress, *servers: str) -> str:
    return network_hash(KEY, egress, servers, INSTALLATION)


def body(**changes: Any) -> dict[str, Any]:
    return pod_of(order(**changes))


def with_metadata(**fields: Any) -> dict[str, Any]:
    return POD | {"metadata": METADATA | fields}


def with_spec(**fields: Any) -> dict[str, Any]:
    return POD | {"spec": SPEC | fields}


def with_container(**fields: Any) -> dict[str, Any]:
    return with_spec(containers=[CONTAINER | fields])


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def test_the_built_in_level() -> None:
    assert body() == POD


def test_everything_at_once() -> None:
    owners = (Owner(name="first", uid="1"), Owner(name="second", uid="2"))

    assert body(owners=owners, **EVERYTHING) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "everything-agent-dev-5rn2m5zp55i6l",
            "namespace": "team",
            "labels": LABELS
            | {"team": "a", "sandkeeper.dev/network": network(EVERYTHING["pod"].egress, *EVERYTHING["dns"])},
            "annotations": ANNOTATIONS
            | {
                "note": "yes",
                "sandkeeper.dev/setup": "true",
                "kubectl.kubernetes.io/default-container": "sandbox",
            },
            "ownerReferences": [
                {
                    "apiVersion": "sandkeeper.dev/v1alpha1",
                    "kind": "Sandbox",
                    "name": "first",
                    "uid": "1",
                    "controller": True,
                },
                {
                    "apiVersion": "sandkeeper.dev/v1alpha1",
                    "kind": "Sandbox",
                    "name": "second",
                    "uid": "2",
                },
            ],
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "shareProcessNamespace": False,
            "runtimeClassName": "gvisor",
            "nodeSelector": {"pool": "sandboxes"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
                    }
                }
            },
            "tolerations": [{"key": "sandboxes", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "low",
            "imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}],
            "securityContext": {
                "runAsNonRoot": False,
                "runAsUser": 0,
                "runAsGroup": 3000,
                "fsGroup": 3000,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "Localhost", "localhostProfile": "strict.json"},
                "appArmorProfile": {"type": "Localhost", "localhostProfile": "strict"},
            },
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["192.0.2.53", "2001:db8::53"]},
            "hostAliases": [
                {"ip": "10.0.0.1", "hostnames": ["db", "cache"]},
                {"ip": "2001:db8::1", "hostnames": ["six"]},
            ],
            "containers": [
                {
                    "name": "sandbox",
                    "image": "registry.example:5000/tools@sha256:" + "0" * 64,
                    "imagePullPolicy": "Always",
                    "command": ["sleep", "infinity"],
                    "workingDir": "/srv/work",
                    "env": [
                        {"name": "A", "value": ""},
                        {"name": "GREETING", "value": "grüß dich"},
                        {"name": "PRICE", "value": "$$5 or $$(HOME) or $$$$"},
                    ],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "privileged": False,
                        "readOnlyRootFilesystem": False,
                        "capabilities": {"drop": ["NET_RAW", "MKNOD"]},
                    },
                    "resources": {"limits": LIMITS | {"amd.com/gpu": "2"}},
                    "volumeMounts": [
                        {
                            "name": "agent",
                            "mountPath": "/agent",
                            "subPath": "agents/dev",
                            "readOnly": True,
                        },
                        {
                            "name": "bind-0",
                            "mountPath": "/data",
                            "readOnly": True,
                            "recursiveReadOnly": "IfPossible",
                        },
                        {"name": "tmpfs-1", "mountPath": "/dev/shm"},
                        {"name": "bind-1", "mountPath": "/settings", "readOnly": True},
                        {"name": "tmpfs-0", "mountPath": "/srv"},
                        {"name": "workspace", "mountPath": "/srv/work", "readOnly": True},
                        {"name": "tmpfs-2", "mountPath": "/srv/work/cache", "readOnly": True},
                        {"name": "agent", "mountPath": "/srv/work/papers", "subPath": "papers"},
                        {"name": "bind-3", "mountPath": "/srv/work/sharing", "subPath": "shared"},
                        {
                            "name": "agent",
                            "mountPath": "/srv/work/skills",
                            "subPath": "agents/dev/skills",
                            "readOnly": True,
                        },
                    ],
                }
            ],
            "initContainers": [
                {
                    "name": "prepare",
                    "image": "registry.example:5000/tools@sha256:" + "0" * 64,
                    "imagePullPolicy": "Always",
                    "command": prepare_command(order(owners=owners, **EVERYTHING)),
                    "workingDir": "/",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "privileged": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["NET_RAW", "MKNOD"]},
                    },
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    # No GPU: nothing that is prepared needs one.
                    "resources": {"limits": LIMITS},
                    "volumeMounts": [
                        {
                            "name": "agent",
                            "mountPath": "/agent",
                            "subPath": "agents/dev",
                            "readOnly": True,
                        },
                        {"name": "workspace", "mountPath": "/workspace"},
                    ],
                }
            ],
            "volumes": [
                {
                    "name": "workspace",
                    "persistentVolumeClaim": {"claimName": claim_name(KEY, INSTALLATION)},
                },
                {"name": "agent", "persistentVolumeClaim": {"claimName": "household"}},
                {"name": "bind-0", "hostPath": {"path": "/data", "type": "Directory"}},
                {"name": "bind-1", "configMap": {"name": "settings"}},
                {"name": "bind-3", "hostPath": {"path": "/srv/household", "type": "Directory"}},
                {"name": "tmpfs-0", "emptyDir": IN_MEMORY},
                {"name": "tmpfs-1", "emptyDir": {"medium": "Memory", "sizeLimit": "1073741824"}},
                {"name": "tmpfs-2", "emptyDir": IN_MEMORY},
            ],
        },
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image": "other@sha256:abc"}, {"image": "other@sha256:abc"}),
        ({"pod": PodShape(image_pull_policy="Always")}, {"imagePullPolicy": "Always"}),
        (
            {"workdir": "/srv/work"},
            {
                "workingDir": "/srv/work",
                "volumeMounts": [
                    {"name": "tmpfs-2", "mountPath": "/run"},
                    {"name": "workspace", "mountPath": "/srv/work"},
                    {"name": "tmpfs-0", "mountPath": "/tmp"},
                    {"name": "tmpfs-1", "mountPath": "/var/tmp"},
                ],
            },
        ),
        (
            {"env": {"B": "$HOME", "A": ""}},
            {"env": [{"name": "A", "value": ""}, {"name": "B", "value": "$$HOME"}]},
        ),
        (
            {"read_only_root": False},
            {"securityContext": CONTAINER_SECURITY | {"readOnlyRootFilesystem": False}},
        ),
        (
            {"cap_drop": ("NET_RAW", "MKNOD")},
            {"securityContext": CONTAINER_SECURITY | {"capabilities": {"drop": ["NET_RAW", "MKNOD"]}}},
        ),
        ({"cap_drop": ()}, {"securityContext": without(CONTAINER_SECURITY, "capabilities")}),
        ({"memory": 512 << 20}, {"resources": {"limits": {"memory": "536870912"}}}),
        ({"milli_cpus": 1500}, {"resources": {"limits": {"cpu": "1500m"}}}),
        (
            {"pod": PodShape(ephemeral_storage=1 << 30)},
            {"resources": {"limits": {"ephemeral-storage": "1073741824"}}},
        ),
        ({"gpus": "2"}, {"resources": {"limits": {"nvidia.com/gpu": "2"}}}),
        (
            {"gpus": "1", "pod": PodShape(gpu_resource="amd.com/gpu")},
            {"resources": {"limits": {"amd.com/gpu": "1"}}},
        ),
        ({"pod": PodShape(gpu_resource="amd.com/gpu")}, {}),
    ],
)
def test_a_property_of_the_container(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    made = body(**changes)

    assert made["spec"]["containers"] == [CONTAINER | expected]
    assert "workdir" in changes or made == with_container(**expected)


def test_no_environment_is_not_an_empty_list() -> None:
    assert body(env={}) == with_spec(containers=[without(CONTAINER, "env")])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"user": "2000:3000"}, {"runAsUser": 2000, "runAsGroup": 3000, "fsGroup": 3000}),
        ({"user": "2000"}, {"runAsUser": 2000, "runAsGroup": 2000, "fsGroup": 2000}),
        ({"user": "0"}, {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0, "fsGroup": 0}),
        ({"user": "1:0"}, {"runAsUser": 1, "runAsGroup": 0, "fsGroup": 0}),
        (
            {"seccomp_profile": "a.json"},
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}},
        ),
        ({"seccomp_profile": "unconfined"}, {"seccompProfile": {"type": "Unconfined"}}),
        ({"apparmor_profile": "a"}, {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}),
        ({"apparmor_profile": "unconfined"}, {"appArmorProfile": {"type": "Unconfined"}}),
    ],
)
def test_a_property_of_security(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert body(**changes) == with_spec(securityContext=SECURITY | expected)


def test_a_user_that_nothing_tells_is_the_images_own_and_never_root() -> None:
    assert body(user="auto") == with_spec(
        securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"init": False}, {"shareProcessNamespace": False}),
        (
            {"dns": ("1.1.1.1", "::1")},
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1", "::1"]}},
        ),
        (
            {"extra_hosts": ("b:10.0.0.2", "a:::1", "C:10.0.0.2")},
            {"hostAliases": [{"ip": "10.0.0.2", "hostnames": ["b", "c"]}, {"ip": "::1", "hostnames": ["a"]}]},
        ),
        ({"pod": PodShape(runtime_class_name="gvisor")}, {"runtimeClassName": "gvisor"}),
        ({"pod": PodShape(node_selector={"a": "b"})}, {"nodeSelector": {"a": "b"}}),
        ({"pod": PodShape(affinity={"podAffinity": {}})}, {"affinity": {"podAffinity": {}}}),
        (
            {"pod": PodShape(tolerations=({"key": "a"}, {"key": "b"}))},
            {"tolerations": [{"key": "a"}, {"key": "b"}]},
        ),
        ({"pod": PodShape(priority_class_name="low")}, {"priorityClassName": "low"}),
        (
            {"pod": PodShape(image_pull_secrets=("a", "b"))},
            {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
        ),
    ],
)
def test_a_property_of_its_surroundings(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert body(**changes) == with_spec(**expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"container_prefix": "other-"}, {"name": "other-agent-dev-5rn2m5zp55i6l"}),
        ({"setup_command": "make"}, {"annotations": ANNOTATIONS | {"sandkeeper.dev/setup": "true"}}),
        ({"pod": PodShape(labels={"team": "a"})}, {"labels": LABELS | {"team": "a"}}),
        ({"pod": PodShape(labels=dict.fromkeys(LABELS, "forged"))}, {}),
        ({"pod": PodShape(annotations={"note": "yes"})}, {"annotations": ANNOTATIONS | {"note": "yes"}}),
        ({"pod": PodShape(annotations=dict.fromkeys(ANNOTATIONS, "forged"))}, {}),
        (
            {"pod": PodShape(egress=Egress(dns=True))},
            {"labels": LABELS | {"sandkeeper.dev/network": network(Egress(dns=True))}},
        ),
        (
            {"owners": (Owner(name="one", uid="1"),)},
            {
                "ownerReferences": [
                    {
                        "apiVersion": "sandkeeper.dev/v1alpha1",
                        "kind": "Sandbox",
                        "name": "one",
                        "uid": "1",
                        "controller": True,
                    }
                ]
            },
        ),
    ],
)
def test_a_property_of_what_it_is_known_by(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert body(**changes) == with_metadata(**expected)


@pytest.mark.parametrize(
    ("text", "size", "is_read_only"),
    [
        ("/x", TMPFS_SIZE, False),
        ("/x:size=64m", 64 << 20, False),
        ("/x:size=1g", 1 << 30, False),
        ("/x:size=65536", 65536, False),
        ("/x:size=1G,size=2K", 2048, False),
        ("/x:size=0", TMPFS_SIZE, False),
        ("/x:size=50%", TMPFS_SIZE, False),
        ("/x:size=9999999999999999999999", TMPFS_SIZE, False),
        ("/x:ro", TMPFS_SIZE, True),
        ("/x:ro,size=1m", 1 << 20, True),
        ("/x:ro,rw", TMPFS_SIZE, False),
        ("/x:rw,exec,nosuid,nodev", TMPFS_SIZE, False),
    ],
)
def test_a_tmpfs_is_a_bounded_volume_in_memory(text: str, size: int, *, is_read_only: bool) -> None:
    mount = {"name": "tmpfs-0", "mountPath": "/x"} | ({"readOnly": True} if is_read_only else {})

    assert body(tmpfs=(text,), workdir="/y") == with_spec(
        volumes=[
            {"name": "workspace", "emptyDir": {}},
            {"name": "tmpfs-0", "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}},
        ],
        containers=[
            CONTAINER
            | {"workingDir": "/y", "volumeMounts": [mount, {"name": "workspace", "mountPath": "/y"}]},
        ],
    )


@pytest.mark.parametrize(
    ("workspace", "source", "sub_path"),
    [
        (EmptyDirVolume(), {"emptyDir": {}}, {}),
        (EmptyDirVolume(1 << 30), {"emptyDir": {"sizeLimit": "1073741824"}}, {}),
        (
            ClaimVolume("team-work"),
            {"persistentVolumeClaim": {"claimName": "team-work"}},
            {"subPath": "agent-dev-5rn2m5zp55i6l"},
        ),
        (
            ClaimTemplate(size=1 << 30),
            {"persistentVolumeClaim": {"claimName": "sandkeeper-agent-dev-5rn2m5zp55i6l"}},
            {},
        ),
        (
            HostPathVolume("/srv/sandboxes"),
            {"hostPath": {"path": "/srv", "type": "Directory"}},
            {"subPath": "sandboxes/agent-dev-5rn2m5zp55i6l"},
        ),
        # A root of its own: its directories get the mode of that one.
        (
            HostPathVolume("/srv/household"),
            {"hostPath": {"path": "/srv/household", "type": "Directory"}},
            {"subPath": "agent-dev-5rn2m5zp55i6l"},
        ),
    ],
)
def test_where_the_workspace_is_kept(
    workspace: Any, source: dict[str, Any], sub_path: dict[str, Any]
) -> None:
    assert body(tmpfs=(), workspace=workspace) == with_spec(
        volumes=[{"name": "workspace", **source}],
        containers=[
            CONTAINER | {"volumeMounts": [{"name": "workspace", "mountPath": "/workspace", **sub_path}]}
        ],
    )


@pytest.mark.parametrize(
    ("tmpfs", "workdir", "paths"),
    [
        (("/workspace",), "/workspace", {"/workspace": "tmpfs-0"}),
        (("/a/b", "/a"), "/a/b/c", {"/a": "tmpfs-1", "/a/b": "tmpfs-0", "/a/b/c": "workspace"}),
        (("/a/b/c", "/a-b"), "/a/b", {"/a/b": "workspace", "/a/b/c": "tmpfs-0", "/a-b": "tmpfs-1"}),
        ((), "/", {}),
    ],
)
def test_a_parent_is_mounted_before_what_lies_in_it(
    tmpfs: tuple[str, ...], workdir: str, paths: dict[str, str]
) -> None:
    spec = body(tmpfs=tmpfs, workdir=workdir)["spec"]
    mounts = spec["containers"][0].get("volumeMounts", [])

    assert [(mount["mountPath"], mount["name"]) for mount in mounts] == list(paths.items())
    assert {volume["name"] for volume in spec.get("volumes", [])} == set(paths.values())


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_pod_has(name: str) -> None:
    assert body(**{name: REFUSED[name]}) == POD


def test_every_property_is_accounted_for() -> None:
    """A new property has to become a part of the Pod, or be named as one that does not."""
    assert set(vars(order().config)) == {"backend"} | set(EVERYTHING) | set(REFUSED)
    assert all(body(**{name: value}) != POD for name, value in EVERYTHING.items())


def test_what_prepares_gets_its_program_as_it_is() -> None:
    made = body(**EVERYTHING)["spec"]["initContainers"][0]["command"]

    assert [expanded(word, {"HOME": "/"}) for word in made] == prepare_command(order(**EVERYTHING))
    odd = body(agent=EVERYTHING["agent"], binds=("/srv/x:/workspace/$(A)$$/ü",))["spec"]["initContainers"][0]
    assert json.loads(expanded(odd["command"][-1], {"A": "B"}))["directories"] == ["$(A)$$/ü", "skills"]


def test_every_property_of_the_pod_section_is_accounted_for() -> None:
    everything = EVERYTHING["pod"]

    for name in vars(PodShape()):
        # A resource is one of GPUs that are asked for.
        changed = body(gpus="1", pod=PodShape(**{name: getattr(everything, name)}))
        assert changed != body(gpus="1"), name


def expanded(value: str, env: Mapping[str, str]) -> str:
    """Do what the kubelet does to a value (third_party/forked/golang/expansion/expand.go)."""
    done, at = [], 0
    while at < len(value):
        if value[at] != "$" or at + 1 == len(value):
            done.append(value[at])
            at += 1
        elif value[at + 1] == "$":
            done.append("$")
            at += 2
        elif value[at + 1] == "(" and (end := value.find(")", at + 2)) != -1:
            name = value[at + 2 : end]
            done.append(env.get(name, f"$({name})"))
            at = end + 1
        else:
            done.append(value[at : at + 2])
            at += 2
    return "".join(done)


def test_the_model_of_the_kubelet_expands() -> None:
    # From the tests of Kubernetes.
    env = {"VAR_A": "A"}

    assert expanded("foo-$(VAR_A)-bar", env) == "foo-A-bar"
    assert expanded("$$(VAR_A)", env) == "$(VAR_A)"
    assert expanded("$$$(VAR_A)", env) == "$A"
    assert expanded("$(VAR_NO)", env) == "$(VAR_NO)"
    assert expanded("$(VAR_A", env) == "$(VAR_A"
    assert expanded("$x$", env) == "$x$"


@given(env=st.dictionaries(st.sampled_from("ABC"), st.text(st.sampled_from("$()ABC ")) | st.text()))
@example(env={"A": "$(B)", "B": "secret"})
@example(env={"A": "$$(B)$", "B": "$"})
def test_a_variable_arrives_as_it_was_written(env: dict[str, str]) -> None:
    arrived: dict[str, str] = {}
    # Each may refer to those before it.
    for variable in body(env=env)["spec"]["containers"][0].get("env", []):
        arrived[variable["name"]] = expanded(variable["value"], arrived)

    assert arrived == env


@given(prefix=TEXT | CONFUSING, key=KEYS, setup=st.none() | st.just("make"))
@example(prefix="", key=RuntimeKey("", "", "", ""), setup=None)
@example(prefix="sk-", key=RuntimeKey("n", "u", "p", "agent:" + "é" * 500), setup=None)
def test_names_and_labels_are_valid_whatever_the_key(prefix: str, key: RuntimeKey, setup: str | None) -> None:
    for workspace in (ClaimVolume("x"), ClaimTemplate(size=1)):
        wanted = order(key, container_prefix=prefix, setup_command=setup, workspace=workspace)
        made = pod_of(wanted)

        assert DNS_LABEL.fullmatch(made["metadata"]["name"])
        assert all(LABEL_VALUE.fullmatch(value) for value in made["metadata"]["labels"].values())
        assert all(type(name) is str for name in made["metadata"]["annotations"])
        mount = made["spec"]["containers"][0]["volumeMounts"][-1]
        assert DNS_LABEL.fullmatch(mount.get("subPath", "none"))
        assert key_from_pod(made["metadata"], INSTALLATION) == key


def identity(key: RuntimeKey, installation: str) -> list[str]:
    made = pod_of(order(key, workspace=ClaimVolume("x")), installation)
    return [
        made["metadata"]["name"],
        made["metadata"]["labels"]["sandkeeper.dev/key-hash"],
        made["spec"]["containers"][0]["volumeMounts"][-1]["subPath"],
        claim_name(key, installation),
    ]


@given(one=st.tuples(KEYS, INSTALLATIONS), other=st.tuples(KEYS, INSTALLATIONS))
@example(
    one=(RuntimeKey("a", "u", "b-c", "shared"), INSTALLATION),
    other=(RuntimeKey("a", "u", "b", "c-shared"), INSTALLATION),
)
def test_no_two_keys_share_a_name_or_a_directory(
    one: tuple[RuntimeKey, str], other: tuple[RuntimeKey, str]
) -> None:
    if one != other:
        assert not set(identity(*one)) & set(identity(*other))


def test_a_pod_is_plain_json() -> None:
    made = body(**EVERYTHING)

    assert json.loads(json.dumps(made)) == made
