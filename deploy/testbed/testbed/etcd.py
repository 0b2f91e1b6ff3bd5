"""What tests do to etcd itself, over the JSON that it speaks beside gRPC."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

_SECONDS = 30.0


def compact(url: str) -> int:
    """Forget every revision before the present one, which is returned."""
    # Any key does: the header of the answer has the revision.
    anything = base64.b64encode(b"/").decode()
    revision = int(_post(f"{url}/v3/kv/range", {"key": anything, "limit": "1"})["header"]["revision"])
    # Physical: answer when they are gone, not when that is planned.
    _post(f"{url}/v3/kv/compaction", {"revision": str(revision), "physical": True})
    return revision


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")  # noqa: S310 - our own etcd
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
        read: dict[str, Any] = json.loads(answer.read())
    return read
