"""What is said between the bridge and the program that does the work inside a sandbox.

A request is the program itself, a header and data, one after the other on standard input, so neither a path nor data is
ever in a list of processes or in the address of a request. An answer is a header and data on standard output.

What answers is at the mercy of the code in the sandbox, and may say anything. It is taken for an answer only if all of
it is as it should be; and of its words, only those that are known here.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from importlib import resources
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sandkeeper.bridge.table import Place

__all__ = [
    "PYTHONS",
    "Answer",
    "Entry",
    "GarbledError",
    "Kind",
    "Refusal",
    "Stat",
    "command",
    "decode",
    "encode",
    "encoded",
    "most",
]

PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3")
"""Where images have it. Not looked for on PATH, which whoever makes a Sandbox may set."""

_PROGRAM: Final = resources.files(__package__).joinpath("helper.py").read_bytes()
_BEGIN: Final = (
    "import signal,sys;signal.alarm({seconds});i=sys.stdin.buffer;"
    "exec(compile(i.read(int(i.readline())),'sandkeeper','exec'))"
)
"""Reads the program, and ends by itself where it never comes."""

_LENGTHS: Final = re.compile(rb"(\d{1,10}) (\d{1,10})\n")
"""Of header and data, before both."""
_HEADER: Final = 1024
"""Most bytes of a header and the lengths before it, but for entries."""
_ENTRY: Final = 4096
"""Most bytes of an entry: a long name in hex, and some numbers."""
_LARGEST: Final = 2**63 - 1


class GarbledError(Exception):
    """What answered makes no sense."""


class Refusal(StrEnum):
    """Why the program does not do something that the operating system might."""

    LINK = "link"
    HARD_LINK = "hard-link"
    SPECIAL = "special"
    OTHER_MOUNT = "other-mount"
    NOT_MOUNTED = "not-mounted"
    NO_MOUNT_IDS = "no-mount-ids"
    TOO_LARGE = "too-large"
    TOO_DEEP = "too-deep"
    TOO_SLOW = "too-slow"
    CUT_OFF = "cut-off"


class Kind(StrEnum):
    """What something in a directory is."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"


class _Said(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Stat(_Said):
    """What there is to know of a file or a directory."""

    kind: Kind
    size: Annotated[int, Field(ge=0, le=_LARGEST)]
    """Bytes."""
    mode: Annotated[int, Field(ge=0, le=0o7777)]
    """The permissions."""
    links: Annotated[int, Field(ge=0, le=_LARGEST)]
    """How many names it has. A file with several is not read."""
    modified_ns: Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)]
    """When it was written last, in nanoseconds since 1970; set by anybody to anything."""


def _name(text: str) -> str:
    name = bytes.fromhex(text)
    if b"/" in name or b"\0" in name or name in {b".", b".."}:
        raise ValueError("no name of a file")
    return name.decode("utf-8", "surrogateescape")


class Entry(_Said):
    """Something in a directory."""

    name: Annotated[
        str, StringConstraints(min_length=2, max_length=2048, pattern=r"^[0-9a-f]+$"), AfterValidator(_name)
    ]
    """Bytes of it that are not UTF-8 are lone surrogates, as :func:`os.fsdecode` has them."""
    about: Stat


class Answer(_Said):
    """The header of an answer."""

    refused: Refusal | None = None
    errno: Annotated[int, Field(ge=0, le=4095)] | None = None
    about: Stat | None = None
    entries: tuple[Entry, ...] | None = None


def encoded(name: str) -> bytes:
    """Return a path, or a part of one, as the operating system has it."""
    return name.encode("utf-8", "surrogateescape")


def command(python: str, *, seconds: int) -> tuple[str, ...]:
    """Return the command that takes a request on its standard input."""
    # -I: nothing from the environment, nor from the working directory, to which the sandbox writes. -S: no packages.
    return (python, "-I", "-S", "-c", _BEGIN.format(seconds=seconds))


def encode(
    operation: str, place: Place, options: Mapping[str, object], *, data: bytes, seconds: int
) -> bytes:
    """Put a request together. Options are of what Python's literals can say."""
    request = {
        "operation": operation,
        "mount": encoded(place.mount.target),
        "has_links": place.mount.has_links,
        "names": [encoded(name) for name in place.parts],
        "options": dict(options),
        "seconds": seconds,
        "size": len(data),
    }
    header = ascii(request).encode()
    return b"%d\n%s%d\n%s%s" % (len(_PROGRAM), _PROGRAM, len(header), header, data)


def most(*, data: int = 0, entries: int = 0) -> int:
    """Return how many bytes an honest answer has at most."""
    return _HEADER + entries * _ENTRY + data


def decode(said: bytes) -> tuple[Answer, bytes]:
    """Take an answer apart. GarbledError: it is none."""
    lengths = _LENGTHS.match(said)
    if lengths is None:
        raise GarbledError("it does not begin as an answer does")
    header, data = int(lengths[1]), int(lengths[2])
    if len(said) != lengths.end() + header + data:
        raise GarbledError("it is not as long as it says")
    try:
        answer = Answer.model_validate_json(said[lengths.end() : lengths.end() + header])
    except ValidationError as error:
        raise GarbledError(f"{error.error_count()} things in it are not as they should be") from None
    return answer, said[lengths.end() + header :]
