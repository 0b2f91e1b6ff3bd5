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
        {"docker": {"seccompProfiles": "profiles"}},
        {"backends": ["podman"]},
        {"workers": 0},
    ],
)
def test_a_mistake_is_not_passed_over(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OperatorConfig.model_validate(fields)
