"""The configuration hash: one short text that is equal exactly when two runtimes would be made alike.

A changed hash replaces a running sandbox, so it must not change for less: not with the order of keys in a
mapping, not with another spelling of the same value, and not because a new version of the operator knows a
field more. Therefore a value that equals the built-in default is left out before hashing, within ``pod`` as well.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, replace
from typing import Any, Final

from sandkeeper.api.policy import Backend
from sandkeeper.config.builtin import BUILT_IN
from sandkeeper.config.levels import merge_containers, present
from sandkeeper.config.pod import (
    DEFAULT_POD,
    ClaimTemplate,
    ClaimVolume,
    Egress,
    EgressPort,
    EgressRule,
    EmptyDirVolume,
    HostPathVolume,
    PodShape,
    SharedMount,
)
from sandkeeper.config.resolution import RuntimeConfig, UlimitValue
from sandkeeper.config.shape import shape
from sandkeeper.config.sources import ClaimSource, ConfigMapSource, HostSource

__all__ = ["EPOCH", "NOT_SHAPING", "POD_NOT_SHAPING", "canonical_json", "config_hash", "parse_epoch"]

EPOCH: Final = 2
"""Raised when a built-in default changes, or when the same configuration comes to make another runtime.

A runtime of a lower epoch is drift like any other; one of a higher epoch was made by a newer operator and is
left alone."""

NOT_SHAPING: Final = frozenset(
    {
        # How long we wait for setupCommand; what it makes of the runtime is the same.
        "setup_timeout_seconds",
        # Decides whether a runtime can be made when the image is missing. One that runs has its image.
        "image_fallback",
    }
)
"""Fields of :class:`RuntimeConfig` that leave the runtime as it is."""

POD_NOT_SHAPING: Final = frozenset(
    {
        # How an image comes to a node. A Pod that runs has its image.
        "image_pull_secrets",
        "image_pull_policy",
    }
)
"""Fields of :class:`~sandkeeper.config.pod.PodShape` that leave the Pod as it is."""

_ALWAYS: Final = frozenset({"backend"})
"""Its default is the operator's choice, not ours, so there is no value that could be left out."""

_VOLUMES: Final[Mapping[type[object], str]] = {
    EmptyDirVolume: "emptyDir",
    ClaimVolume: "claim",
    ClaimTemplate: "template",
    HostPathVolume: "hostPath",
    HostSource: "hostPath",
    ClaimSource: "claim",
    ConfigMapSource: "configMap",
}

_FORM: Final = re.compile(r"v([1-9][0-9]{0,8})-[0-9a-f]{16}", re.ASCII)

_DEFAULT: Final = shape(
    merge_containers([BUILT_IN.container]),
    backend=Backend.DOCKER,
    env=present(present(BUILT_IN.container).env),
)


def config_hash(config: RuntimeConfig) -> str:
    """Return ``v<epoch>-<16 hex digits>``: sha256 over the canonical JSON."""
    digest = hashlib.sha256(canonical_json(config).encode("ascii")).hexdigest()
    return f"v{EPOCH}-{digest[:16]}"


def canonical_json(config: RuntimeConfig) -> str:
    """Return what shapes the runtime and is not built in, as JSON with sorted keys and nothing superfluous.

    The order of a list is kept: binds, tmpfs and DNS servers mean something by their order.
    """
    pod = replace(config.pod, **{name: getattr(DEFAULT_POD, name) for name in POD_NOT_SHAPING})
    config = replace(config, pod=pod)
    shaping = {
        name: _plain(value)
        for name in (field.name for field in fields(config))
        if name not in NOT_SHAPING
        and ((value := getattr(config, name)) != getattr(_DEFAULT, name) or name in _ALWAYS)
    }
    return json.dumps(shaping, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def parse_epoch(text: str) -> int | None:
    """Return the epoch of a hash; None: it is not a hash of ours."""
    match = _FORM.fullmatch(text)
    return None if match is None else int(match[1])


def _plain(value: object) -> object:
    match value:
        case UlimitValue():
            return [value.soft, value.hard]
        case _ if type(value) in _VOLUMES:
            # A claim outlives Pods. Whatever its template comes to say, a new Pod gets the same claim.
            return {_VOLUMES[type(value)]: {} if isinstance(value, ClaimTemplate) else _said(value)}
        case PodShape() | SharedMount() | Egress() | EgressRule() | EgressPort():
            return _said(value)
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def _said(value: Any) -> dict[str, object]:  # noqa: ANN401 - any of our dataclasses
    """Return what does not have its default."""
    pairs = ((field, getattr(value, field.name)) for field in fields(value))
    return {field.name: _plain(found) for field, found in pairs if found != _default(field)}


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
