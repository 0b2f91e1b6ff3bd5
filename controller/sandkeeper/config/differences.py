"""Which fields of a runtime's configuration changed: their names, never what they hold."""

from dataclasses import fields
from typing import Final

from pydantic.alias_generators import to_camel

from sandkeeper.config.resolution import RuntimeConfig

__all__ = ["Differences"]

_FIELDS: Final = tuple((each.name, to_camel(each.name)) for each in fields(RuntimeConfig))
"""Each as it is called here, and as users write it."""


class Differences:
    """Finds them, and remembers the last ones: an edit makes the same difference to thousands that share both sides."""

    def __init__(self) -> None:
        self._last: tuple[RuntimeConfig, RuntimeConfig, frozenset[str]] | None = None

    def between(self, before: RuntimeConfig, after: RuntimeConfig) -> frozenset[str]:
        """Return the names of the fields in which the two differ, as users write them."""
        if self._last is None or self._last[0] is not before or self._last[1] is not after:
            self._last = before, after, _differing(before, after)
        return self._last[2]


def _differing(before: RuntimeConfig, after: RuntimeConfig) -> frozenset[str]:
    if before is after:
        return frozenset()
    return frozenset(told for name, told in _FIELDS if getattr(before, name) != getattr(after, name))
