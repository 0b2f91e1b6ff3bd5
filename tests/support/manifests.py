"""Manifests as kubectl is given them.

As JSON. What has no quotes in YAML is a number more often to kubectl than to Python's library: 1e234567 for one, which
a random name may be.
"""

import json
from typing import Any

__all__ = ["to_json"]


def to_json(*manifests: dict[str, Any]) -> str:
    """Write one manifest, or several as a list."""
    if len(manifests) == 1:
        return json.dumps(manifests[0])
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
