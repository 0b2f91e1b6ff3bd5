"""The hash changes with what shapes a runtime, and with nothing else."""

# ruff: noqa: S108 - the paths lie inside a sandbox

import json
import re
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import made_from, operator, pods, policy, resolved
from sandkeeper.api.policy import Backend
from sandkeeper.api.workspace import Access
from sandkeeper.config.canonical import (
    EPOCH,
    NOT_SHAPING,
    POD_NOT_SHAPING,
    canonical_json,
    config_hash,
    parse_epoch,
)
from sandkeeper.config.pod import (
    DEFAULT_POD,
    ClaimTemplate,
    ClaimVolume,
    Egress,
    EgressPort,
    EgressRule,
    EmptyDirVolume,
    HostPathVolume,
    PodShape,
    SharedMount,
    WorkspaceVolume,
)
from sandkeeper.config.resolution import RuntimeConfig, UlimitValue
from sandkeeper.config.sources import AgentSource, ClaimSource, ConfigMapSource, HostSource

DEFAULT = made_from(resolved())

FULL_POD = PodShape(
    runtime_class_name="gvisor",
    node_selector={"pool": "sandboxes"},
    affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
    tolerations=({"key": "sandboxes", "effect": "NoExecute", "tolerationSeconds": 0},),
    priority_class_name="low",
    image_pull_secrets=("registry",),
    image_pull_policy="Always",
    labels={"team": "agents"},
    annotations={"note": "ä"},
    ephemeral_storage=2**30,
    gpu_resource="amd.com/gpu",
    mounts=(
        SharedMount(path="/data", source=ClaimSource(name="shared", sub_path="data"), read_only=False),
        SharedMount(path="/facts", source=ConfigMapSource("facts")),
    ),
    egress=Egress(
        dns=True,
        internet=True,
        to=(
            EgressRule("192.0.2.0/24", (EgressPort("TCP", 443), EgressPort("UDP", 1, 2))),
            EgressRule("::/0"),
        ),
    ),
)
"""No field has its default."""

FULL_ON_DOCKER = replace(
    DEFAULT,
    backend=Backend.POD,
    image="registry.example/team/tools:2@sha256:" + "0" * 64,
    container_prefix="team-",
    workdir="/work",
    read_only_root=False,
    tmpfs=("/tmp:size=64m",),
    network="lan",
    user="auto",
    cap_drop=("NET_RAW", "MKNOD"),
    env={"LANG": "de_DE.UTF-8", "Ä": "Zoë 😀"},
    setup_command="apt-get update\n",
    setup_timeout_seconds=60,
    pids_limit=256,
    memory=512 * 1024**2,
    memory_swap=-1,
    milli_cpus=1500,
    gpus="device=0,1",
    ulimits={"nofile": UlimitValue(1024, 4096), "core": UlimitValue(0, -1)},
    seccomp_profile="strict",
    apparmor_profile="ours",
    dns=("192.0.2.53", "2001:db8::53"),
    extra_hosts=("db:192.0.2.7",),
    binds=("/srv/a:/a:ro", "/srv/b:/b:rw"),
    init=False,
    image_fallback=True,
    access=Access.RO,
    agent=HostSource("/srv/agents/dev"),
    workspace=HostPathVolume("/srv/sandboxes"),
)
"""No field has its default, but for those of Pods."""

FULL = replace(FULL_ON_DOCKER, pod=FULL_POD)
"""No field has its default."""

ANOTHER: dict[str, Any] = {
    "backend": Backend.POD,
    "image": "x",
    "container_prefix": "y-",
    "workdir": "/y",
    "read_only_root": False,
    "tmpfs": ("/run", "/tmp", "/var/tmp"),
    "network": "y",
    "user": "1000:1001",
    "cap_drop": (),
    "env": {},
    "setup_command": "true",
    "pids_limit": 1,
    "memory": 1,
    "memory_swap": -1,
    "milli_cpus": 1,
    "gpus": "1",
    "ulimits": {"nofile": UlimitValue(1, 1)},
    "seccomp_profile": "y",
    "apparmor_profile": "y",
    "dns": ("192.0.2.1",),
    "extra_hosts": ("y:192.0.2.1",),
    "binds": ("/y:/y:rw",),
    "init": False,
    "pod": PodShape(runtime_class_name="y"),
    "access": Access.RW,
    "agent": ConfigMapSource("y"),
    "workspace": EmptyDirVolume(1),
}
NAMES = [field.name for field in fields(RuntimeConfig)]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_either_shapes_the_runtime_or_is_named_as_one_that_does_not(name: str) -> None:
    if name in NOT_SHAPING:
        assert config_hash(replace(DEFAULT, **{name: getattr(FULL, name)})) == config_hash(DEFAULT)
    else:
        assert config_hash(replace(DEFAULT, **{name: ANOTHER[name]})) != config_hash(DEFAULT)
        assert config_hash(replace(FULL, **{name: getattr(DEFAULT, name)})) != config_hash(FULL)


