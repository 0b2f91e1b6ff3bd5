"""The operator's ceilings: nothing reaches the host unless the installer allows it."""

from typing import Any

import pytest

from config.examples import ceilings, container, made_from, operator, pods, policy, resolved
from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.policy import Backend
from sandkeeper.api.workspace import Workspace
from sandkeeper.config.builtin import BUILT_IN
from sandkeeper.config.capabilities import DEFAULT, KNOWN
from sandkeeper.config.ceilings import check, is_user_allowed
from sandkeeper.config.levels import merge_containers
from sandkeeper.config.operator import OperatorConfig


def over(said: ContainerTemplate | dict[str, Any], **allowed: Any) -> list[str]:
    """What is above the ceilings, over the built-in level."""
    if isinstance(said, dict):
        said = container(**said)
    problems = list(check(merge_containers([BUILT_IN.container, said]), Workspace(), ceilings(**allowed)))
    assert {problem.reason for problem in problems} <= {Reason.CEILING_EXCEEDED, Reason.BIND_REFUSED}
    return [problem.message for problem in problems]


def unchecked(**fields: Any) -> ContainerTemplate:
    """A section that passed admission by, in the spelling of Python."""
    return ContainerTemplate.model_construct(**fields)


ALLOWED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"binds": ["/srv/a:/a"]}, {"bindRoots": ["/srv"]}),
    ({"network": "bridge"}, {"networks": ["bridge"]}),
    ({"user": "0:0"}, {"users": ["0"]}),
    ({"user": "00"}, {"users": ["0"]}),
    ({"user": "1000:0"}, {"users": ["0"]}),
    ({"capDrop": []}, {"capabilities": ["ALL"]}),
    ({"capDrop": []}, {"capabilities": list(DEFAULT)}),
    ({"capDrop": [name for name in DEFAULT if name != "CHOWN"]}, {"capabilities": ["CHOWN"]}),
    ({"capDrop": [f"CAP_{name}" for name in DEFAULT if name != "KILL"]}, {"capabilities": ["CAP_KILL"]}),
    ({"gpus": "all"}, {"gpus": True}),
    ({"apparmorProfile": "ours"}, {"apparmorProfiles": ["ours"]}),
    (
        {"network": "container:x", "dangerouslyAllowContainerNamespaceJoin": True},
        {"breakGlass": ["containerNamespaceJoin"]},
    ),
    (
        {"seccompProfile": "unconfined", "dangerouslyAllowUnconfinedSeccomp": True},
        {"breakGlass": ["unconfinedSeccomp"]},
    ),
    (
        {"apparmorProfile": "Unconfined", "dangerouslyAllowUnconfinedApparmor": True},
        {"breakGlass": ["unconfinedApparmor"]},
    ),
]


@pytest.mark.parametrize(("said", "allowed"), ALLOWED)
def test_denied_by_default_and_allowed_by_the_installer(
    said: dict[str, Any], allowed: dict[str, Any]
) -> None:
    (message,) = over(said)

    field = next(iter(said))
    assert message.startswith(f"container.{field}")
    assert "ask the installer to" in message
    if field != "binds":
        assert f" is not within the operator's ceilings.{next(iter(allowed))}: none; " in message
    assert f"ceilings.{next(iter(allowed))}" in message
    assert over(said, **allowed) == []


@pytest.mark.parametrize(("said", "allowed"), ALLOWED)
def test_what_is_allowed_elsewhere_does_not_help(said: dict[str, Any], allowed: dict[str, Any]) -> None:
    others: dict[str, Any] = {}
    for _, other in ALLOWED:
        others |= {name: value for name, value in other.items() if name not in allowed}

    assert over(said, **others)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"network": "none"},
        {"user": "auto"},
        {"user": "1"},
        {"capDrop": ["ALL"]},
        {"capDrop": ["ALL", "CHOWN"]},
        {"capDrop": list(DEFAULT)},
        {"apparmorProfile": "docker-default"},
        {"seccompProfile": "ours.json"},
        {"extraHosts": ["host:host-gateway"]},
        {"binds": []},
    ],
)
def test_what_needs_no_permission(said: dict[str, Any]) -> None:
    assert over(said) == []


