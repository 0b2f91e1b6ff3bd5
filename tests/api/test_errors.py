"""An error carries what a condition needs: the reason, the message, and when to try again."""

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient


@pytest.mark.parametrize("delay", [None, 0, 2.5])
def test_what_may_work_later_says_when(delay: float | None) -> None:
    error = Transient(Reason.IMAGE_MISSING, "No such image.", delay=delay)

    assert isinstance(error, SandkeeperError)
    assert (error.reason, error.message, error.delay) == (Reason.IMAGE_MISSING, "No such image.", delay)
    assert str(error) == "No such image."


def test_what_has_to_be_changed_says_why() -> None:
    error = Permanent(Reason.BIND_REFUSED, "Not this one.")

    assert not isinstance(error, Transient)
    assert (error.reason, error.message, str(error)) == (
        Reason.BIND_REFUSED,
        "Not this one.",
        "Not this one.",
    )
