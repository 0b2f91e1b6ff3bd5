"""Names and labels of runtimes: how one is called, how it is found again, and how it is proven ours.

A name is for people and for the engine's uniqueness check. What a runtime is, only its labels say: the
installation and the key they name have to give the key hash they carry. Kubernetes takes 63 plain characters
for a label's value, and a session key is free text; so on a Pod the labels keep what is searched for, and the
rest is in annotations of the same names.
"""

import base64
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final

from sandkeeper.api.names import MANAGED_BY, Label
from sandkeeper.config.keys import RuntimeKey

__all__ = [
    "MAX_NAME",
    "installation_id",
    "key_from_labels",
    "key_from_pod",
    "key_hash",
    "labels",
    "pod_annotations",
    "pod_labels",
    "runtime_name",
    "slug",
    "wiped_for",
]

MAX_NAME: Final = 63
"""Characters of a DNS-1123 label (RFC 1123, as Kubernetes applies it)."""

_MAX_SLUG: Final = 32
_NAME_HASH: Final = 13
"""Base 32 characters: 65 bits. The session key is free text, and whoever made one that gives the name of
another's runtime would keep that one from being made; so the hash is longer than chance alone would ask
for."""
_KEY_HASH: Final = 40
_INSTALLATION: Final = 16

_OUTSIDE: Final = re.compile(r"[^a-z0-9]+")


def slug(text: str) -> str:
    """Return a readable remainder of the text: lower-case letters, digits, inner dashes; 32 at most.

    It may be empty, and different texts may give the same.
    """
    return _OUTSIDE.sub("-", text.lower()).strip("-")[:_MAX_SLUG].rstrip("-")


@lru_cache(maxsize=16384)
def runtime_name(prefix: str, key: RuntimeKey, installation: str) -> str:
    """Return the name of the key's runtime: prefix, slug of the scope key, hash.

    A DNS-1123 label whatever the input.
    """
    suffix = base64.b32encode(_digest(key, installation)).decode("ascii").lower()[:_NAME_HASH]
    begin = _OUTSIDE.sub("-", prefix.lower()).lstrip("-") + slug(key.scope)
    # The hash is what makes the name unique, so it is the rest that gives way.
    begin = begin[: MAX_NAME - _NAME_HASH - 1].rstrip("-")
    return f"{begin}-{suffix}" if begin else suffix


def key_hash(key: RuntimeKey, installation: str) -> str:
    """Return the hash by which the key's runtime is found: 40 hex digits, fit for a label's value."""
    return _digest(key, installation).hex()[:_KEY_HASH]


def installation_id(*, kube_system_uid: str, namespace: str, release: str) -> str:
    """Return who we are among all operators that may share an engine: 16 hex digits.

    The UID of the namespace kube-system stands for the cluster: it is unique, and lasts as long as the
    cluster does.
    """
    return _hash(kube_system_uid, namespace, release).hex()[:_INSTALLATION]


def labels(
    key: RuntimeKey,
    *,
    installation: str,
    config_hash: str,
    has_setup: bool = False,
    wiped_for: Collection[str] = (),
) -> dict[str, str]:
    """Return the labels of a Docker container, whose values may be any text."""
    found = {
        Label.MANAGED_BY.value: MANAGED_BY,
        Label.INSTALLATION.value: installation,
        Label.NAMESPACE.value: key.namespace,
        Label.NAMESPACE_UID.value: key.namespace_uid,
        Label.POLICY.value: key.policy,
        Label.KEY.value: key.scope,
        Label.KEY_HASH.value: key_hash(key, installation),
        Label.CONFIG_HASH.value: config_hash,
    }
    return found | _marks(has_setup=has_setup, wiped_for=wiped_for)


def key_from_labels(labels: Mapping[str, str], installation: str) -> RuntimeKey | None:
    """Return the key of a runtime that is proven ours: same installation, and a key hash that its key gives.

    None: it is not ours, or its labels were tampered with; either way it is not to be touched.
    """
    return _proven(labels, namespace=labels.get(Label.NAMESPACE), parts=labels, installation=installation)


def pod_labels(key: RuntimeKey, *, installation: str) -> dict[str, str]:
    """Return the labels of what Kubernetes keeps for the key: by these it is found."""
    return {
        Label.MANAGED_BY.value: MANAGED_BY,
        Label.INSTALLATION.value: installation,
        Label.KEY_HASH.value: key_hash(key, installation),
    }


def pod_annotations(
    key: RuntimeKey,
    *,
    config_hash: str | None = None,
    has_setup: bool = False,
    wiped_for: Collection[str] = (),
) -> dict[str, str]:
    """Return the annotations that go with :func:`pod_labels`.

    Without ``config_hash`` they are of something that outlives a change of the configuration.
    """
    found = {
        Label.NAMESPACE_UID.value: key.namespace_uid,
        Label.POLICY.value: key.policy,
        Label.KEY.value: key.scope,
    }
    if config_hash is not None:
        found[Label.CONFIG_HASH.value] = config_hash
    return found | _marks(has_setup=has_setup, wiped_for=wiped_for)


def wiped_for(marks: Mapping[str, str]) -> frozenset[str]:
    """Return the wipes that a runtime was made with or after, from a container's labels or a Pod's annotations."""
    return frozenset(marks.get(Label.WIPED_FOR, "").split())


def key_from_pod(metadata: Mapping[str, Any], installation: str) -> RuntimeKey | None:
    """Return the key of a Pod, or of a claim made for one, as :func:`key_from_labels` does.

    The namespace is the one that the object is in: a copy elsewhere proves nothing. Whoever may make Pods
    there could write all of this as well, so it says what a Pod is for; whose it is, its owners say.
    """
    return _proven(
        metadata.get("labels") or {},
        namespace=metadata.get("namespace"),
        parts=metadata.get("annotations") or {},
        installation=installation,
    )


def _proven(
    labels: Mapping[str, str], *, namespace: str | None, parts: Mapping[str, str], installation: str
) -> RuntimeKey | None:
    if labels.get(Label.MANAGED_BY) != MANAGED_BY or labels.get(Label.INSTALLATION) != installation:
        return None
    uid, policy, scope = (parts.get(name) for name in (Label.NAMESPACE_UID, Label.POLICY, Label.KEY))
    if namespace is None or uid is None or policy is None or scope is None:
        return None
    key = RuntimeKey(intern(namespace), intern(uid), intern(policy), scope)
    return key if labels.get(Label.KEY_HASH) == key_hash(key, installation) else None


def _marks(*, has_setup: bool, wiped_for: Collection[str]) -> dict[str, str]:
    found = {Label.SETUP.value: "true"} if has_setup else {}
    return found | ({Label.WIPED_FOR.value: " ".join(wiped_for)} if wiped_for else {})


@lru_cache(maxsize=16384)
def _digest(key: RuntimeKey, installation: str) -> bytes:
    return _hash(installation, key.namespace, key.namespace_uid, key.policy, key.scope)


def _hash(*parts: str) -> bytes:
    # A JSON array keeps the parts apart whatever they contain: "a-b" "c" is not "a" "b-c".
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()
