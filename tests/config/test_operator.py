"""The operator's own configuration: what it holds, and what it allows by default."""

from typing import Any

import pytest
from pydantic import ValidationError

from sandkeeper.config.operator import Ceilings, OperatorConfig


def test_the_ceilings_allow_nothing_by_default() -> None:
    assert not any(Ceilings().model_dump().values())


@pytest.mark.parametrize(
    "fields",
    [
        {"ceilings": {"bindRoots": ["srv"]}},
        {"ceilings": {"bindRoots": ["/srv/../etc"]}},
        {"ceilings": {"breakGlass": ["everything"]}},
        {"ceilings": {"privileged": True}},
        {"ceilings": {"users": ["root"]}},
        {"ceilings": {"users": ["-1"]}},
        {"ceilings": {"users": ["\u0660"]}},
        {"ceilings": {"images": ["a*b"]}},
        {"ceilings": {"memory": "lots"}},
        {"ceilings": {"memory": "5m"}},
        {"ceilings": {"memory": "999999999999999t"}},
        {"ceilings": {"cpus": 0}},
        {"ceilings": {"pidsLimit": 0}},
        {"ceilings": {"pidsLimit": 100}, "backends": ["pod"]},
        {"ceilings": {"egress": ["everything"]}},
        {"ceilings": {"egress": ["DNS"]}},
        {"ceilings": {"egress": ["10.1.0.0"]}},
        {"ceilings": {"egress": ["10.1.0.1/16"]}},
        {"ceilings": {"egress": ["::ffff:10.0.0.0/104"]}},
        {"ceilings": {"egress": ["2001:0db8::/32"]}},
        {"pod": {"setupWorkers": 0}},
        {"pod": {"networkPolicyEnforced": "perhaps"}},
        {"docker": {"seccompProfiles": "profiles"}},
        {"backends": ["podman"]},
        {"workers": 0},
    ],
)
def test_a_mistake_is_not_passed_over(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OperatorConfig.model_validate(fields)


def test_users_are_numbers() -> None:
    assert Ceilings.model_validate({"users": ["0", "00"]}).users == ("0", "0")


@pytest.mark.parametrize("backends", [["docker"], ["pod", "docker"]])
def test_a_limit_on_processes_is_for_an_operator_that_makes_containers(backends: list[str]) -> None:
    OperatorConfig.model_validate({"ceilings": {"pidsLimit": 100}, "backends": backends})


def test_nothing_is_taken_for_enforced_that_nobody_states() -> None:
    config = OperatorConfig()

    assert config.pod.network_policy_enforced is False
    assert config.backends == ("docker",)


def test_what_pods_may_reach() -> None:
    egress = ("dns", "internet", "10.1.0.0/16", "2001:db8::/32", "0.0.0.0/0")

    assert OperatorConfig.model_validate({"ceilings": {"egress": egress}}).ceilings.egress == egress
