"""What a Pod may reach, as a NetworkPolicy: pure functions.

There is one for each policy and setting, not one for each Pod: Pods that may reach the same share it. The Pod
carries the hash of its setting as a label, and the NetworkPolicy selects that label and nothing else.
"""

import hashlib
import ipaddress
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sandkeeper.api.names import MANAGED_BY, Label
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.pod import Egress, EgressPort, EgressRule
from sandkeeper.config.resolution import RuntimeConfig

__all__ = ["closed_policy_body", "network_hash", "network_policy_body", "network_policy_name"]

_HASH: Final = 20
"""Hex digits: 80 bits."""

_IPV4: Final = "0.0.0.0/0"
_NOT_INTERNET_IPV4: Final = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # shared by providers and their customers; some clouds' Pods and metadata services
    "127.0.0.0/8",  # loopback
    "169.254.0.0/16",  # link-local, most clouds' metadata services among it
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # IETF protocols
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # relays of 6to4, no longer in use
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and used by some for Pods; broadcast
)
"""IANA's special-purpose addresses: nobody on the internet has one, but somebody nearby may."""

_IPV6: Final = "2000::/3"
"""All that IANA gives out for use on the internet. Outside are loopback, unique local (fc00::/7), link-local
(fe80::/10) and multicast addresses, and those that stand for an IPv4 address (::ffff:0:0/96, 64:ff9b::/96),
which would lead around the list above."""
_NOT_INTERNET_IPV6: Final = (
    "2001::/23",  # IETF protocols, Teredo among them, which stands for an IPv4 address too
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4, which stands for an IPv4 address
    "3fff::/20",  # documentation
)

_NODE_LOCAL_DNS: Final = "169.254.20.10/32"
"""Where NodeLocal DNSCache listens on every node (kubernetes/kubernetes:cluster/addons/dns/nodelocaldns)."""
_CLUSTER_DNS: Final[dict[str, Any]] = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}
"""The cluster's DNS: CoreDNS carries the label of what it replaced. Both have to match."""
_DNS_PORTS: Final = ({"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53})


def network_hash(key: RuntimeKey, egress: Egress, dns_servers: Sequence[str], installation: str) -> str:
    """Return 20 hex digits for the policy and what its Pods may reach; fit for a label's value and a name.

    It is of the setting, not of the rules made from it: a newer operator that writes them better does so for
    the Pods that run, which a new hash would leave behind. What means the same has the same hash, whatever
    the order.
    """
    setting = [
        egress.dns,
        egress.internet,
        _servers(egress, dns_servers),
        [
            [rule.cidr, [[port.protocol, port.port, port.end] for port in rule.ports]]
            for rule in _rules(egress)
        ],
    ]
    parts = [installation, key.namespace, key.namespace_uid, key.policy, setting]
    text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_HASH]


def network_policy_name(network: str) -> str:
    """Return the name of the NetworkPolicy for a :func:`network_hash`."""
    return f"{MANAGED_BY}-{network}"


def network_policy_body(key: RuntimeKey, config: RuntimeConfig, installation: str) -> dict[str, Any]:
    """Return the NetworkPolicy under which the key's Pod has to run.

    Nobody may reach the Pod; `kubectl exec` and what the kubelet does need no network of its. NetworkPolicies
    add up, so another one may allow more, but none can allow less.
    """
    network = network_hash(key, config.pod.egress, config.dns, installation)
    return _body(key, network, installation, egress=list(_egress(config.pod.egress, config.dns)))


def closed_policy_body(key: RuntimeKey, network: str, installation: str) -> dict[str, Any]:
    """Return a NetworkPolicy that allows nothing, for a Pod of which only the :func:`network_hash` is known."""
    return _body(key, network, installation, egress=[])


def _body(
    key: RuntimeKey, network: str, installation: str, *, egress: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": {Label.NETWORK.value: network}},
        "policyTypes": ["Ingress", "Egress"],
    }
    if egress:
        spec["egress"] = egress
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": network_policy_name(network),
            "namespace": key.namespace,
            "labels": {
                Label.MANAGED_BY.value: MANAGED_BY,
                Label.INSTALLATION.value: installation,
                Label.NETWORK.value: network,
            },
            "annotations": {Label.POLICY.value: key.policy},
        },
        "spec": spec,
    }


def _egress(egress: Egress, dns_servers: Sequence[str]) -> Iterator[dict[str, Any]]:
    if egress.dns:
        blocks = [_NODE_LOCAL_DNS, *(_network(server) for server in _servers(egress, dns_servers))]
        yield {"to": [_CLUSTER_DNS, *map(_block, blocks)], "ports": list(_DNS_PORTS)}
    if egress.internet:
        yield {"to": [_block(_IPV4, _NOT_INTERNET_IPV4), _block(_IPV6, _NOT_INTERNET_IPV6)]}
    for rule in _rules(egress):
        to: dict[str, Any] = {"to": [_block(rule.cidr)]}
        if rule.ports:
            to["ports"] = list(map(_port, rule.ports))
        yield to


def _servers(egress: Egress, dns_servers: Sequence[str]) -> list[str]:
    """Return what is to be reached of ``container.dns``, each once and in one spelling and order."""
    return sorted({str(ipaddress.ip_address(server)) for server in dns_servers}) if egress.dns else []


def _rules(egress: Egress) -> list[EgressRule]:
    """Return the rules, each once and in one spelling and order."""
    return sorted(
        {EgressRule(_network(rule.cidr), tuple(sorted(set(rule.ports), key=_place))) for rule in egress.to},
        key=lambda rule: (rule.cidr, list(map(_place, rule.ports))),
    )


def _place(port: EgressPort) -> tuple[str, int, int]:
    return port.protocol, port.port, port.end or 0


def _network(text: str) -> str:
    """Write a network without the bits of a host, or an address as the network of it alone."""
    return str(ipaddress.ip_network(text, strict=False))


def _block(cidr: str, but: Iterable[str] = ()) -> dict[str, Any]:
    block: dict[str, Any] = {"cidr": cidr}
    if excepted := list(but):
        block["except"] = excepted
    return {"ipBlock": block}


def _port(port: EgressPort) -> dict[str, Any]:
    written: dict[str, Any] = {"protocol": port.protocol, "port": port.port}
    if port.end is not None:
        written["endPort"] = port.end
    return written
