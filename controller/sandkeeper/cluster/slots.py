"""Which namespace belongs to which slot, and which slot to whom: pure.

A namespace belongs to one of 64 slots for ever; what a namespace shares stays together. Who should have a slot is said
by rendezvous hashing: every member has a weight of its own for each slot, and the greatest has it. So a member that
comes takes slots of the others' and moves none between them, and one that goes leaves only its own.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

__all__ = ["EVERY_SLOT", "SHARES", "SLOTS", "Shares", "moves", "owner_of", "slot_of"]

SLOTS: Final = 64
EVERY_SLOT: Final = frozenset(range(SLOTS))
SHARES: Final = "sandkeeper.dev/shares"
"""The annotation of a Lease that says who has which slot."""


@lru_cache(maxsize=4096)
def slot_of(namespace: str) -> int:
    """Return the slot of a namespace."""
    return int.from_bytes(sha256(namespace.encode()).digest()[:8]) % SLOTS


def owner_of(slot: int, members: Collection[str]) -> str | None:
    """Return which of the members should have a slot; None: there is no member."""
    return max(members, key=lambda member: (_weight(slot, member), member), default=None)


@lru_cache(maxsize=SLOTS * 64)
def _weight(slot: int, member: str) -> bytes:
    return sha256(f"{slot} {member}".encode()).digest()


@dataclass(frozen=True)
class Shares:
    """Who has which slot. A slot that nobody has is left out."""

    holders: Mapping[int, str]

    @classmethod
    def parse(cls, text: str) -> "Shares":
        """Read what :meth:`to_json` wrote; ValueError where it is anything else."""
        holders: dict[int, str] = {}
        read = json.loads(text)
        if not isinstance(read, dict):
            raise ValueError("it has to be a mapping of members to slots")  # noqa: TRY004 - of a text
        for member, slots in read.items():
            for slot in slots if isinstance(slots, list) else [None]:
                if type(slot) is not int or slot not in EVERY_SLOT or slot in holders:
                    raise ValueError(f"{slot!r} of {member} is not a slot, or is there twice")
                holders[slot] = member
        return cls(holders)

    @classmethod
    def of_lease(cls, lease: Mapping[str, Any] | None) -> "Shares":
        """Read them off a Lease; where it is not there, nobody has any."""
        annotations = lease["metadata"].get("annotations") if lease is not None else None
        return cls.parse((annotations or {}).get(SHARES, "{}"))

    def to_json(self) -> str:
        """Write it: slots by member, in a few hundred bytes."""
        written: dict[str, list[int]] = {}
        for slot, member in sorted(self.holders.items()):
            written.setdefault(member, []).append(slot)
        return json.dumps(written, sort_keys=True, separators=(",", ":"))

    def of(self, member: str) -> frozenset[int]:
        """Return the slots of a member."""
        return frozenset(slot for slot, holder in self.holders.items() if holder == member)

    def changed(self, member: str, *, take: Collection[int], give: Collection[int]) -> "Shares":
        """Return who has which slot once the member has taken some and given up others."""
        kept = {slot: holder for slot, holder in self.holders.items() if slot not in give or holder != member}
        return Shares(kept | dict.fromkeys(take, member))


def moves(
    shares: Shares, *, member: str, members: Collection[str], gone: Collection[str]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return which slots a member should take now, and which it should give up.

    It takes what should be its own and nobody has, or somebody who is ``gone``, or itself by a record that it did not
    make since it last began to count: what another has who may still be at work is waited for. ``members`` are alive,
    itself included.
    """
    own = frozenset(slot for slot in EVERY_SLOT if owner_of(slot, members) == member)
    held = shares.of(member)
    free = frozenset(slot for slot in own if (holder := shares.holders.get(slot)) is None or holder in gone)
    return (own & held) | free, held - own