@pytest.mark.parametrize("network", ["host", "HOST", "Host"])
def test_the_hosts_network_is_never_given(network: str) -> None:
    generous = {"networks": ["host", network], "breakGlass": ["containerNamespaceJoin"]}

    (message,) = over(unchecked(network=network, dangerously_allow_container_namespace_join=True), **generous)

    assert "never given" in message


@pytest.mark.parametrize(
    "network", ["default", "Bridge", "bridge2", "None", "ns:/proc/1/ns/net", "slirp4netns:x", "host:x"]
)
def test_another_spelling_is_another_network(network: str) -> None:
    assert over(unchecked(network=network), networks=["bridge"])


@pytest.mark.parametrize("network", ["ns:/proc/1/ns/net", "slirp4netns:x"])
def test_a_network_of_another_kind_cannot_even_be_listed(network: str) -> None:
    assert over(unchecked(network=network), networks=[network])


@pytest.mark.parametrize("network", ["container:x", "Container:x", "container:"])
@pytest.mark.parametrize(("said", "glass"), [(True, []), (False, ["containerNamespaceJoin"]), (None, [])])
def test_another_containers_network_needs_both_keys(
    *, network: str, said: bool | None, glass: list[str]
) -> None:
    joined = unchecked(network=network, dangerously_allow_container_namespace_join=said)

    messages = over(joined, networks=[network], breakGlass=glass)

    assert len(messages) == (not said) + (not glass)


@pytest.mark.parametrize("profile", ["unconfined", "UNCONFINED", "Unconfined"])
@pytest.mark.parametrize(
    ("field", "key", "glass"),
    [
        ("seccomp_profile", "dangerously_allow_unconfined_seccomp", "unconfinedSeccomp"),
        ("apparmor_profile", "dangerously_allow_unconfined_apparmor", "unconfinedApparmor"),
    ],
)
def test_unconfined_needs_both_keys_in_any_case(profile: str, field: str, key: str, glass: str) -> None:
    generous = {"apparmorProfiles": [profile]}

    assert over(unchecked(**{field: profile}), **generous)
    assert over(unchecked(**{field: profile, key: True}), **generous)
    assert over(unchecked(**{field: profile}), breakGlass=[glass], **generous)
    assert not over(unchecked(**{field: profile, key: True}), breakGlass=[glass])


@pytest.mark.parametrize("name", DEFAULT)
def test_each_capability_that_is_kept_is_named(name: str) -> None:
    kept = {"capDrop": [other for other in DEFAULT if other != name]}

    (message,) = over(kept, capabilities=[other for other in KNOWN if other != name])

    assert message.startswith(f"container.capDrop: {name} not dropped ")


def test_all_capabilities_that_are_kept_are_named_in_one_line() -> None:
    kept = {"capDrop": [other for other in DEFAULT if other not in {"CHOWN", "KILL"}]}

    (message,) = over(kept)

    assert message.startswith("container.capDrop: CHOWN, KILL not dropped ")


def test_root_cannot_be_spelled_around() -> None:
    for user in ("0", "0:0", "0:1000", "00", "0000000000", "000:5"):
        assert not is_user_allowed(user, ceilings())
        assert is_user_allowed(user, ceilings(users=["0"]))
    for user in ("root", "", ":0", "-1", "\u0660", "²", " 0", "0x0", "auto"):
        assert not is_user_allowed(user, ceilings(users=["0"]))


