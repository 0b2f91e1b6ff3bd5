"""Nothing is mounted that lies in a directory to which another sandbox writes.

That one could put a link in its place at any moment, after every check, and the kubelet follows links as long as they
stay in the volume. The same directory may be shared. And what is mounted over itself wherever its directory is written
to, as an agent's skills are, cannot be swapped.
"""

from collections.abc import Mapping
from typing import Any

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.config.binds import swappable
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.runtimes.pod.places import around, places, written_in
from sandkeeper.runtimes.pod.pods import Pods

__all__ = ["refuse_swappable"]


def refuse_swappable(key: RuntimeKey, body: Mapping[str, Any], pods: Pods) -> None:
    """Permanent with BIND_REFUSED where the Pod would mount such a directory; the key's own Pod goes before it."""
    own = written_in(body)
    for place in places(body):
        for root, name in around(place.path):
            others = (pod.writes for pod in pods.writing(root) if pod.key != key)
            if any(root in writes and name not in writes[root] for writes in (own, *others)):
                raise Permanent(Reason.BIND_REFUSED, swappable(str(place.path), root))
