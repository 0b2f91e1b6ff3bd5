"""What a model becomes as a structural schema."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import BaseModel, Field, StringConstraints

from sandkeeper.api.base import Spec
from sandkeeper.api.rules import ListMap, Rule
from sandkeeper.api.structural import UnsupportedSchemaError, plain_text, structural_schema

Short = Annotated[str, StringConstraints(max_length=3)]


class Colour(StrEnum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


ANY_RULE = Rule(cel="self == self", message="always", holds=lambda _: True)


class Part(Spec):
    """One part."""

    rules: ClassVar = (ANY_RULE,)

    part_name: Short
    """How it is called,
    over two lines, with ``code``."""


class Whole(Spec):
    """The whole."""

    colour: Colour | None = None
    part: Annotated[Part, Rule(cel="self != self", message="never", field="partName")] | None = None
    parts: Annotated[list[Part], Field(max_length=2), ListMap("part_name")] | None = None
    names: Annotated[dict[Short, Short], Field(max_length=4)] | None = None
    count: Annotated[int, Field(ge=1, le=9)] = 5


def whole(*, defaults: bool = True) -> dict[str, Any]:
    schema: dict[str, Any] = structural_schema(Whole, defaults=defaults)["properties"]
    return schema


def test_an_optional_enum_is_written_out_and_not_required() -> None:
    assert whole()["colour"] == {"description": "A colour.", "type": "string", "enum": ["red", "blue"]}
    assert "required" not in structural_schema(Whole, defaults=True)
    assert whole()["part"]["required"] == ["partName"]


def test_descriptions_are_plain_text_on_one_line() -> None:
    described = whole()["part"]["properties"]["partName"]["description"]
    assert described == "How it is called, over two lines, with `code`."
    assert plain_text("a\n\n  b ``c``") == "a b `c`"


def test_rules_of_a_model_and_of_the_field_that_holds_it_add_up() -> None:
    assert whole()["part"]["x-kubernetes-validations"] == [
        {"rule": "self == self", "message": "always", "reason": "FieldValueInvalid"},
        {"rule": "self != self", "message": "never", "fieldPath": ".partName", "reason": "FieldValueInvalid"},
    ]


def test_a_list_map_says_its_key_and_other_lists_are_atomic() -> None:
    class Lists(Spec):
        plain: Annotated[list[Short], Field(max_length=2)] | None = None

    assert whole()["parts"]["x-kubernetes-list-type"] == "map"
    assert whole()["parts"]["x-kubernetes-list-map-keys"] == ["part_name"]
    plain = structural_schema(Lists, defaults=True)["properties"]["plain"]
    assert plain["x-kubernetes-list-type"] == "atomic"


def test_a_map_has_one_schema_for_all_its_values() -> None:
    assert whole()["names"] == {
        "type": "object",
        "maxProperties": 4,
        "additionalProperties": {"type": "string", "maxLength": 3},
    }


def test_defaults_are_said_where_they_are_wanted() -> None:
    assert whole()["count"]["default"] == 5
    assert "default" not in whole(defaults=False)["count"]
    assert "default" not in whole()["colour"]


def test_what_a_structural_schema_cannot_say_is_refused() -> None:
    class OneOfTwo(BaseModel):
        value: int | str

    class NotClosed(BaseModel):
        value: Annotated[int, Field(gt=0)]

    with pytest.raises(UnsupportedSchemaError, match="one of several types"):
        structural_schema(OneOfTwo, defaults=True)
    with pytest.raises(UnsupportedSchemaError, match="exclusiveMinimum"):
        structural_schema(NotClosed, defaults=True)
