"""Sizes and CPUs: exact, in powers of 1024."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.api.container import SandboxContainer
from sandkeeper.config.quantities import UNLIMITED, memory_bytes, milli_cpus, swap_bytes

KIB = 1024


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1b", 1),
        ("1B", 1),
        ("1k", KIB),
        ("1Ki", KIB),
        ("512m", 512 * KIB**2),
        ("512Mi", 512 * KIB**2),
        ("0.5g", 512 * KIB**2),
        ("1.5G", 1536 * KIB**2),
        ("2t", 2 * KIB**4),
        ("2Ti", 2 * KIB**4),
        ("0.001k", 1),
        ("1.9b", 1),
        ("999999999999999.999", 999_999_999_999_999),
        ("8191.999t", 8191 * KIB**4 + 999 * KIB**4 // 1000),
    ],
)
def test_sizes_are_bytes_in_powers_of_1024(text: str, size: int) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "m", "1mb", "1 m", "-1", "1e3", "1,5g", ".5g", "1.g", "0x10", "\uff11", "1m\n", "1.0001g", "inf"],
)
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        memory_bytes(text)


@pytest.mark.parametrize("text", ["999999999999999t", "8388608t"])
def test_more_than_an_engine_can_count(text: str) -> None:
    with pytest.raises(ValueError, match="more than an engine can count"):
        memory_bytes(text)


@given(st.integers(1, 10**9), st.sampled_from("bkmg"))
def test_every_spelling_of_a_size_is_the_same_size(number: int, unit: str) -> None:
    size = number * KIB ** "bkmg".index(unit)

    assert memory_bytes(f"{number}{unit}") == size
    assert memory_bytes(f"{number}{unit.upper()}") == size
    assert memory_bytes(f"{number}.000{unit}") == size
    if unit != "b":
        assert memory_bytes(f"{number}{unit.upper()}i") == size


@given(st.integers(1, 10**15 - 1))
def test_bytes_come_back_as_they_went(size: int) -> None:
    assert memory_bytes(str(size)) == memory_bytes(f"{size}b") == size


@given(st.from_regex(SandboxContainer.model_json_schema()["properties"]["memory"]["anyOf"][0]["pattern"]))
def test_what_admission_lets_in_is_a_size_or_too_much(text: str) -> None:
    text = text.removesuffix("\n")  # Python's $ also matches before it
    try:
        size = memory_bytes(text)
    except ValueError as error:
        size, too_much = 0, "more than an engine" in str(error)
    else:
        too_much = False

    assert too_much or 0 <= size < 2**63


def test_swap_may_be_without_a_limit() -> None:
    assert swap_bytes("-1") == UNLIMITED
    assert swap_bytes("1g") == KIB**3


@pytest.mark.parametrize(
    ("cores", "milli"),
    [
        (1, 1000),
        (1.0, 1000),
        (0.01, 10),
        (1.5, 1500),
        (0.29, 290),
        (1.001, 1001),
        (0.0999, 99),
        (1024, 1024000),
    ],
)
def test_cpus_are_thousandths(cores: float, milli: int) -> None:
    # 0.29 * 1000 is 290.00000000000006 in floats, and 1.001 * 1000 is 1000.9999999999999.
    assert milli_cpus(cores) == milli


@given(st.integers(10, 1_024_000))
def test_thousandths_come_back_as_they_went(milli: int) -> None:
    assert milli_cpus(milli / 1000) == milli


@given(st.floats(0.01, 1024))
def test_cpus_are_never_above_what_was_said(cores: float) -> None:
    assert 10 <= milli_cpus(cores) <= cores * 1000 < milli_cpus(cores) + 1.0001
