"""Why a file could not be read, written, listed or moved.

::

    BridgeError
    ├── NotFound        there is no such file or directory
    ├── Exists          something is there already, or a directory is not empty
    ├── WrongKind       a directory where a file was meant, or the other way round
    ├── ReadOnly        the mount is read-only
    ├── Denied          the sandbox's user may not
    ├── OutsideMounts   the path lies in no mount: it is nobody's, or only the sandbox's
    ├── Refused         it could be a way out of the mount, and is refused to everybody
    ├── TooLarge        it is larger than the caller wants to have it
    ├── NoSpace         the disk, or a quota, is full
    ├── Failed          the operating system says something else
    └── Unavailable     the sandbox did not answer, or what answered made no sense

Every message is ours: nothing that code in the sandbox says gets into one unquoted.
"""

__all__ = [
    "BridgeError",
    "Denied",
    "Exists",
    "Failed",
    "NoSpace",
    "NotFound",
    "OutsideMounts",
    "ReadOnly",
    "Refused",
    "TooLarge",
    "Unavailable",
    "WrongKind",
]


class BridgeError(Exception):
    """It was not done; where :class:`Unavailable` says so, it may have been."""


class NotFound(BridgeError):  # noqa: N818 - the kind of error is the name, here and below
    """There is no such file or directory."""


class Exists(BridgeError):  # noqa: N818
    """Something is there already, or the directory is not empty."""


class WrongKind(BridgeError):  # noqa: N818
    """It is a directory where a file was meant, or a file where a directory was."""


class ReadOnly(BridgeError):  # noqa: N818
    """The mount is read-only."""


class Denied(BridgeError):  # noqa: N818
    """The sandbox's own user may not do this."""


class OutsideMounts(BridgeError):  # noqa: N818
    """The path lies in no mount of the sandbox."""


class Refused(BridgeError):  # noqa: N818
    """It could lead out of the mount, or was made to; nobody gets it through the bridge."""


class TooLarge(BridgeError):  # noqa: N818
    """It is more than the caller allows."""


class NoSpace(BridgeError):  # noqa: N818
    """The disk, or a quota, is full."""


class Failed(BridgeError):  # noqa: N818
    """The operating system of the sandbox says something else."""


class Unavailable(BridgeError):  # noqa: N818
    """The sandbox did not answer in time, or not in a way that makes sense. A change may have been made or not."""
