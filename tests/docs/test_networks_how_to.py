"""What docs/how-to/networks.md says is true, as far as objects and conditions can show it."""

import json
from typing import Any

import pytest

from support.how_tos import HowTo
from support.operator import OperatorFactory, Sandboxes
from support.pods import POD_IMAGE, Pods, serving_pods

pytestmark = [pytest.mark.cluster]


def networks(sandboxes: Sandboxes) -> dict[str, dict[str, Any]]:
    """Return the rules that are in force, by the label that chooses Pods."""
    listed = sandboxes.kubectl(
        "get", "networkpolicies", "-l", "app.kubernetes.io/managed-by=sandkeeper", "-o", "json"
    )
    return {
        one["metadata"]["labels"]["sandkeeper.dev/network"]: one["spec"]
        for one in json.loads(listed)["items"]
    }


def test_its_policies_come_down_to_what_it_says(
    operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    how_to = HowTo("networks.md")
    ceilings, enforced = how_to.settings
    first = operator_factory(**serving_pods(**ceilings)).wait_ready()
    pod_sandboxes.apply(*(how_to.policy(name, image=POD_IMAGE) for name in ("default", "strict")))
    strict = pod_sandboxes.sandbox("strict", policyRef={"name": "strict"})
    pod_sandboxes.apply(*map(pod_sandboxes.sandbox, ("rain", "tio")), strict)
    for name in ("rain", "tio"):
        pod_sandboxes.wait(name, "Running")
        assert pod_sandboxes.condition(name, "NetworkIsolated") == ("Unknown", "EnforcementUnknown")
    refused = pod_sandboxes.wait("strict", "NetworkNotIsolated")["message"]
    assert "ask the installer to set pod.networkPolicyEnforced" in refused

    labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in pods()}
    assert len(labels) == 2
    rules = networks(pod_sandboxes)
    of = {
        name: rules[labels[pod_sandboxes.status(name)["runtime"]["name"]]["sandkeeper.dev/network"]]
        for name in ("rain", "tio")
    }
    (dns,) = of["tio"]["egress"]
    assert [port["port"] for port in dns["ports"]] == [53, 53]
    again, internet, named = of["rain"]["egress"]
    assert again == dns
    assert "169.254.0.0/16" in internet["to"][0]["ipBlock"]["except"]
    assert named == {
        "to": [{"ipBlock": {"cidr": "10.20.30.0/24"}}],
        "ports": [
            {"protocol": "TCP", "port": 443},
            {"protocol": "UDP", "port": 5000, "endPort": 5010},
        ],
    }

    first.stop()
    operator_factory(**serving_pods(**ceilings, **enforced)).wait_ready()
    pod_sandboxes.wait("strict", "Running")
    for name in ("rain", "strict"):
        pod_sandboxes.wait(name, "NetworkPolicyEnforced", kind="NetworkIsolated")


def test_more_than_the_ceilings_allow_is_refused_with_what_would_allow_it(
    operator_factory: OperatorFactory, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    operator_factory(**serving_pods()).wait_ready()
    pod_sandboxes.apply(
        HowTo("networks.md").policy("default", image=POD_IMAGE), pod_sandboxes.sandbox("rain")
    )
    message = pod_sandboxes.wait("rain", "CeilingExceeded")["message"]
    for item in ("dns", "internet", "10.20.30.0/24"):
        assert f"ask the installer to add {item!r} to ceilings.egress" in message
    assert pods() == []
