"""Whether a policy can be followed is known before anybody comes under it."""

from typing import Any

from config.examples import OPERATOR_NAMESPACE, operator, policy
from sandkeeper.api.conditions import Reason
from sandkeeper.config.acceptance import find_problem
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.resolution import Problem


def problem(*, operated: OperatorConfig | None = None, **fields: Any) -> Problem | None:
    config = operated or operator()
    return find_problem(policy(**fields), namespace=OPERATOR_NAMESPACE, name="strict", operator=config)


def test_what_is_built_in_can_be_followed() -> None:
    assert problem() is None
    assert problem(mode="off") is None
    assert problem(scope="shared", agents=[{"id": "dev", "container": {"user": "0"}}]) is None


def test_what_is_above_the_ceilings_is_found_and_named() -> None:
    found = problem(container={"user": "0"})
    assert found is not None
    assert found.reason is Reason.CEILING_EXCEEDED
    assert "user" in found.message
    assert problem(container={"user": "0"}, operated=operator(ceilings={"users": ["0"]})) is None


def test_a_backend_that_is_not_served_is_found_also_for_the_main_session() -> None:
    found = problem(backend="pod", mode="non-main")
    assert found is not None
    assert found.reason is Reason.BACKEND_UNAVAILABLE


def test_every_agent_that_is_named_is_looked_at() -> None:
    agents = [{"id": "any-0"}, {"id": "any-1"}, {"id": "dev", "container": {"network": "lan"}}]
    found = problem(agents=agents)
    assert found is not None
    assert found.reason is Reason.CEILING_EXCEEDED
    assert problem(agents=agents[:2]) is None
    limited = problem(limits={"memory": "1g"}, agents=[{"id": "dev", "container": {"memory": "2g"}}])
    assert limited is not None
    assert limited.reason is Reason.LIMIT_EXCEEDED
    assert "agents[dev]" in limited.message


def test_what_an_agent_says_better_does_not_mend_it_for_all_others() -> None:
    assert problem(container={"network": "lan"}, agents=[{"id": "dev", "container": {"network": "none"}}])
