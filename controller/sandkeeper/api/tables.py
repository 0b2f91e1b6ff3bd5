"""Models as Markdown: a table of its fields for each object, as their JSON schema describes them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from sandkeeper.api.container import SandboxContainer
from sandkeeper.api.rules import EXTENSION
from sandkeeper.api.structural import plain_text

__all__ = ["OPERATOR", "POLICY_AUTHOR", "SANDBOX_AUTHOR", "Tables"]

SANDBOX_AUTHOR: Final = "author of the Sandbox"
POLICY_AUTHOR: Final = "author of the policy"
OPERATOR: Final = "operator"
_CHOSEN_BY_BOTH: Final = frozenset(field.alias for field in SandboxContainer.model_fields.values())

Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Section:
    """One object of the schema: its place in the YAML, and who writes it."""

    path: str
    schema: Schema
    author: str | None

    @property
    def anchor(self) -> str:
        return "".join(letter for letter in self.path.lower() if letter.isalnum()) or "top"


class Tables:
    """Models by their place in a document, each object among them described once."""

    def __init__(self) -> None:
        self._definitions: dict[str, Schema] = {}
        self._sections: dict[str, _Section] = {}

    def add(self, path: str, model: type[BaseModel], *, author: str | None) -> None:
        """Describe a model at its place, an empty one being the top, and who writes it; None goes without saying."""
        self._collect(path, self._load(model.model_json_schema()), author)

    def _load(self, schema: dict[str, Any]) -> Schema:
        self._definitions |= schema.pop("$defs", {})
        return schema

    def _collect(self, path: str, schema: Schema, author: str | None) -> None:
        self._sections[schema["title"]] = _Section(path=path, schema=schema, author=author)
        for name, field in schema["properties"].items():
            place, suffix = _value(field)
            found = self._object(place)
            if found is not None and found["title"] not in self._sections:
                self._collect(f"{path}.{name}{suffix}".lstrip("."), found, author)

    def _object(self, field: Schema) -> Schema | None:
        found = self._resolve(field)
        return found if "properties" in found else None

    def _resolve(self, field: Schema) -> Schema:
        if "$ref" in field:
            return self._definitions[field["$ref"].removeprefix("#/$defs/")]
        return field

    def lines(self) -> Iterator[str]:
        """Yield a section for each object."""
        for section in self._sections.values():
            yield from self._section(section)

    def _section(self, section: _Section) -> Iterator[str]:
        title = f"`{section.path}`" if section.path else "At the top"
        yield f'## <a id="{section.anchor}"></a>{title}\n'
        yield f"{plain_text(section.schema['description'])}\n"
        columns = ["field", "type", "bounds", "meaning", *(["set by"] if section.author else [])]
        yield f"| {' | '.join(columns)} |"
        yield "|---" * len(columns) + "|"
        required = section.schema.get("required", ())
        for name, field in section.schema["properties"].items():
            cells = (
                f"`{name}`" + (" (required)" if name in required else ""),
                self._type(field),
                "<br>".join([*self._bounds(field), *self._default(section, field)]),
                plain_text(field.get("description", "")),
                *_set_by(section, name),
            )
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""
        rules = list(dict.fromkeys(self._rules(section.schema)))
        if rules:
            yield from (f"- {rule}" for rule in rules)
            yield ""

    def _type(self, field: Schema) -> str:
        field = self._resolve(_present(field))
        if "properties" in field:
            section = self._sections[field["title"]]
            return f"[{section.path}](#{section.anchor})"
        if "enum" in field:
            return ", ".join(f"`{value}`" for value in field["enum"])
        inner, suffix = _value(field)
        if suffix:
            return f"{'list' if suffix == '[]' else 'map'} of {self._type(inner)}"
        if "x-kubernetes-int-or-string" in field:
            return "integer or string"
        return "time" if field.get("format") == "date-time" else str(field["type"])

    def _bounds(self, field: Schema) -> Iterator[str]:
        present = self._resolve(_present(field))
        if "pattern" in present:
            yield f"`{present['pattern']}`"
        if "maxLength" in present:
            least = present.get("minLength")
            yield f"{f'{least} to' if least else 'at most'} {present['maxLength']} characters"
        yield from _range(present)
        if "maxItems" in present or "maxProperties" in present:
            least, most = present.get("minItems"), present.get("maxItems", present.get("maxProperties"))
            yield f"{f'{least} to' if least else 'at most'} {most} entries"
        inner, suffix = _value(present)
        if suffix:
            yield from (f"each: {bound}" for bound in self._bounds(inner))

    def _default(self, section: _Section, field: Schema) -> Iterator[str]:
        """Yield what a field is where nobody says anything, which in a status means nothing."""
        default = field.get("default")
        if isinstance(default, Mapping):
            # Only where it is another than that of the object itself.
            known = self._resolve(_present(field))["properties"]
            default = {name: value for name, value in default.items() if known[name].get("default") != value}
        if section.author != OPERATOR and default not in (None, [], {}):
            yield f"default `{default if isinstance(default, str) else json.dumps(default)}`"

    def _rules(self, schema: Schema) -> Iterator[str]:
        for rule in schema.get(EXTENSION, ()):
            yield str(rule["message"])
        for field in schema.get("properties", {}).values():
            yield from self._value_rules(_present(field))

    def _value_rules(self, schema: Schema) -> Iterator[str]:
        for rule in schema.get(EXTENSION, ()):
            yield str(rule["message"])
        inner, suffix = _value(schema)
        if suffix:
            yield from self._value_rules(inner)


def _range(field: Schema) -> Iterator[str]:
    """Yield the bounds of a number."""
    least = [f"at least {field['minimum']}"] if "minimum" in field else []
    least += [f"above {field['exclusiveMinimum']}"] if "exclusiveMinimum" in field else []
    if "minimum" in field and "maximum" in field:
        yield f"{field['minimum']} to {field['maximum']}"
    elif "maximum" in field:
        yield ", ".join([*least, f"at most {field['maximum']}"])
    else:
        yield from least


def _present(field: Schema) -> Schema:
    """Return what an optional field holds when it is there."""
    choices = [choice for choice in field.get("anyOf", ()) if choice != {"type": "null"}]
    return choices[0] if choices else field


def _value(field: Schema) -> tuple[Schema, str]:
    """Return what is inside a list or a map, and how that looks in a path; else the field itself."""
    field = _present(field)
    if "items" in field:
        return field["items"], "[]"
    if "patternProperties" in field:
        return next(iter(field["patternProperties"].values())), ".*"
    return field, ""


def _set_by(section: _Section, name: str) -> Iterator[str]:
    if section.author is None:
        return
    if section.author == POLICY_AUTHOR and section.path == "spec.container" and name in _CHOSEN_BY_BOTH:
        yield f"{POLICY_AUTHOR}; {SANDBOX_AUTHOR}, with `scope: session`"
        return
    rules = [
        *section.schema["properties"][name].get(EXTENSION, ()),
        *(rule for rule in section.schema.get(EXTENSION, ()) if rule.get("fieldPath") == f".{name}"),
    ]
    yield f"{section.author}, once" if any("oldSelf" in rule["rule"] for rule in rules) else section.author
