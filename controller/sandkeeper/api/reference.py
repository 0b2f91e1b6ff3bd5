"""The reference of both kinds in Markdown, generated from the models.

Run as a program (``python -m sandkeeper.api.reference``), it takes ``--write docs/reference`` or
``--check docs/reference``.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sandkeeper.api import generated
from sandkeeper.api.conditions import ConditionType, Phase, PolicyConditionType
from sandkeeper.api.container import SandboxContainer
from sandkeeper.api.crd import POLICY, SANDBOX, Resource
from sandkeeper.api.names import API_VERSION, Annotation
from sandkeeper.api.rules import EXTENSION
from sandkeeper.api.structural import plain_text

__all__ = ["files"]

_HEADER: Final = (
    "<!-- Generated from the models in controller/sandkeeper/api: change those, then run\n"
    "     python -m sandkeeper.api.reference --write docs/reference -->\n"
)
_SANDBOX_AUTHOR: Final = "author of the Sandbox"
_POLICY_AUTHOR: Final = "author of the policy"
_OPERATOR: Final = "operator"
_CHOSEN_BY_BOTH: Final = frozenset(field.alias for field in SandboxContainer.model_fields.values())

Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Section:
    """One object of the schema: its place in the YAML, and who writes it."""

    path: str
    schema: Schema
    author: str

    @property
    def anchor(self) -> str:
        return "".join(letter for letter in self.path.lower() if letter.isalnum())


class _Page:
    """One kind: the sections of its spec and of its status, each object described once."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._author = _SANDBOX_AUTHOR if resource is SANDBOX else _POLICY_AUTHOR
        self._definitions: dict[str, Schema] = {}
        self._sections: dict[str, _Section] = {}
        self._collect("spec", self._load(resource.spec.model_json_schema()), self._author)
        if resource.status is not None:
            self._collect("status", self._load(resource.status.model_json_schema()), _OPERATOR)

    def _load(self, schema: dict[str, Any]) -> Schema:
        self._definitions |= schema.pop("$defs", {})
        return schema

    def _collect(self, path: str, schema: Schema, author: str) -> None:
        self._sections[schema["title"]] = _Section(path=path, schema=schema, author=author)
        for name, field in schema["properties"].items():
            place, suffix = _value(field)
            found = self._object(place)
            if found is not None and found["title"] not in self._sections:
                self._collect(f"{path}.{name}{suffix}", found, author)

    def _object(self, field: Schema) -> Schema | None:
        found = self._resolve(field)
        return found if "properties" in found else None

    def _resolve(self, field: Schema) -> Schema:
        if "$ref" in field:
            return self._definitions[field["$ref"].removeprefix("#/$defs/")]
        return field

    def lines(self) -> Iterator[str]:
        """Yield the page."""
        yield _HEADER
        yield f"# {self._resource.kind}\n"
        yield (
            f"{self._resource.description} `{API_VERSION}`, namespaced, "
            f"`kubectl get {self._resource.plural}` or `{self._resource.short_name}`.\n"
        )
        for section in self._sections.values():
            yield from self._section(section)

    def _section(self, section: _Section) -> Iterator[str]:
        yield f'## <a id="{section.anchor}"></a>`{section.path}`\n'
        yield f"{plain_text(section.schema['description'])}\n"
        yield "| field | type | bounds | meaning | set by |"
        yield "|---|---|---|---|---|"
        required = section.schema.get("required", ())
        for name, field in section.schema["properties"].items():
            cells = (
                f"`{name}`" + (" (required)" if name in required else ""),
                self._type(field),
                "<br>".join([*self._bounds(field), *_default(section, field)]),
                plain_text(field.get("description", "")),
                _set_by(section, name),
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
        if "maximum" in present:
            yield f"{present['minimum']} to {present['maximum']}"
        if "maxItems" in present or "maxProperties" in present:
            least, most = present.get("minItems"), present.get("maxItems", present.get("maxProperties"))
            yield f"{f'{least} to' if least else 'at most'} {most} entries"
        inner, suffix = _value(present)
        if suffix:
            yield from (f"each: {bound}" for bound in self._bounds(inner))

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


def _default(section: _Section, field: Schema) -> Iterator[str]:
    """Yield what the API server fills in, which is nothing in a status."""
    default = field.get("default")
    if isinstance(default, str | int) and section.author != _OPERATOR:
        yield f"default `{default}`"


def _set_by(section: _Section, name: str) -> str:
    if section.author == _POLICY_AUTHOR and section.path == "spec.container" and name in _CHOSEN_BY_BOTH:
        return f"{_POLICY_AUTHOR}; {_SANDBOX_AUTHOR}, with `scope: session`"
    rules = [
        *section.schema["properties"][name].get(EXTENSION, ()),
        *(rule for rule in section.schema.get(EXTENSION, ()) if rule.get("fieldPath") == f".{name}"),
    ]
    return f"{section.author}, once" if any("oldSelf" in rule["rule"] for rule in rules) else section.author


def _documented(kind: type[StrEnum]) -> Iterator[str]:
    """Yield a table of the members of an enum with the docstrings below them, which Python itself forgets."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)  # noqa: S101 - the source of a class
    yield "| name | meaning |"
    yield "|---|---|"
    for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            meaning = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                meaning = plain_text(str(following.value.value))
            yield f"| `{kind[statement.targets[0].id]}` | {meaning} |"
    yield ""


def _sandbox_lines() -> Iterator[str]:
    yield from _Page(SANDBOX).lines()
    yield "## Annotations\n"
    yield f"{plain_text(Annotation.__doc__ or '')}\n"
    yield from _documented(Annotation)
    yield "## Conditions\n"
    yield f"{plain_text(ConditionType.__doc__ or '')}\n"
    yield from _documented(ConditionType)
    yield "## Phases\n"
    yield f"{', '.join(f'`{phase}`' for phase in Phase)}. {plain_text(Phase.__doc__ or '')}"


def _policy_lines() -> Iterator[str]:
    yield from _Page(POLICY).lines()
    yield "## Conditions\n"
    yield f"{plain_text(PolicyConditionType.__doc__ or '')}\n"
    yield from _documented(PolicyConditionType)


def files() -> Mapping[str, str]:
    """Return what is generated: file names, and the text of each."""
    return {
        "sandbox.md": "\n".join(_sandbox_lines()).rstrip() + "\n",
        "policy.md": "\n".join(_policy_lines()).rstrip() + "\n",
    }


if __name__ == "__main__":
    sys.exit(generated.main(files(), program="sandkeeper.api.reference", arguments=sys.argv[1:]))
