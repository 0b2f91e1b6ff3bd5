"""Seccomp profiles, which a policy names and the installer keeps: the engine takes their content, not their name."""

import json
from pathlib import Path
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.runtimes.docker.sources import reason_of

__all__ = ["is_kept", "read_profile"]

_UNCONFINED: Final = "unconfined"
_LARGEST: Final = 1 << 20


def is_kept(name: str | None) -> bool:
    """Whether a file has to be read for it."""
    return name not in {None, _UNCONFINED}


def read_profile(name: str | None, directory: str | None) -> str | None:
    """Return what the engine is told: the profile, ``unconfined``, or nothing. Permanent where there is no such one."""
    if name is None or name == _UNCONFINED:
        return name
    if directory is None:
        raise _none(name, "the operator has no directory of profiles (docker.seccompProfiles)")
    candidates = (Path(directory, name), Path(directory, f"{name}.json"))
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise _none(name, "the operator's directory of profiles has no file of that name")
    try:
        with path.open("rb") as file:
            profile = json.loads(file.read(_LARGEST))
    except OSError as error:
        raise _none(name, f"its file cannot be read: {reason_of(error)}") from None
    except ValueError:
        profile = None
    if not isinstance(profile, dict):
        raise _none(name, "its file is no JSON object")
    return json.dumps(profile, separators=(",", ":"))


def _none(name: str, why: str) -> Permanent:
    return Permanent(Reason.INVALID_CONFIG, f"container.seccompProfile: there is no profile {name!r}: {why}.")
