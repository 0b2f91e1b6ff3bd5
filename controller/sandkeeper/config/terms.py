"""What the sandbox sections of an OpenClaw gateway's configuration come to in our terms, field by field.

Most fields are called alike on both sides and mean the same. What is meant alike and written otherwise is converted;
what there is no place for has a reason.
"""

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError

from sandkeeper.api.types import Bind, EnvName, EnvValue

__all__ = [
    "GATEWAYS",
    "SECTIONS",
    "TERMS",
    "Convert",
    "Place",
    "Remark",
    "directory",
    "why_at_the_top",
    "why_left",
]


@dataclass(frozen=True)
class Remark:
    """What there is to say about one field."""

    field: str
    text: str


@dataclass(frozen=True)
class Place:
    """A place in the source, for whoever converts what stands there."""

    at: str
    home: str | None
    """What ``~`` stands for."""
    left: list[Remark]

    def leave(self, part: str, why: str) -> None:
        """Leave a part of it out."""
        self.left.append(Remark(f"{self.at}{part}", why))


Convert = Callable[[object, Place], object]
"""Says what a value comes to. ValueError, with the reason: nothing, the field is left out."""

GATEWAYS: Final = "the gateway's own affair"
_UNKNOWN: Final = "there is no such field here"
_LEFT: Final = {
    "ssh": "there is no backend ssh",
    "browser": "no browser is run as yet",
    "docker.dangerouslyAllowExternalBindSources": "what may be bound, the installer says in ceilings.bindRoots",
    "docker.dangerouslyAllowReservedContainerTargets": "the workspace's own places take no binds, whoever asks",
}
"""By the place in a ``sandbox`` section, with all that is below it: why there is nothing like it."""
_AT_THE_TOP: Final = {
    "tools": "which tools an agent may use, its gateway decides; nothing here narrows or widens that",
    "plugins": "there are no backends of plugins, nor anything else of theirs",
}
_NAME: Final[TypeAdapter[str]] = TypeAdapter(EnvName)
_TEXT: Final[TypeAdapter[str]] = TypeAdapter(EnvValue)
_BIND: Final[TypeAdapter[str]] = TypeAdapter(Bind)


def why_left(name: str) -> str:
    """Tell why a field of a ``sandbox`` section is not in :data:`TERMS`."""
    return _LEFT.get(name) or _LEFT.get(name.partition(".")[0], _UNKNOWN)


def why_at_the_top(name: str) -> str:
    """Tell the same of what stands beside the ``sandbox`` sections, or above them."""
    return _AT_THE_TOP.get(name, GATEWAYS)


def directory(value: object, place: Place) -> object:
    """Write a directory of the gateway's host in full."""
    if isinstance(value, str) and (value == "~" or value.startswith("~/")):
        if place.home is None:
            raise ValueError("~ is somebody's home: say whose with --home, or write the path in full")
        return posixpath.join(place.home, value[2:]).rstrip("/")
    return value


def _as_it_is(value: object, _place: Place) -> object:
    return value


def _session_or_shared(value: object, _place: Place) -> object:
    if not isinstance(value, bool):
        raise ValueError("has to be true or false")  # noqa: TRY004 - it is the user's text that is wrong
    return "session" if value else "shared"


def _backend(value: object, _place: Place) -> object:
    if value != "docker":
        raise ValueError(f"there is no backend {value}; as nothing is said, it is the operator's default")
    return value


def _user(value: object, _place: Place) -> object:
    text = str(value)
    if not text.replace(":", "").isdecimal():
        raise ValueError(
            "a name does not say who that is in an unknown image: give uid:gid in numbers, or auto"
        )
    return text


def _profile(value: object, _place: Place) -> object:
    if isinstance(value, str) and "/" in value:
        raise ValueError(
            "profiles go by their names here, not by paths: put the file into the operator's docker.seccompProfiles, "
            f"and say {posixpath.basename(value)}"
        )
    return value


def _amount(value: object, _place: Place) -> object:
    if value == 0:
        raise ValueError("0 is no limit there, which is what saying nothing is here")
    return value


