"""The small tree of errors.

::

    SandkeeperError
    ├── Transient    it may work later; says when to try again
    └── Permanent    it will not work until somebody changes something

Each carries a reason from the one enum and a message for the person who reads the condition.
"""

from sandkeeper.api.conditions import Reason

__all__ = ["Permanent", "SandkeeperError", "Transient"]


class SandkeeperError(Exception):
    """Something could not be done. ``reason`` goes to conditions, Events, metrics; ``message`` to people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Transient(SandkeeperError):  # noqa: N818 - the kind of error is the name
    """It may work later, without anybody changing anything.

    ``delay`` is in seconds; None: the usual back-off.
    """

    def __init__(self, reason: Reason, message: str, *, delay: float | None = None) -> None:
        super().__init__(reason, message)
        self.delay = delay


class Permanent(SandkeeperError):  # noqa: N818 - the kind of error is the name
    """It will not work until somebody changes something; tried again with a growing delay all the same."""