def test_all_single_changes_differ_from_each_other() -> None:
    hashes = {config_hash(replace(DEFAULT, **{name: value})) for name, value in ANOTHER.items()}

    assert len(hashes) == len(ANOTHER)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(DEFAULT, "v2-dac6e20b733f19ba", id="built-in"),
        pytest.param(replace(DEFAULT, backend=Backend.POD), "v2-7bd1c90d7f2d456a", id="built-in, as a Pod"),
        pytest.param(replace(DEFAULT, memory=512 * 1024**2), "v2-db72cfe0bb71f0bf", id="one field"),
        pytest.param(FULL_ON_DOCKER, "v2-d7f52349e8ab237f", id="every field but those of Pods"),
        pytest.param(FULL, "v2-68ab1f4f73f36186", id="every field"),
        pytest.param(
            replace(DEFAULT, backend=Backend.POD, pod=PodShape(egress=Egress(dns=True))),
            "v2-a88249a6367bcab4",
            id="a Pod that may ask for names",
        ),
        pytest.param(
            replace(DEFAULT, backend=Backend.POD, workspace=ClaimTemplate(size=1)),
            "v2-26bb5bb69cf3d35e",
            id="a Pod with a claim",
        ),
        pytest.param(
            replace(DEFAULT, backend=Backend.POD, workspace=HostPathVolume("/srv")),
            "v2-1b41d2a6c34ce128",
            id="a Pod with a directory of its node",
        ),
        pytest.param(
            replace(DEFAULT, access=Access.RW, agent=HostSource("/srv/agents/dev")),
            "v2-ab67ba45c1a2105b",
            id="the agent's own directory",
        ),
        pytest.param(
            replace(
                DEFAULT,
                backend=Backend.POD,
                access=Access.RO,
                agent=ClaimSource(name="agents", sub_path="dev"),
                workspace=ClaimTemplate(size=1),
            ),
            "v2-417d85342c4c53e8",
            id="an agent's directory in a claim, and a copy in another",
        ),
    ],
)
def test_golden_hashes(config: RuntimeConfig, expected: str) -> None:
    # These stand on labels of runtimes that exist. If one changes, every sandbox like it is replaced: either undo the
    # change or, where it is meant, raise the epoch.
    assert config_hash(config) == expected


def test_the_canonical_form_leaves_out_what_is_built_in() -> None:
    assert canonical_json(DEFAULT) == '{"backend":"docker"}'
    assert canonical_json(replace(DEFAULT, memory=1, ulimits={"core": UlimitValue(0, -1)})) == (
        '{"backend":"docker","memory":1,"ulimits":{"core":[0,-1]}}'
    )


def test_the_canonical_form_is_ascii_and_sorted() -> None:
    text = canonical_json(FULL)
    read = json.loads(text)

    assert text.isascii()
    assert " " not in text.replace("apt-get update", "").replace("Zo\\u00eb ", "")
    assert list(read) == sorted(read)
    assert set(read) == set(NAMES) - NOT_SHAPING


@pytest.mark.parametrize("name", [field.name for field in fields(PodShape)])
def test_every_field_of_pods_either_shapes_them_or_is_named_as_one_that_does_not(name: str) -> None:
    one: dict[str, Any] = {name: getattr(FULL_POD, name)}
    none: dict[str, Any] = {name: getattr(DEFAULT_POD, name)}
    assert one != none

    alone = config_hash(replace(DEFAULT, pod=replace(DEFAULT_POD, **one)))
    without = config_hash(replace(FULL, pod=replace(FULL_POD, **none)))

    assert (alone == config_hash(DEFAULT)) is (name in POD_NOT_SHAPING)
    assert (without == config_hash(FULL)) is (name in POD_NOT_SHAPING)


