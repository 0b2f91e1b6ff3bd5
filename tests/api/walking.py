"""A walk over a schema, and over a document beside it."""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["fields", "unset_fields"]


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every part of a schema with its path, the whole first."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from fields(part, f"{path}.{name}")
    if "additionalProperties" in schema:
        yield from fields(schema["additionalProperties"], f"{path}.*")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


def unset_fields(schema: Mapping[str, Any], document: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of fields that the document leaves out; of a list or map, one entry has to be complete."""
    for name, part in schema.get("properties", {}).items():
        if name in document:
            yield from unset_fields(part, document[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}"
    if "additionalProperties" in schema:
        yield from _least(schema["additionalProperties"], list(document.values()), f"{path}.*")
    if "items" in schema:
        yield from _least(schema["items"], list(document), f"{path}[]")


def _least(schema: Mapping[str, Any], entries: list[Any], path: str) -> list[str]:
    return min((list(unset_fields(schema, entry, path)) for entry in entries), key=len, default=[path])
