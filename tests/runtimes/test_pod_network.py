"""A Pod may reach what its policy says, and nothing else; one NetworkPolicy for each policy and setting."""

import re
from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtimes.pod_orders import INSTALLATION, INSTALLATIONS, KEY, KEYS, order, pod_of
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.pod import Egress, EgressPort, EgressRule, PodShape
from sandkeeper.runtimes.pod.network import network_hash, network_policy_body, network_policy_name

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)

CLUSTER_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}
PORT_53 = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]

NOT_INTERNET_IPV4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
]
NOT_INTERNET_IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]

INTERNET: dict[str, list[dict[str, Any]]] = {
    "to": [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": NOT_INTERNET_IPV4}},
        {"ipBlock": {"cidr": "2000::/3", "except": NOT_INTERNET_IPV6}},
    ]
}


def body(egress: Egress, *dns: str) -> dict[str, Any]:
    return network_policy_body(KEY, order(pod=PodShape(egress=egress), dns=dns).config, INSTALLATION)


def rules(egress: Egress, *dns: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(egress, *dns)["spec"].get("egress", [])
    return found


def setting(egress: Egress, *dns: str) -> str:
    return network_hash(KEY, egress, dns, INSTALLATION)


def test_where_nothing_is_allowed() -> None:
    # Golden: under another hash the Pods that run would be left behind by the next version.
    assert body(Egress()) == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": "sandkeeper-c3a0a7567716e4c8b5e1",
            "namespace": "team",
            "labels": {
                "app.kubernetes.io/managed-by": "sandkeeper",
                "sandkeeper.dev/installation": INSTALLATION,
                "sandkeeper.dev/network": "c3a0a7567716e4c8b5e1",
            },
            "annotations": {"sandkeeper.dev/policy": "default"},
        },
        "spec": {
            "podSelector": {"matchLabels": {"sandkeeper.dev/network": "c3a0a7567716e4c8b5e1"}},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


def test_everything_at_once() -> None:
    egress = Egress(
        dns=True,
        internet=True,
        to=(
            EgressRule("2001:db8:1::/48"),
            EgressRule("10.1.0.0/16", (EgressPort("UDP", 5000, 5010), EgressPort("TCP", 443))),
        ),
    )

    assert body(egress, "192.0.2.53", "2001:db8::53")["spec"] == {
        "podSelector": {
            "matchLabels": {"sandkeeper.dev/network": setting(egress, "192.0.2.53", "2001:db8::53")}
        },
        "policyTypes": ["Ingress", "Egress"],
        "egress": [
            {
                "to": [
                    CLUSTER_DNS,
                    {"ipBlock": {"cidr": "169.254.20.10/32"}},
                    {"ipBlock": {"cidr": "192.0.2.53/32"}},
                    {"ipBlock": {"cidr": "2001:db8::53/128"}},
                ],
                "ports": PORT_53,
            },
            INTERNET,
            {
                "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
                "ports": [
                    {"protocol": "TCP", "port": 443},
                    {"protocol": "UDP", "port": 5000, "endPort": 5010},
                ],
            },
            {"to": [{"ipBlock": {"cidr": "2001:db8:1::/48"}}]},
        ],
    }


@pytest.mark.parametrize(
    ("egress", "dns", "expected"),
    [
        (
            Egress(dns=True),
            (),
            [{"to": [CLUSTER_DNS, {"ipBlock": {"cidr": "169.254.20.10/32"}}], "ports": PORT_53}],
        ),
        (Egress(internet=True), (), [INTERNET]),
        (Egress(to=(EgressRule("0.0.0.0/0"),)), (), [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]),
        # A server is only named; whether it may be asked, egress.dns says.
        (Egress(), ("192.0.2.53",), []),
    ],
)
def test_one_thing_allowed(egress: Egress, dns: tuple[str, ...], expected: list[dict[str, Any]]) -> None:
    assert rules(egress, *dns) == expected


def networks(cidrs: Iterable[str]) -> list[IPv4Network | IPv6Network]:
    return [ip_network(cidr) for cidr in cidrs]


def is_internet(text: str) -> bool:
    """Tell as a network plugin would."""
    address = ip_address(text)
    return any(
        address in ip_network(block["ipBlock"]["cidr"])
        and not any(address in network for network in networks(block["ipBlock"]["except"]))
        for block in INTERNET["to"]
    )


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.1",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",  # metadata of Alibaba Cloud
        "127.0.0.1",
        "169.254.169.254",  # metadata of most clouds
        "169.254.170.2",  # credentials of ECS tasks
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",  # metadata of Oracle Cloud
        "192.168.255.255",
        "198.19.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",  # 169.254.169.254 behind NAT64
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:a9fe:a9fe::1",  # 169.254.169.254 behind 6to4
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",  # metadata of AWS
        "fe80::a9fe:a9fe",
        "fec0::1",
        "ff02::1",
    ],
)
def test_what_is_near_is_not_the_internet(text: str) -> None:
    assert not is_internet(text)


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.128.0.0",
        "172.32.0.0",
        "192.0.3.0",
        "223.255.255.255",
        "2001:4860:4860::8888",
        "2606:4700::1111",
        "2a00::1",
    ],
)
def test_the_rest_is(text: str) -> None:
    assert is_internet(text)


