"""Which fields of a runtime's configuration changed: their names, never what they hold."""

from dataclasses import fields

from pydantic.alias_generators import to_camel

from sandkeeper.config.resolution import RuntimeConfig

__all__ = ["differing_fields"]


def differing_fields(before: RuntimeConfig, after: RuntimeConfig) -> frozenset[str]:
    """Return the names of the fields in which they differ, as users write them."""
    if before is after:
        return frozenset()
    return frozenset(
        to_camel(each.name)
        for each in fields(RuntimeConfig)
        if getattr(before, each.name) != getattr(after, each.name)
    )