LIMITED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"image": "b"},
        {"images": ["a", "b:*"]},
        "container.image: 'b' is not within the operator's ceilings.images: a, b:*; ",
    ),
    (
        {"image": "a:1"},
        {"images": []},
        "container.image: 'a:1' is not within the operator's ceilings.images: none; ",
    ),
    (
        {"image": "a", "imageFallback": True},
        {"images": ["a"]},
        "container.imageFallback: 'debian:bookworm-slim' is not within the operator's ceilings.images: a; ",
    ),
    (
        {"memory": "1025m"},
        {"memory": "1g"},
        "container.memory: 1025m is not within the operator's ceilings.memory: 1g; ",
    ),
    ({"cpus": 1.01}, {"cpus": 1}, "container.cpus: 1.01 is not within the operator's ceilings.cpus: 1.0; "),
    (
        {"pidsLimit": 101},
        {"pidsLimit": 100},
        "container.pidsLimit: 101 is not within the operator's ceilings.pidsLimit: 100; ",
    ),
]


@pytest.mark.parametrize(("said", "allowed", "told"), LIMITED)
def test_what_is_not_limited_unless_the_installer_does(
    said: dict[str, Any], allowed: dict[str, Any], told: str
) -> None:
    assert over(said) == []
    (message,) = over(said, **allowed)

    assert message.startswith(told)
    assert "ask the installer to" in message


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ({"image": "b:1"}, {"images": ["a", "b:*"]}),
        ({"image": "a", "imageFallback": True}, {"images": ["a", "debian:*"]}),
        ({"image": "a", "imageFallback": False}, {"images": ["a"]}),
        ({"memory": "1024m"}, {"memory": "1g"}),
        ({"cpus": 1}, {"cpus": 1.0}),
        ({"pidsLimit": 100}, {"pidsLimit": 100}),
    ],
)
def test_as_much_as_the_installer_allows(said: dict[str, Any], allowed: dict[str, Any]) -> None:
    assert over(said, **allowed) == []


AMOUNTS = {"memory": "1g", "cpus": 2, "pidsLimit": 100}


@pytest.mark.parametrize("operated", [operator(ceilings=AMOUNTS), pods(ceilings=AMOUNTS)])
def test_what_nobody_says_is_as_much_as_the_ceilings_allow(operated: OperatorConfig) -> None:
    config = made_from(resolved(operated=operated))

    assert (config.memory, config.milli_cpus) == (2**30, 2000)
    # A Pod has no such limit; and what it does not have does not replace it.
    assert config.pids_limit == (100 if config.backend is Backend.DOCKER else None)


def test_a_ceiling_does_not_change_what_somebody_says() -> None:
    under = policy(container={"memory": "512m"}, limits={"cpus": 1, "pidsLimit": 50})

    config = made_from(resolved(under=under, operated=operator(ceilings=AMOUNTS)))

    assert (config.memory, config.milli_cpus, config.pids_limit) == (2**29, 1000, 50)


def test_a_ceiling_is_another_configuration_for_those_only_who_say_nothing() -> None:
    def hashed(said: dict[str, Any], allowed: dict[str, Any]) -> str | None:
        return resolved(under=policy(container=said), operated=operator(ceilings=allowed)).config_hash

    ceiling = {"memory": "1g"}
    assert hashed({"memory": "512m"}, ceiling) == hashed({"memory": "512m"}, {})
    assert hashed({}, ceiling) == hashed({"memory": "1024m"}, {}) != hashed({}, {})


def test_limits_above_the_ceilings_are_refused_where_they_are_the_value() -> None:
    under = policy(limits={"memory": "2g"})

    problem = resolved(under=under, operated=operator(ceilings=AMOUNTS)).problem

    assert problem is not None
    assert problem.reason is Reason.CEILING_EXCEEDED
    assert problem.message.startswith(
        "container.memory: 2g is not within the operator's ceilings.memory: 1g; "
    )
    assert "lower container.memory, or limits.memory where nobody states it" in problem.message


