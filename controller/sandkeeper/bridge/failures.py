"""What an answer that is no success means to the caller."""

import errno
import os
from collections.abc import Mapping
from typing import Final

from sandkeeper.bridge import errors
from sandkeeper.bridge.protocol import Refusal

__all__ = ["garbled", "of_errno", "of_refusal"]

_REFUSALS: Final[Mapping[Refusal, tuple[type[errors.BridgeError], str]]] = {
    Refusal.LINK: (
        errors.Refused,
        "it is a symbolic link, or behind one, and none is followed: it could point anywhere the next moment",
    ),
    Refusal.HARD_LINK: (
        errors.Refused,
        "the file has several names (hard links), and may belong somewhere else; read a copy that has one",
    ),
    Refusal.SPECIAL: (errors.Refused, "it is no file, but a FIFO, a socket or a device"),
    Refusal.OTHER_MOUNT: (
        errors.Refused,
        "another mount is there, on the way or below, which is not in the bridge's table",
    ),
    Refusal.NOT_MOUNTED: (
        errors.Refused,
        "its mount is not there: the sandbox is made from another configuration, or somebody moved a directory above",
    ),
    Refusal.NO_MOUNT_IDS: (
        errors.Unavailable,
        "the sandbox's kernel does not tell mounts apart (there is no mnt_id in /proc/self/fdinfo)",
    ),
    Refusal.TOO_LARGE: (errors.TooLarge, "there is more than the caller allows"),
    Refusal.TOO_DEEP: (
        errors.TooLarge,
        "its directories are too deep in each other; remove the inner ones first",
    ),
    Refusal.TOO_SLOW: (errors.Unavailable, "it took too long, and may be done in part"),
    Refusal.CUT_OFF: (errors.Unavailable, "the request did not arrive as a whole, and nothing was done"),
}

_ERRORS: Final[Mapping[int, type[errors.BridgeError]]] = {
    errno.ENOENT: errors.NotFound,
    errno.EEXIST: errors.Exists,
    errno.ENOTEMPTY: errors.Exists,
    errno.ENOTDIR: errors.WrongKind,
    errno.EISDIR: errors.WrongKind,
    errno.EACCES: errors.Denied,
    errno.EPERM: errors.Denied,
    errno.EROFS: errors.ReadOnly,
    errno.ENOSPC: errors.NoSpace,
    errno.EDQUOT: errors.NoSpace,
    errno.EFBIG: errors.TooLarge,
    errno.ENAMETOOLONG: errors.TooLarge,
    errno.EXDEV: errors.Refused,
    errno.EBUSY: errors.Refused,
}


def of_refusal(refused: Refusal, what: str) -> errors.BridgeError:
    """Return the error that stands for a word of the program's."""
    kind, why = _REFUSALS[refused]
    return kind(f"{what}: {why}")


def of_errno(number: int, what: str) -> errors.BridgeError:
    """Return the error that stands for one of the operating system's."""
    return _ERRORS.get(number, errors.Failed)(f"{what}: {os.strerror(number)}")


def garbled(what: str, how: str) -> errors.Unavailable:
    """Say that what answered makes no sense."""
    return errors.Unavailable(f"{what}: what answered in the sandbox makes no sense: {how}")
