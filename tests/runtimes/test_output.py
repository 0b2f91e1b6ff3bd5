"""The end of a command's output: bounded, and without the values of environment variables."""

import json
import re
import shlex
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.runtimes.output import LONGEST, Tail


def shown(*pieces: bytes, env: dict[str, str] | None = None) -> str:
    tail = Tail(env or {})
    for piece in pieces:
        tail.add(piece)
    return tail.text()


def test_short_output_is_shown_as_it_is() -> None:
    assert shown(b"one\n", b"two\n") == "one\ntwo"


def test_of_long_output_the_end_is_shown() -> None:
    text = shown(b"x" * 5000, b"the end")

    assert text.endswith("the end")
    assert len(text.encode()) == LONGEST


def test_characters_are_not_cut_in_two_and_stay_within_the_limit() -> None:
    assert len(shown("ü€😀".encode() * 1000).encode()) <= LONGEST
    assert len(shown(b"\xff" * 5000).encode()) <= LONGEST


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert shown(b"a\x1b[31mred\x07\x00\r\n\tb") == "a[31mred\n\tb"


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("hunter2!", b"password is hunter2!, ok"),
        ("hun.*ter", b"hun.*ter"),
        ("line one\nline two\n", b"> line two\n"),
        ("  padded ", b"[padded]"),
        ("äöüß", "x äöüß".encode()),
    ],
)
def test_values_of_the_environment_are_masked(value: str, output: bytes) -> None:
    text = shown(output, env={"SECRET": value})

    assert "***" in text
    assert all(line.strip() not in text for line in value.splitlines())


def test_a_value_that_arrives_in_pieces_is_masked() -> None:
    assert shown(b"is hun", b"ter2", env={"S": "hunter2"}) == "is ***"


def test_masks_take_less_room_and_let_no_cut_value_move_up() -> None:
    value = "".join(map(str, range(1000, 1100)))

    assert set(shown(*[value.encode()] * 10, env={"S": value})) == {"*"}


def test_of_two_values_the_longer_is_masked_first() -> None:
    assert shown(b"hunter2hunter", env={"A": "hunter", "B": "hunter2"}) == "******"


def test_values_that_overlap_are_masked_together() -> None:
    assert shown(b"<abcdefghi>", env={"A": "abcdef", "B": "defghi"}) == "<***>"
    assert shown(b"<abcdefghi>", env={"A": "abcdefghi", "B": "cdef"}) == "<***>"


@pytest.mark.parametrize("quote", [shlex.quote, json.dumps, repr, re.escape])
@pytest.mark.parametrize(
    "value", ["it's hunter2", 'say "hunter2"', "hunt\\er2", "a'b\"hunter2\\", "$(hunter2) `x`"]
)
def test_a_value_in_quotes_is_masked(value: str, quote: Callable[[str], str]) -> None:
    text = shown(f"+ run {quote(value)} > /dev/null".encode(), env={"S": value})

    assert "***" in text
    assert "hunt" not in text
    assert text.startswith("+ run ")
    assert text.endswith(" > /dev/null")


@pytest.mark.parametrize("value", ["<0123456789>", "<" + "'" * 40 + "abcd>", '<"\\"""' * 9 + "abcd>"])
def test_no_cut_lets_a_part_of_a_quoted_value_through(value: str) -> None:
    quoted = shlex.quote(value).encode()
    for after in range(LONGEST - len(quoted) - 2, LONGEST + 2):
        text = shown(b"-" * 9, quoted, b"." * after, env={"S": value})

        assert not set("<0123456789abcd>") & set(text), after


def test_values_too_short_to_be_secrets_are_left() -> None:
    assert shown(b"exit code 1", env={"COUNT": "1", "EMPTY": ""}) == "exit code 1"


@given(
    before=st.binary(max_size=3000),
    after=st.integers(0, 2 * LONGEST),
    secret=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12, max_size=400),
)
def test_no_cut_lets_a_part_of_a_value_through(before: bytes, after: int, secret: str) -> None:
    text = shown(before + secret.encode() + b"." * after, env={"S": secret})

    assert secret not in text
    if b"." * after:
        # What remains of a value that was cut would stand at the beginning, before the dots.
        assert not any(text.startswith(secret[-size:] + ".") for size in range(6, len(secret)))
    assert len(text.encode()) <= LONGEST