def test_within_a_pod_too_what_is_built_in_is_left_out() -> None:
    shape = PodShape(
        image_pull_policy="Never", egress=Egress(to=(EgressRule("::/0", (EgressPort("TCP", 1),)),))
    )

    assert canonical_json(replace(DEFAULT, pod=shape)) == (
        '{"backend":"docker","pod":{"egress":{"to":[{"cidr":"::/0","ports":[{"port":1,"protocol":"TCP"}]}]}}}'
    )


VOLUMES: list[WorkspaceVolume] = [
    EmptyDirVolume(),
    EmptyDirVolume(1),
    EmptyDirVolume(2),
    ClaimVolume("a"),
    ClaimVolume("b"),
    ClaimTemplate(size=1),
    HostPathVolume("a"),
    HostPathVolume("/a"),
]


def test_no_two_volumes_hash_alike() -> None:
    hashes = {config_hash(replace(DEFAULT, workspace=volume)) for volume in VOLUMES}

    assert len(hashes) == len(VOLUMES)


AGENTS: list[AgentSource] = [
    HostSource("a"),
    HostSource("/a"),
    ClaimSource(name="a"),
    ClaimSource(name="a", sub_path="b"),
    ConfigMapSource("a"),
]


def test_no_two_workspaces_of_agents_hash_alike() -> None:
    hashes = {config_hash(replace(DEFAULT, agent=agent)) for agent in AGENTS}

    assert len(hashes) == len(AGENTS)


def test_where_a_copy_would_be_kept_does_not_matter_where_there_is_none() -> None:
    agent = {"hostPath": {"path": "/srv/agents/{agentId}"}}
    operated = operator(ceilings={"bindRoots": ["/srv"]})
    volumes: list[dict[str, Any]] = [{}, {"volume": {"hostPath": {"path": "/srv/copies"}}}]

    hashes = {
        resolved(
            under=policy(workspace={"access": "rw", "agent": agent, **volume}), operated=operated
        ).config_hash
        for volume in volumes
    }

    assert len(hashes) == 1
    assert None not in hashes


def test_a_claim_that_is_there_stays_whatever_its_template_says() -> None:
    templates = [
        ClaimTemplate(size=1),
        ClaimTemplate(size=2, storage_class="", access_modes=("ReadWriteMany",), retain=True),
    ]

    assert len({config_hash(replace(DEFAULT, workspace=template)) for template in templates}) == 1


SAID = st.fixed_dictionaries(
    {},
    optional={
        "image": st.sampled_from(["x", "y"]),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from(["1", "2"])),
        "binds": st.lists(st.sampled_from(["/srv/a:/a", "/srv/b:/b", "/srv/b:/a:rw"]), max_size=3),
        "tmpfs": st.lists(st.sampled_from(["/tmp", "/run:size=1m"]), max_size=2, unique=True),
        "memory": st.sampled_from(["512m", "1g", "1024m"]),
        "cpus": st.sampled_from([0.5, 1, 1.0]),
        "init": st.booleans(),
        "imageFallback": st.booleans(),
    },
)
"""Container sections: few values, so that two of them often come to the same."""


def of_levels(policys: dict[str, Any], agents: dict[str, Any]) -> RuntimeConfig:
    under = policy(container=policys, agents=[{"id": "dev", "container": agents}])
    return made_from(resolved(under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})))


@given(SAID, SAID)
def test_two_hash_alike_exactly_if_the_same_would_be_made(one: dict[str, Any], other: dict[str, Any]) -> None:
    made, made_too = of_levels(one, {}), of_levels(other, {})
    same = replace(made, **{name: getattr(made_too, name) for name in NOT_SHAPING}) == made_too

    assert (config_hash(made) == config_hash(made_too)) == same


@given(SAID, SAID)
def test_who_says_it_does_not_matter(one: dict[str, Any], other: dict[str, Any]) -> None:
    """The policy for everybody, or for this agent; or half of it each, where they do not speak of the same."""
    apart = {name: value for name, value in other.items() if name not in one}

    assert of_levels(one, {}) == of_levels({}, one)
    assert of_levels(one, apart) == of_levels({**one, **apart}, {}) == of_levels(apart, one)


@given(st.permutations(list(FULL.env.items())), st.permutations(list(FULL.ulimits.items())))
def test_the_order_of_keys_does_not_matter(
    env: list[tuple[str, str]], ulimits: list[tuple[str, UlimitValue]]
) -> None:
    assert config_hash(replace(FULL, env=dict(env), ulimits=dict(ulimits))) == config_hash(FULL)


