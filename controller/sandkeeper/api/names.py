"""The names under which Sandkeeper is known to a cluster: group, annotations, labels, finalizer."""

from enum import StrEnum
from typing import Final

__all__ = [
    "API_VERSION",
    "FINALIZER",
    "GROUP",
    "MANAGED_BY",
    "PREFIX",
    "VERSION",
    "Annotation",
    "Label",
]

GROUP: Final = "sandkeeper.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
PREFIX: Final = f"{GROUP}/"

FINALIZER: Final = f"{PREFIX}finalizer"
"""Set on a Sandbox while it may own a Docker container, which no garbage collector would remove."""

MANAGED_BY: Final = "sandkeeper"
"""The value of ``app.kubernetes.io/managed-by`` on everything that we make."""


class Annotation(StrEnum):
    """What a user writes on a Sandbox to say something about one moment, not about the whole."""

    LAST_USED = f"{PREFIX}last-used"
    """RFC 3339. The Sandbox was used at this time."""
    HOLD_UNTIL = f"{PREFIX}hold-until"
    """RFC 3339. Work goes on until then: neither replace nor prune."""
    RECREATE = f"{PREFIX}recreate"
    """Free text. Any value not seen before asks once for a new runtime."""
    WIPE = f"{PREFIX}wipe"
    """Free text. Any value not seen before asks once for a new runtime with a fresh copy of the workspace; of a shared
    one, when all who share it ask."""
    PAUSED = f"{PREFIX}paused"
    """Anything but ``false``: hands off this object."""


class Label(StrEnum):
    """What a runtime (a container, a Pod) carries as labels, so that it is found again and proven ours."""

    MANAGED_BY = "app.kubernetes.io/managed-by"
    INSTALLATION = f"{PREFIX}installation"
    """The installation id: which operator, in which cluster."""
    NAMESPACE = f"{PREFIX}namespace"
    NAMESPACE_UID = f"{PREFIX}namespace-uid"
    POLICY = f"{PREFIX}policy"
    KEY_HASH = f"{PREFIX}key-hash"
    """Hash of the runtime key: the index by which a runtime is found."""
    KEY = f"{PREFIX}key"
    """The scope key itself (an annotation where label values are too short for it)."""
    CONFIG_HASH = f"{PREFIX}config-hash"
    """What the runtime was made from."""
    NETWORK = f"{PREFIX}network"
    """Hash of what a Pod may reach: the NetworkPolicy of that hash selects it."""
    WRITES = f"{PREFIX}writes"
    """The directories of the host that a container writes to, as a JSON object: what lies in them may be swapped, and
    is bound nowhere. The value of each is the names in it that are mounted over, which may not."""
    WIPED_FOR = f"{PREFIX}wiped-for"
    """Digests of the wipes that were honoured when the runtime was made, with a blank between two."""
    SETUP = f"{PREFIX}setup"
    """``true`` where a setupCommand has to complete before the runtime is ready."""
