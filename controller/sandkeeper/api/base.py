"""What all models of the API share: camelCase in YAML, snake_case in Python, nothing mutable."""

from typing import Any, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

from sandkeeper.api.rules import EXTENSION, Rule

__all__ = ["Spec", "Status"]


_SETS: Final[dict[frozenset[str], set[str]]] = {}
"""Names of the fields that were given, by themselves."""


class _Lean(BaseModel):
    """A model that shares the set of the names it was given with all others that were given the same.

    Each object would have one of its own, which weighs as much as its values; an operator holds tens of thousands.
    """

    def model_post_init(self, _context: object, /) -> None:
        """Give the own set up. Nothing is mutable, so nobody changes the shared one."""
        given = self.__pydantic_fields_set__
        shared = _SETS.setdefault(frozenset(given), given)
        object.__setattr__(self, "__pydantic_fields_set__", shared)


class Spec(_Lean):
    """Part of a ``spec``. An unknown field is an error: no setting is passed over because nobody knows it."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    """What has to hold across the fields."""

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        for rule in self.rules:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        reference = handler(schema)
        if cls.rules:
            # The handler answers with a reference; what it refers to is changed in place.
            handler.resolve_ref_schema(reference)[EXTENSION] = [rule.as_schema() for rule in cls.rules]
        return reference


class Status(_Lean):
    """Part of a ``status``. An unknown field is passed over: a newer operator may have written it."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
