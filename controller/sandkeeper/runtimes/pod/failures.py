"""What the API server refuses, in the words of conditions."""

from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient
from sandkeeper.cluster.api import ApiError

__all__ = ["foreign", "is_quota", "is_refusal", "of_refusal"]

_SERVER: Final = 500
_PASSING: Final = frozenset({401, 429})
"""It does not know us, or is too busy: neither is about what was asked for."""


def is_refusal(error: ApiError) -> bool:
    """Whether the API server understood and said no; else it was not reached, or is in trouble itself."""
    return 0 < error.status < _SERVER and error.status not in _PASSING


def is_quota(error: ApiError) -> bool:
    """Whether a quota is in the way, which whatever goes makes room in."""
    return "exceeded quota" in error.message


def of_refusal(error: ApiError, what: str) -> SandkeeperError:
    """Say that something cannot be made because the API server refuses it."""
    message = f"The API server refuses the {what}: {error.message}"
    return (Transient if is_quota(error) else Permanent)(Reason.CREATE_FAILED, message)


def foreign(what: str, name: str, fix: str) -> Permanent:
    """Say that something that is not ours has our name."""
    message = f"There is a {what} {name} that is not proven to be this sandbox's. It is left alone; {fix}."
    return Permanent(Reason.NAME_CONFLICT, message)
