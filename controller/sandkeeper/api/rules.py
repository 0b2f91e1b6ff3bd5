"""Rules that no pattern or bound can say.

Each is stated twice: in CEL for the API server, in Python for the models. It stands either on a value, as an
annotation of its type, or on several fields of a model, in its ``rules``. Both forms reach the JSON schema as
``x-kubernetes-validations``; the tests hold the two statements together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

__all__ = ["EXTENSION", "ListMap", "Rule"]

EXTENSION: Final = "x-kubernetes-validations"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What has to hold, and what a person is told if it does not."""

    cel: str
    """The expression that the API server evaluates; ``self`` is what the rule stands on."""
    message: str
    """One line that names the field and the fix."""
    holds: Callable[[Any], bool] | None = None
    """The same in Python. None: only a change can break it (``oldSelf``); the models see no changes."""
    message_cel: str | None = None
    """An expression for a message that names the culprit; ``message`` stands in where it fails."""
    field: str | None = None
    """The field of a model that the error is reported on, as it is called in YAML."""
    reason: Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"] = "FieldValueInvalid"

    def check(self, value: Any) -> Any:  # noqa: ANN401 - passes on whatever it stands on
        """Return the value, or raise if the rule does not hold for it."""
        if self.holds is not None and not self.holds(value):
            raise PydanticCustomError("rule", "{message}", {"message": self.message, "field": self.field})
        return value

    def as_schema(self) -> dict[str, str]:
        """Return the rule as the API server wants it."""
        schema = {"rule": self.cel, "message": self.message}
        if self.message_cel is not None:
            schema["messageExpression"] = self.message_cel
        if self.field is not None:
            schema["fieldPath"] = f".{self.field}"
        return schema | {"reason": self.reason}

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = handler(schema)
        return found | {EXTENSION: [*found.get(EXTENSION, []), self.as_schema()]}


@dataclass(frozen=True)
class ListMap:
    """Marks a list whose entries are told apart by one field: no two alike, merged one by one on apply."""

    key: str

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(schema) | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self.key]}

    def check(self, entries: list[Any]) -> list[Any]:
        """Return the entries, or raise if two of them have the same key."""
        seen = set()
        for entry in entries:
            value = getattr(entry, self.key)
            if value in seen:
                raise PydanticCustomError(
                    "duplicate",
                    "{key} {value} is there twice: give each entry its own",
                    {"key": self.key, "value": repr(value)},
                )
            seen.add(value)
        return entries