@given(st.ip_addresses().map(str))  # half of them in special ranges
def test_what_python_knows_for_special_is_not_the_internet(text: str) -> None:
    address = ip_address(text)

    if not address.is_global or address.is_multicast:
        assert not is_internet(text)
    elif not isinstance(address, IPv6Address):
        # The exceptions that IANA makes within a special range are not followed.
        assert is_internet(text) or address in ip_network("192.0.0.0/24") or text.startswith("192.88.99.")


@pytest.mark.parametrize("block", INTERNET["to"], ids=lambda block: str(block["ipBlock"]["cidr"]))
def test_an_exception_lies_within_what_it_is_one_from(block: dict[str, Any]) -> None:
    for exception in networks(block["ipBlock"]["except"]):
        assert exception.subnet_of(ip_network(block["ipBlock"]["cidr"]))  # type: ignore[arg-type]


EGRESSES = st.builds(
    Egress,
    dns=st.booleans(),
    internet=st.booleans(),
    to=st.lists(
        st.builds(
            EgressRule,
            st.sampled_from(["10.0.0.0/8", "10.0.0.0/9", "2001:db8::/32", "2001:DB8:0::/32", "10.1.1.1/8"]),
            st.lists(
                st.builds(
                    EgressPort,
                    st.sampled_from(["TCP", "UDP"]),
                    st.integers(1, 2),
                    st.none() | st.integers(2, 3),
                ),
                max_size=2,
            ).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)
SERVERS = st.lists(st.sampled_from(["1.1.1.1", "::1", "0::1"]), max_size=2).map(tuple)
SETTINGS = st.tuples(EGRESSES, SERVERS)


@given(one=SETTINGS, other=SETTINGS)
@example(one=(Egress(dns=True), ()), other=(Egress(internet=True), ()))
@example(one=(Egress(to=(EgressRule("10.0.0.5/8"),)), ()), other=(Egress(to=(EgressRule("10.0.0.0/8"),)), ()))
def test_settings_share_a_policy_exactly_when_they_allow_the_same(
    one: tuple[Egress, tuple[str, ...]], other: tuple[Egress, tuple[str, ...]]
) -> None:
    is_same_hash = setting(one[0], *one[1]) == setting(other[0], *other[1])

    assert is_same_hash == (rules(one[0], *one[1]) == rules(other[0], *other[1]))


@given(egress=EGRESSES, servers=SERVERS, seed=st.randoms(use_true_random=False))
def test_order_and_repetition_mean_nothing(egress: Egress, servers: tuple[str, ...], seed: Any) -> None:
    rules_of_it = [
        replace(rule, ports=tuple(seed.sample([*rule.ports, *rule.ports], 2 * len(rule.ports))))
        for rule in (*egress.to, *egress.to)
    ]
    seed.shuffle(rules_of_it)
    shuffled = replace(egress, to=tuple(rules_of_it))

    assert body(shuffled, *reversed(servers), *servers) == body(egress, *servers)


@given(one=st.tuples(KEYS, INSTALLATIONS), other=st.tuples(KEYS, INSTALLATIONS))
@example(one=(replace(KEY, policy="a"), INSTALLATION), other=(replace(KEY, policy="b"), INSTALLATION))
@example(one=(replace(KEY, namespace_uid="a"), INSTALLATION), other=(KEY, INSTALLATION))
@example(one=(replace(KEY, scope="shared"), INSTALLATION), other=(KEY, INSTALLATION))
@example(one=(KEY, "other"), other=(KEY, INSTALLATION))
def test_one_policy_for_each_policy_of_a_namespace_and_installation(
    one: tuple[RuntimeKey, str], other: tuple[RuntimeKey, str]
) -> None:
    def whose(key: RuntimeKey, installation: str) -> RuntimeKey | tuple[RuntimeKey, str]:
        return replace(key, scope=""), installation

    hashes = [network_hash(key, Egress(), (), installation) for key, installation in (one, other)]

    assert (hashes[0] == hashes[1]) == (whose(*one) == whose(*other))
    assert all(LABEL_VALUE.fullmatch(found) for found in hashes)
    assert all(LABEL_VALUE.fullmatch(network_policy_name(found)) for found in hashes)


@given(egress=EGRESSES, servers=SERVERS)
def test_a_pod_is_selected_by_its_policy(egress: Egress, servers: tuple[str, ...]) -> None:
    wanted = order(pod=PodShape(egress=egress), dns=servers)
    pod = pod_of(wanted)
    policy = network_policy_body(wanted.key, wanted.config, INSTALLATION)

    selector = policy["spec"]["podSelector"]["matchLabels"]
    assert selector
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    assert policy["metadata"]["name"] == network_policy_name(
        pod["metadata"]["labels"]["sandkeeper.dev/network"]
    )