@pytest.mark.parametrize("name", ["tmpfs", "cap_drop", "dns", "binds"])
def test_the_order_of_a_list_does(name: str) -> None:
    config = replace(FULL, tmpfs=("/a", "/b"))
    turned: dict[str, Any] = {name: tuple(reversed(getattr(config, name)))}

    assert config_hash(replace(config, **turned)) != config_hash(config)


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
)
def test_environments_hash_alike_exactly_if_they_are(one: dict[str, str], other: dict[str, str]) -> None:
    same = config_hash(replace(DEFAULT, env=one)) == config_hash(replace(DEFAULT, env=other))

    assert same == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"memory": "1g"}, {"memory": "1024Mi"}),
        ({"cpus": 1}, {"cpus": 1.0}),
        ({"workdir": "/a/"}, {"workdir": "/a"}),
        ({"binds": ["/srv/a:/a"]}, {"binds": ["/srv//a/:/a:ro"]}),
        ({"binds": ["/srv/b:/a", "/srv/a:/a"]}, {"binds": ["/srv/a:/a:ro"]}),
        ({"capDrop": ["CAP_NET_RAW", "ALL"]}, {"capDrop": ["NET_RAW", "ALL"]}),
        ({"setupTimeoutSeconds": 5}, {}),
        ({"imageFallback": True}, {}),
        ({"env": {"LANG": "C.UTF-8"}, "user": "1000:1000", "init": True}, {}),
        ({"user": "1000"}, {}),
        ({"user": "0500:07"}, {"user": "500:7"}),
        ({"env": {"GH_TOKEN": "left out"}}, {}),
        ({"allowSecretEnv": ["GH_TOKEN"]}, {}),
    ],
)
def test_another_spelling_replaces_nobody(one: dict[str, Any], other: dict[str, Any]) -> None:
    operated = operator(ceilings={"bindRoots": ["/srv"]})

    hashes = {resolved(under=policy(container=said), operated=operated).config_hash for said in (one, other)}

    assert len(hashes) == 1
    assert None not in hashes


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NEAR = {"topologyKey": "zone", "labelSelector": {}}
_AWAY = {"topologyKey": "host", "labelSelector": {"matchLabels": {"a": "1", "b": "2"}}}
_TAINT = {"key": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"ephemeralStorage": "1g"}, {"ephemeralStorage": "1024Mi"}),
        ({"tolerations": [_TAINT, {"key": "b"}, _TAINT]}, {"tolerations": [{"key": "b"}, _TAINT]}),
        ({"tolerations": [{**_TAINT, "operator": "Equal", "value": ""}]}, {"tolerations": [_TAINT]}),
        ({"egress": {"to": [{"cidr": "2001:DB8::/32"}]}}, {"egress": {"to": [{"cidr": "2001:db8::/32"}]}}),
        (
            {
                "egress": {
                    "to": [{"cidr": "::/0"}, {"cidr": "0.0.0.0/0", "ports": [{"port": 2}, {"port": 1}]}]
                }
            },
            {
                "egress": {
                    "to": [
                        {"cidr": "0.0.0.0/0", "ports": [{"port": 1}, {"port": 1, "endPort": 1}]},
                        {"cidr": "0.0.0.0/0", "ports": [{"port": 2, "protocol": "TCP"}]},
                        {"cidr": "::/0"},
                    ],
                    "dns": False,
                }
            },
        ),
        (
            {"egress": {"to": [{"cidr": "::/0", "ports": [{"port": 1}]}, {"cidr": "::/0"}]}},
            {"egress": {"to": [{"cidr": "::/0"}]}},
        ),
        (
            {"egress": {"to": [{"cidr": "::/0"}, {"cidr": "::/0", "ports": [{"port": 1}]}]}},
            {"egress": {"to": [{"cidr": "::/0"}]}},
        ),
        (
            {"affinity": {"podAffinity": {_REQUIRED: [_NEAR, _AWAY]}, "nodeAffinity": {}}},
            {
                "affinity": {
                    "podAffinity": {_REQUIRED: [_AWAY, {**_NEAR, "namespaces": []}]},
                    "podAntiAffinity": {_REQUIRED: []},
                }
            },
        ),
        ({"affinity": {}, "tolerations": [], "labels": {}, "egress": {"to": []}}, {}),
        ({"imagePullSecrets": ["a"], "imagePullPolicy": "Always"}, {}),
        ({"gpuResource": "amd.com/gpu"}, {}),
    ],
)
def test_another_spelling_replaces_no_pod(one: dict[str, Any], other: dict[str, Any]) -> None:
    operated = pods(ceilings={"egress": ["0.0.0.0/0", "::/0"]})

    hashes = {resolved(under=policy(pod=said), operated=operated).config_hash for said in (one, other)}

    assert len(hashes) == 1
    assert None not in hashes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # An empty selector takes every Pod, an absent one takes none.
        ({"topologyKey": "a"}, {"topologyKey": "a", "labelSelector": {}}),
        ({"topologyKey": "a"}, {"topologyKey": "a", "namespaceSelector": {}}),
    ],
)
def test_what_selects_all_is_not_taken_for_what_selects_none(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    hashes = {
        resolved(
            under=policy(pod={"affinity": {"podAffinity": {_REQUIRED: [term]}}}), operated=pods()
        ).config_hash
        for term in (one, other)
    }

    assert len(hashes) == 2
    assert None not in hashes


TARGETS = [
    {"cidr": "0.0.0.0/0", "ports": [{"port": 443}]},
    {"cidr": "0.0.0.0/0", "ports": [{"port": 443, "endPort": 500}, {"port": 53, "protocol": "UDP"}]},
    {"cidr": "10.0.0.0/8"},
    {"cidr": "10.0.0.0/16", "ports": [{"port": 1, "protocol": "SCTP"}]},
    {"cidr": "::/0", "ports": [{"port": 443}]},
]
TAINTS = [{"key": "a"}, {"key": "a", "effect": "NoSchedule"}, {"operator": "Exists"}]


@given(st.permutations(TARGETS), st.permutations(TAINTS), st.permutations(["a", "b", "c"]))
def test_the_order_of_what_adds_up_does_not_matter(
    targets: list[Any], taints: list[Any], values: list[str]
) -> None:
    def hash_of(targets: list[Any], taints: list[Any], values: list[str]) -> str | None:
        expression = {"key": "pool", "operator": "NotIn", "values": values}
        term = {"topologyKey": "host", "labelSelector": {"matchExpressions": [expression]}}
        said = {
            "egress": {"to": targets},
            "tolerations": taints,
            "affinity": {"podAntiAffinity": {_REQUIRED: [term]}},
        }
        operated = pods(ceilings={"egress": ["0.0.0.0/0", "::/0"]})
        return resolved(under=policy(pod=said), operated=operated).config_hash

    assert hash_of(targets, taints, values) == hash_of(TARGETS, TAINTS, ["a", "b", "c"]) is not None
    assert hash_of(targets[1:], taints, values) != hash_of(targets, taints, values)
    assert hash_of(targets, taints[1:], values) != hash_of(targets, taints, values)
    assert hash_of(targets, taints, values[1:]) != hash_of(targets, taints, values)


def test_what_is_for_pods_replaces_no_container() -> None:
    under = policy(
        pod={"runtimeClassName": "gvisor", "labels": {"a": "b"}, "egress": {"internet": True}},
        workspace={"volume": {"emptyDir": {}}},
    )

    assert resolved(under=under).config_hash == resolved().config_hash


def test_sections_that_do_not_shape_the_runtime_do_not_count() -> None:
    under = policy(
        prune={"idleSeconds": 1}, hotWindowSeconds=1, rollout={"paused": True}, limits={"maxHoldSeconds": 1}
    )

    assert resolved(under=under).config_hash == resolved().config_hash


def test_the_owner_of_the_workspace_is_hashed_as_written() -> None:
    assert '"user":"auto"' in canonical_json(replace(DEFAULT, user="auto"))


def test_a_hash_fits_into_a_label_and_tells_its_epoch() -> None:
    assert re.fullmatch(rf"v{EPOCH}-[0-9a-f]{{16}}", config_hash(DEFAULT))
    assert parse_epoch(config_hash(FULL)) == EPOCH


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("v1-0123456789abcdef", 1),
        ("v12-0123456789abcdef", 12),
        ("v0-0123456789abcdef", None),
        ("v01-0123456789abcdef", None),
        ("v-0123456789abcdef", None),
        ("v1-0123456789abcde", None),
        ("v1-0123456789abcdef0", None),
        ("v1-0123456789ABCDEF", None),
        ("v1-0123456789abcdef\n", None),
        ("v\u0661-0123456789abcdef", None),
        ("1-0123456789abcdef", None),
        ("", None),
    ],
)
def test_what_is_a_hash_of_ours(text: str, epoch: int | None) -> None:
    assert parse_epoch(text) == epoch