def test_everything_is_told_at_once_under_the_first_reason() -> None:
    under = policy(container={"network": "lan", "user": "0", "gpus": "1"})

    problem = resolved(under=under).problem

    assert problem is not None
    assert problem.reason is Reason.CEILING_EXCEEDED
    for field in ("network", "user", "gpus"):
        assert f"container.{field}: " in problem.message


def test_agents_entries_stand_under_the_same_ceilings() -> None:
    under = policy(agents=[{"id": "dev", "container": {"network": "lan"}}])

    assert resolved(under=under).problem is not None
    assert resolved(under=under, operated=operator(ceilings={"networks": ["lan"]})).problem is None


PODS_ALLOWED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"pod": {"egress": {"dns": True}}}, {"egress": ["dns"]}, "pod.egress.dns"),
    ({"pod": {"egress": {"internet": True}}}, {"egress": ["internet"]}, "pod.egress.internet"),
    (
        {"pod": {"egress": {"to": [{"cidr": "10.1.2.0/24"}]}}},
        {"egress": ["10.1.0.0/16"]},
        "pod.egress.to: '10.1.2.0/24'",
    ),
    (
        {"pod": {"egress": {"to": [{"cidr": "2001:db8:1::/48", "ports": [{"port": 1}]}]}}},
        {"egress": ["10.1.0.0/16", "2001:DB8::/32"]},
        "pod.egress.to: '2001:db8:1::/48'",
    ),
    (
        {"container": {"gpus": "1"}, "pod": {"gpuResource": "devices.kubevirt.io/kvm"}},
        {"gpuResources": ["devices.kubevirt.io/kvm"]},
        "pod.gpuResource: 'devices.kubevirt.io/kvm'",
    ),
    (
        {"workspace": {"volume": {"hostPath": {"path": "/srv/agents"}}}},
        {"bindRoots": ["/srv"]},
        "workspace.volume.hostPath: '/srv/agents'",
    ),
]


def over_for_pods(said: dict[str, Any], **allowed: Any) -> str | None:
    """What is told about a Pod that is above the ceilings."""
    problem = resolved(under=policy(**said), operated=pods(ceilings=allowed)).problem
    if problem is None:
        return None
    assert problem.reason in {Reason.CEILING_EXCEEDED, Reason.BIND_REFUSED}
    return problem.message


@pytest.mark.parametrize(("said", "allowed", "told"), PODS_ALLOWED)
def test_pods_are_denied_by_default_and_allowed_by_the_installer(
    said: dict[str, Any], allowed: dict[str, Any], told: str
) -> None:
    message = over_for_pods(said, gpus=True)

    assert message is not None
    assert message.startswith(told)
    assert "ask the installer to add" in message
    assert f"ceilings.{next(iter(allowed))}" in message
    assert over_for_pods(said, **allowed, gpus=True) is None


@pytest.mark.parametrize(("said", "allowed", "told"), PODS_ALLOWED)
def test_what_is_allowed_elsewhere_does_not_help_a_pod(
    said: dict[str, Any], allowed: dict[str, Any], told: str
) -> None:
    everything: dict[str, list[str]] = {}
    for _, other, _ in PODS_ALLOWED:
        for name, items in other.items():
            everything[name] = [*everything.get(name, ()), *items]
    others = {
        name: [item for item in items if item not in allowed.get(name, ())]
        for name, items in everything.items()
    }

    assert over_for_pods(said, gpus=True, **others) is not None


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"dns": False, "internet": False, "to": []},
    ],
)
def test_no_egress_needs_no_permission(said: dict[str, Any]) -> None:
    assert over_for_pods({"pod": {"egress": said}}) is None


