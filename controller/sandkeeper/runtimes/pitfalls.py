"""Why a setupCommand fails that works elsewhere: a sandbox is not what most commands are written for.

By default a sandbox has no network, a root file system that cannot be written to, a user who is not root, and no
capabilities. A command that needs one of these says so in its own words, which name no field of a policy. Told is only
what the output points to and the configuration bears out.

The words are those of the programs themselves, of Debian 12 and of Alpine, collected in hardened containers.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sandkeeper.api.policy import Backend
from sandkeeper.config.capabilities import ALL, DEFAULT
from sandkeeper.config.mounts import mount_points
from sandkeeper.config.resolution import RuntimeConfig

__all__ = ["pitfalls"]

_SYSTEM: Final = r"(?<![\w./-])/(?:bin|boot|etc|lib\w*|opt|root|sbin|srv|usr|var(?!/tmp\b))\b"
"""Where images keep what belongs to root."""
_DENIED: Final = rf"{_SYSTEM}.*permission denied|permission denied.*{_SYSTEM}"
_APT_OR_APK: Final = (
    r"are you root\?|/var/(?:lib|cache)/apt/|unable to lock database|failed to open apk database"
)
"""Their first complaint is not their last: who installs packages needs all that a sandbox lacks."""
_SPEAKER: Final = re.compile(r"^/\S+: \d+: ", re.MULTILINE)
"""A shell that says who it is, and where in its script: ``/bin/sh: 1: cannot create ...``."""
_PACKAGES: Final = rf"{_APT_OR_APK}|dpkg: error: .*(?:superuser privilege|database directory)"
_UNWRITTEN: Final = r"curl: \(23\)|cannot lock /etc/"
"""A file could not be written; for which reason, it does not say."""

_OF_PACKAGES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
"""The capabilities without which apt and dpkg install nothing, tried one by one."""


@dataclass(frozen=True, kw_only=True)
class _Pitfall:
    """Something that a sandbox lacks."""

    signs: re.Pattern[str]
    """How programs complain about it."""
    advice: Callable[[RuntimeConfig], str | None]
    """What to change; None: this sandbox does not lack it."""


def pitfalls(config: RuntimeConfig, output: str) -> Sequence[str]:
    """Say in whole sentences what a command that printed this seems to have failed for want of, and what to change."""
    found = list(dict.fromkeys(_found(config, output)))
    return [*found, "An image that brings what is to be installed needs none of this."] if found else []


def _found(config: RuntimeConfig, output: str) -> Iterator[str]:
    about_the_root = _without_mounts(config, output)
    for pitfall, text in ((_NO_NETWORK, output), *((pitfall, about_the_root) for pitfall in _OF_THE_ROOT)):
        if pitfall.signs.search(text) is not None and (advice := pitfall.advice(config)) is not None:
            yield advice


def _without_mounts(config: RuntimeConfig, output: str) -> str:
    """Leave out the lines about what is mounted: who may write there has nothing to do with the root file system."""
    lines = _SPEAKER.sub("", output).splitlines()
    for point in mount_points(config):
        mounted = re.compile(rf"(?<![\w./-]){re.escape(point.target)}(?![\w.-])")
        lines = [line for line in lines if mounted.search(line) is None]
    return "\n".join(lines)


def _signs(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


def _network(config: RuntimeConfig) -> str | None:
    if config.backend is Backend.DOCKER:
        if config.network != "none":
            return None
        return (
            "The sandbox has no network: to give it one, set container.network in the policy to a network that the "
            "operator's ceilings.networks lists, such as bridge."
        )
    egress = config.pod.egress
    missing = [] if egress.dns else ["pod.egress.dns"]
    if not egress.internet and not egress.to:
        missing.append("pod.egress.internet")
    if not missing:
        return None
    return (
        f"The Pod is not allowed to reach what it needs: set {' and '.join(missing)} to true in the policy, within "
        "the operator's ceilings.egress."
    )


def _writable_root(config: RuntimeConfig) -> str | None:
    if not config.read_only_root:
        return None
    return "The root file system is read-only: to write to it, set container.readOnlyRoot to false in the policy."


def _root(config: RuntimeConfig) -> str | None:
    if _is_root(config):
        return None
    return (
        f'container.user is {config.user}, not root: to run as root, set container.user to "0:0" in the policy; the '
        'operator\'s ceilings.users has to list "0".'
    )


def _capabilities(config: RuntimeConfig) -> str | None:
    if not {ALL, *_OF_PACKAGES} & set(config.cap_drop):
        return None
    others = ", ".join(name for name in DEFAULT if name not in _OF_PACKAGES)
    return (
        f"Even root lacks {', '.join(_OF_PACKAGES)}: to keep them, set container.capDrop to [{others}] in the policy; "
        "the operator's ceilings.capabilities has to list them."
    )


def _capabilities_of_root(config: RuntimeConfig) -> str | None:
    return _capabilities(config) if _is_root(config) else None


def _is_root(config: RuntimeConfig) -> bool:
    return config.user.partition(":")[0] == "0"


_NO_NETWORK: Final = _Pitfall(
    signs=_signs(
        r"temporary failure (?:in name resolution|resolving)",
        r"could not resolve host|unable to resolve host address|resolving timed out|bad address '",
        r"\bEAI_AGAIN\b|network is unreachable|connection timed out",
        r"couldn't connect to server|timeout was reached|temporary error \(try again later\)",
        _APT_OR_APK,
    ),
    advice=_network,
)
_OF_THE_ROOT: Final = (
    _Pitfall(signs=_signs(r"read-only file system|\bEROFS\b", _UNWRITTEN, _PACKAGES), advice=_writable_root),
    _Pitfall(signs=_signs(_DENIED, r"ch(?:own|mod): .*not permitted", _UNWRITTEN, _PACKAGES), advice=_root),
    _Pitfall(signs=_signs(_PACKAGES), advice=_capabilities),
    _Pitfall(signs=_signs(_DENIED, r"not permitted|/etc/shadow"), advice=_capabilities_of_root),
)
