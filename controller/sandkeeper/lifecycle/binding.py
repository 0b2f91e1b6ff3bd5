"""Which runtime key a Sandbox belongs to at the moment: where it should be, or where it still is."""

from dataclasses import replace
from typing import TypeVar

from sandkeeper.lifecycle.model import Record
from sandkeeper.lifecycle.reports import forgotten

__all__ = ["bound_key", "rebound", "relies"]

Key = TypeVar("Key")


def bound_key(*, resolved: Key, recorded: Key | None, runtime_known: bool) -> Key:
    """Tell the key to which a Sandbox is bound, where its identity may have moved by policy.

    It stays where its status says that its runtime is, until :func:`~sandkeeper.lifecycle.decide.decide` has told it
    that this is over: because the runtime is removed, or because others keep it and this one no longer uses it. After
    that, its record relies on nothing. ``resolved`` is where it belongs by now, ``recorded`` what its status says;
    ``runtime_known``: it :func:`relies` on the runtime at the recorded key, and one is there or cannot be excluded.
    """
    if recorded is None or recorded == resolved or not runtime_known:
        return resolved
    return recorded


def relies(record: Record) -> bool:
    """Whether a Sandbox may rely on the runtime that its record names.

    Not if it never had one that was Ready, or was let go; nor once the removal was announced: it has been told, and is
    free to go. Otherwise it would take whatever comes to the old key next for its own, and two Sandboxes that change
    places would never come to rest.
    """
    return record.runtime_id is not None and record.removing is None


def rebound(record: Record) -> Record:
    """Take the record of a Sandbox to another key: how it was used goes with it, the runtime stays behind.

    Otherwise the old runtime, which lives on for others, would look at the new key like one that died. That it was
    removed to make way for another goes with it, too: it is what the Sandbox waits for.
    """
    return replace(forgotten(record), removing=None if record.pruned else record.removing)