@pytest.mark.parametrize(
    ("cidr", "listed", "within"),
    [
        ("10.0.0.0/8", "10.0.0.0/8", True),
        ("10.0.0.0/7", "10.0.0.0/8", False),
        ("11.0.0.0/8", "10.0.0.0/8", False),
        ("10.255.255.255/32", "10.0.0.0/8", True),
        ("0.0.0.0/0", "10.0.0.0/8", False),
        ("0.0.0.0/0", "0.0.0.0/0", True),
        ("169.254.169.254/32", "0.0.0.0/0", True),
        # What a network says as a number means another thing in the other family.
        ("::a00:0/104", "10.0.0.0/8", False),
        ("10.0.0.0/8", "::/0", False),
        ("::/0", "0.0.0.0/0", False),
        # The word stands for public addresses; which these are, a policy cannot narrow by naming one.
        ("93.184.216.0/24", "internet", False),
        ("10.0.0.0/8", "dns", False),
    ],
)
def test_a_network_lies_within_one_that_is_listed(*, cidr: str, listed: str, within: bool) -> None:
    said = {"pod": {"egress": {"to": [{"cidr": cidr}]}}}

    assert (over_for_pods(said, egress=[listed]) is None) is within


def test_every_network_has_to_lie_within_one() -> None:
    to = [{"cidr": cidr} for cidr in ("10.0.0.0/24", "10.9.0.0/24", "11.0.0.0/8", "12.0.0.0/8")]

    message = over_for_pods({"pod": {"egress": {"to": to}}}, egress=["10.0.0.0/16", "10.9.0.0/16"])

    assert message is not None
    assert message.count("pod.egress.to") == 2
    assert "11.0.0.0/8" in message
    assert "12.0.0.0/8" in message


@pytest.mark.parametrize(
    ("dns", "servers", "egress", "allowed"),
    [
        (True, ["192.0.2.53"], ["dns"], False),
        (True, ["192.0.2.53"], ["dns", "192.0.2.0/24"], True),
        (True, ["192.0.2.53", "2001:db8::53"], ["dns", "192.0.2.0/24"], False),
        (True, ["2001:db8::53"], ["dns", "2001:db8::53/128"], True),
        # The word opens no port 53 of an address that somebody names.
        (True, ["192.0.2.53"], ["dns", "internet"], False),
        (False, ["192.0.2.53"], ["dns"], True),
        (True, [], ["dns"], True),
    ],
)
def test_named_dns_servers_are_no_way_around(
    *, dns: bool, servers: list[str], egress: list[str], allowed: bool
) -> None:
    message = over_for_pods({"container": {"dns": servers}, "pod": {"egress": {"dns": dns}}}, egress=egress)

    assert (message is None) is allowed
    if message is not None:
        assert message.startswith("container.dns: ")


def test_gpus_of_pods() -> None:
    said = {"container": {"gpus": "1"}, "pod": {"gpuResource": "nvidia.com/gpu"}}

    message = over_for_pods(said)

    assert message is not None
    assert "ceilings.gpus" in message
    assert over_for_pods(said, gpus=True) is None
    # Nobody asks for any.
    assert over_for_pods({"pod": {"gpuResource": "devices.kubevirt.io/kvm"}}) is None


@pytest.mark.parametrize(
    "path",
    ["/srv", "/srv/../etc", "/srv2/a", "/etc/kubernetes", "/var/lib/kubelet/pods", "/", "/srv/agents/../..",
     "/srv/agents/.ssh", "/home/rain", "/srv/agents/docker.sock", "/proc/1"],
)  # fmt: skip
def test_directories_of_nodes_are_refused_as_binds_are(path: str) -> None:
    said = {"workspace": {"volume": {"hostPath": {"path": path if path != "/" else "//"}}}}
    roots = ["/srv/agents"] if path.startswith("/srv") else ["/"]

    problem = resolved(under=policy(**said), operated=pods(ceilings={"bindRoots": roots})).problem

    assert problem is not None
    assert problem.reason is Reason.BIND_REFUSED
    assert problem.message.startswith("workspace.volume.hostPath: ")


def test_containers_need_no_permission_for_what_is_for_pods() -> None:
    under = policy(pod={"egress": {"internet": True}, "gpuResource": "devices.kubevirt.io/kvm"})

    assert resolved(under=under).problem is None
