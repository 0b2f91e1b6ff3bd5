"""The environment of a sandbox, cleaned: what looks like a secret does not get in by accident.

A sandbox runs code that nobody reviewed, and an environment variable is the first thing such code reads. So a
name that looks like a secret is left out, and reported, unless the policy's author lists it in
allowSecretEnv.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.config.resolution import Problem

__all__ = ["CleanEnv", "check", "clean", "is_secret_like"]

_SECRET_LIKE: Final = re.compile(
    r"(_ADMIN_KEY"
    # Not only after an underscore: MYTOKEN and PGPASSWORD are secrets as well.
    r"|(API_KEY|TOKEN|PASSWORD|PRIVATE_KEY|SECRET)"
    # AWS_SECRET_ACCESS_KEY, AWS_SECRET_KEY, and everybody who named theirs after them.
    r"|SECRET_(ACCESS_)?KEY)\Z",
    re.IGNORECASE | re.ASCII,
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_MAX_ENTRY: Final = 128 * 1024 - 1
"""Bytes of ``NAME=value``. Linux starts no program with a longer one (MAX_ARG_STRLEN), so neither would a
runtime."""


@dataclass(frozen=True, kw_only=True)
class CleanEnv:
    """What gets in, and the names of what was left out."""

    env: Mapping[str, str]
    filtered: tuple[str, ...]
    """Sorted."""


def is_secret_like(name: str) -> bool:
    """Say whether the name ends like that of a secret, in any case."""
    return _SECRET_LIKE.search(name) is not None


def clean(env: Mapping[str, str], *, allowed: Collection[str]) -> CleanEnv:
    """Leave out what looks like a secret. ``allowed`` are the names that the policy lets in all the same."""
    filtered = {name for name in env if name not in allowed and is_secret_like(name)}
    return CleanEnv(
        env={name: value for name, value in env.items() if name not in filtered},
        filtered=tuple(sorted(filtered)),
    )


def check(env: Mapping[str, str]) -> Iterator[Problem]:
    """Find what no program can be started with.

    Admission checks names too; this is for when it was passed by.
    """
    for name, value in env.items():
        if _NAME.fullmatch(name) is None:
            yield _invalid(f"container.env has a name that is none: {name!r}")
        elif "\0" in value:
            yield _invalid(f"container.env.{name} contains a NUL character; no program can be given one")
        elif len(f"{name}={value}".encode("utf-8", errors="surrogatepass")) > _MAX_ENTRY:
            yield _invalid(f"container.env.{name} is longer than the 128 KiB that Linux passes to a program")


def _invalid(message: str) -> Problem:
    return Problem(reason=Reason.INVALID_CONFIG, message=message)
