"""What the API server says no to, and what only goes wrong on the way to it."""

import pytest

from sandkeeper.cluster.api import ApiError
from sandkeeper.runtimes.pod.failures import is_refusal


@pytest.mark.parametrize("status", [400, 403, 409, 413, 422])
def test_it_understood_and_said_no(status: int) -> None:
    assert is_refusal(ApiError(status, "no"))


@pytest.mark.parametrize(
    "status",
    [0, 401, 429, 500, 503],
    ids=["not reached", "a token that expired", "busy", "in trouble", "overloaded"],
)
def test_it_said_nothing_about_what_was_asked_for(status: int) -> None:
    assert not is_refusal(ApiError(status, "later"))
