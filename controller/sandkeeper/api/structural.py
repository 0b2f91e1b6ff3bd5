"""From a model to a structural OpenAPI v3 schema, the form that CustomResourceDefinitions want.

pydantic writes JSON Schema: references, ``anyOf`` with null for what may be absent, patterns for the keys of
maps. A structural schema has none of that. What this module does not know how to say in one, it refuses: no
bound of a model is lost on the way.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from sandkeeper.api.rules import EXTENSION

__all__ = ["UnsupportedSchemaError", "plain_text", "structural_schema"]

_ORDER: Final = (
    "description",
    "type",
    "x-kubernetes-int-or-string",
    "format",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "minProperties",
    "maxProperties",
    "required",
    "properties",
    "additionalProperties",
    "items",
    EXTENSION,
)
"""Everything that comes out, in the order in which a person wants to read it."""

_DROPPED: Final = frozenset({"title", "propertyNames"})
"""A title repeats the name. The names in maps have rules instead, see :class:`sandkeeper.api.rules.Rule`."""


class UnsupportedSchemaError(ValueError):
    """A model says something that a structural schema cannot."""


def plain_text(docstring: str) -> str:
    """Return a docstring as one line of plain text."""
    return " ".join(docstring.replace("``", "`").split())


def structural_schema(model: type[BaseModel], *, defaults: bool) -> dict[str, Any]:
    """Return the model as a structural schema; without ``defaults``, the API server fills nothing in."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    return _Flattening(definitions, defaults=defaults).flatten(schema)


class _Flattening:
    """Writes references out, level by level."""

    def __init__(self, definitions: Mapping[str, Any], *, defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults

    def flatten(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Write out a part of the schema and everything below it."""
        flat: dict[str, Any] = {}
        for keyword, value in self._resolve(node).items():
            if not self._says_nothing(keyword, value):
                flat |= self._translate(keyword, value)
        if flat.get("type") == "array":
            flat.setdefault("x-kubernetes-list-type", "atomic")
        return {keyword: flat[keyword] for keyword in _ORDER if keyword in flat}

    def _resolve(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Put what a reference or an optional value stands for in its place."""
        beside = dict(node)
        if (reference := beside.pop("$ref", None)) is not None:
            return self._merged(self._definitions[reference.removeprefix("#/$defs/")], beside)
        if (choices := beside.pop("anyOf", None)) is not None:
            present = [choice for choice in choices if choice != {"type": "null"}]
            if len(present) != 1:
                raise UnsupportedSchemaError(f"one of several types: {present}")
            return self._merged(present[0], beside)
        return beside

    def _merged(self, found: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
        """Join what is referred to with what is said beside it: the latter wins, but rules add up."""
        resolved = self._resolve(found)
        rules = [*resolved.get(EXTENSION, ()), *beside.get(EXTENSION, ())]
        return {**resolved, **beside, **({EXTENSION: rules} if rules else {})}

    def _says_nothing(self, keyword: str, value: object) -> bool:
        match keyword, value:
            case "default", None:
                return True
            case "default", _:
                return not self._defaults
            case "additionalProperties", False:
                # What is not specified is pruned, and refused by strict clients.
                return True
        return keyword in _DROPPED

    def _translate(self, keyword: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        match keyword, value:
            case "description", str():
                return {keyword: plain_text(value)}
            case "properties", dict():
                return {keyword: {name: self.flatten(field) for name, field in value.items()}}
            case (("items" | "additionalProperties"), dict()):
                return {keyword: self.flatten(value)}
            case "patternProperties", dict() if len(value) == 1:
                return {"additionalProperties": self.flatten(next(iter(value.values())))}
        if keyword not in _ORDER:
            raise UnsupportedSchemaError(f"{keyword}: {value!r}")
        return {keyword: value}