def _size(value: object, place: Place) -> object:
    """Write bytes, which may be a number there, as a text."""
    value = _amount(value, place)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _seconds(each: int) -> Convert:
    def seconds(value: object, _place: Place) -> object:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError("has to be a number")  # noqa: TRY004 - it is the user's text that is wrong
        return round(value * each)

    return seconds


def _ulimits(value: object, place: Place) -> object:
    """Read a number, ``soft:hard``, or the two by name, of which one may stand for both."""
    found = {}
    for name, limit in _mapping(value).items():
        if isinstance(limit, Mapping):
            soft, hard = limit.get("soft", limit.get("hard")), limit.get("hard", limit.get("soft"))
        else:
            soft, _, hard = str(limit).partition(":")
        try:
            found[name] = {"soft": int(soft), "hard": int(hard or soft)}
        except (TypeError, ValueError):
            place.leave(f".{name}", "has to be a number, soft:hard, or soft and hard by name")
    return found


def _env(value: object, place: Place) -> object:
    found = {}
    for name, text in _mapping(value).items():
        try:
            found[_NAME.validate_python(name)] = _TEXT.validate_python(text)
        except ValidationError as error:
            place.leave(f".{name}", error.errors()[0]["msg"])
    return found


def _binds(value: object, place: Place) -> object:
    """Say what is unsaid: a bind that says neither ro nor rw is writable there, and read-only here."""
    if not isinstance(value, list):
        raise ValueError("has to be a list")  # noqa: TRY004 - it is the user's text that is wrong
    found = []
    for number, bind in enumerate(value):
        says_neither = isinstance(bind, str) and bind.count(":") == 1
        try:
            found.append(_BIND.validate_python(f"{bind}:rw" if says_neither else bind))
        except ValidationError:
            place.leave(f"[{number}]", "has to be /host/path:/container/path, and then :ro, :rw or nothing")
    return found


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError("has to be a mapping")  # noqa: TRY004 - it is the user's text that is wrong
    return value


_ALIKE: Final = (
    *("image", "containerPrefix", "workdir", "readOnlyRoot", "tmpfs", "network", "capDrop", "setupCommand"),
    *("apparmorProfile", "dns", "extraHosts", "gpus", "dangerouslyAllowContainerNamespaceJoin"),
)
"""Of ``docker``: what is called, written and meant as in ``container``."""

TERMS: Final[Mapping[str, tuple[tuple[str, ...], Convert]]] = {
    "mode": (("mode",), _as_it_is),
    "scope": (("scope",), _as_it_is),
    "perSession": (("scope",), _session_or_shared),
    "backend": (("backend",), _backend),
    "workspaceAccess": (("workspace", "access"), _as_it_is),
    "workspaceRoot": (("workspace", "volume", "hostPath", "path"), directory),
    **{f"docker.{name}": (("container", name), _as_it_is) for name in _ALIKE},
    "docker.binds": (("container", "binds"), _binds),
    "docker.cpus": (("container", "cpus"), _amount),
    "docker.env": (("container", "env"), _env),
    "docker.memory": (("container", "memory"), _size),
    "docker.memorySwap": (("container", "memorySwap"), _size),
    "docker.pidsLimit": (("container", "pidsLimit"), _amount),
    "docker.seccompProfile": (("container", "seccompProfile"), _profile),
    "docker.ulimits": (("container", "ulimits"), _ulimits),
    "docker.user": (("container", "user"), _user),
    "browser.binds": (("browser", "binds"), _binds),
    "prune.idleHours": (("prune", "idleSeconds"), _seconds(3_600)),
    "prune.maxAgeDays": (("prune", "maxAgeSeconds"), _seconds(86_400)),
}
"""By the place in a ``sandbox`` section: the place in a level of a policy, and what the value comes to there."""

SECTIONS: Final = frozenset(path.rpartition(".")[0] for path in TERMS) - {""}
"""The places in a ``sandbox`` section that have fields below them."""
