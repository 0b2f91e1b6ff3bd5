"""What a policy says of rollouts, over what is built in."""

import pytest
from pydantic import ValidationError

from config.examples import policy
from sandkeeper.config.rollouts import RolloutLimits, rollout_limits

BUILT_IN = RolloutLimits(max_unavailable="25%", per_minute=None, max_failed=0, paused=False)


def test_a_quarter_at_once_and_not_one_failure_where_nobody_says() -> None:
    assert rollout_limits(None) == rollout_limits(policy()) == BUILT_IN
    assert rollout_limits(policy(rollout={})) == BUILT_IN


def test_each_field_is_replaced_by_itself() -> None:
    said = {"maxUnavailable": 3, "perMinute": 6, "maxFailed": 2, "paused": True}
    assert rollout_limits(policy(rollout=said)) == RolloutLimits(
        max_unavailable=3, per_minute=6, max_failed=2, paused=True
    )
    assert rollout_limits(policy(rollout={"maxUnavailable": "1%"})).max_failed == 0


def test_an_agent_may_be_held_back_and_has_no_budget_of_its_own() -> None:
    held_back = policy(agents=[{"id": "dev", "rollout": {"paused": True}}])
    assert rollout_limits(held_back) == BUILT_IN
    with pytest.raises(ValidationError, match="maxUnavailable"):
        policy(agents=[{"id": "dev", "rollout": {"maxUnavailable": 1}}])
