"""What answers in a sandbox may say anything; the bridge believes little of it, and survives all of it."""

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.yards import table
from sandkeeper.bridge import FileBridge
from sandkeeper.bridge.commands import Ended
from sandkeeper.bridge.errors import BridgeError, Unavailable
from sandkeeper.bridge.protocol import PYTHONS, Answer, GarbledError, Refusal, decode


class Saying:
    """Stands in for a sandbox that says something, whatever it is asked."""

    def __init__(self, said: bytes, *, code: int | None = 0, stderr: bytes = b"") -> None:
        self._ended = Ended(code=code, stdout=said, stderr=stderr)
        self.asked: list[str] = []

    async def __call__(self, command: Sequence[str], stdin: bytes, *, limit: int, seconds: float) -> Ended:
        self.asked.append(command[0])
        return self._ended


def said(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return b"%d %d\n%s%s" % (len(text), len(data), text, data)


ABOUT = {"kind": "file", "size": 1, "mode": 0o644, "links": 1, "modified_ns": 0}

Attempt = Callable[[FileBridge], Coroutine[Any, Any, object]]
READ: Attempt = lambda bridge: bridge.read("/workspace/x", max_bytes=4)  # noqa: E731
STAT: Attempt = lambda bridge: bridge.stat("/workspace/x")  # noqa: E731
LIST: Attempt = lambda bridge: bridge.listdir("/workspace/x", max_entries=2)  # noqa: E731


def entry(name: bytes) -> dict[str, object]:
    return {"name": name.hex(), "about": ABOUT}


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [
        (READ, b""),
        (READ, b"hello"),
        (READ, b"2 0\n{"),
        (READ, b"2 4\n{}abc"),
        (READ, b"2 4\n{}abcde"),
        (READ, b"2 -1\n{}"),
        (READ, b"99999999999 0\n{}"),
        (READ, b"\n" + said({})),
        (READ, said({}, b"12345")),
        (READ, said([])),
        (READ, said({"more": 1})),
        (READ, said({"refused": "because"})),
        (READ, said({"errno": -1})),
        (READ, said({"errno": 10**30})),
        (READ, said({"errno": "2"})),
        (READ, b"9 0\n" + b"[[[[[[[[["),
        (READ, b"100000 0\n" + b"[" * 100_000),
        (STAT, said({})),
        (STAT, said({"about": {}})),
        (STAT, said({"about": {**ABOUT, "kind": "secret"}})),
        (STAT, said({"about": {**ABOUT, "size": -1}})),
        (STAT, said({"about": {**ABOUT, "size": 2**63}})),
        (STAT, said({"about": {**ABOUT, "size": 1.5}})),
        (STAT, said({"about": {**ABOUT, "mode": 0o10000}})),
        (STAT, said({"about": {**ABOUT, "owner": "root"}})),
        (LIST, said({})),
        (LIST, said({"entries": None})),
        (LIST, said({"entries": [entry(b"a"), entry(b"b"), entry(b"c")]})),
        (LIST, said({"entries": [entry(b"a"), entry(b"a")]})),
        *[
            (LIST, said({"entries": [entry(name)]}))
            for name in (b"", b".", b"..", b"a/b", b"/", b"a\0", b"x" * 2000)
        ],
        (LIST, said({"entries": [{"name": "zz", "about": ABOUT}]})),
        (LIST, said({"entries": [{"name": "6 1", "about": ABOUT}]})),
        (LIST, said({"entries": [{"name": "616", "about": ABOUT}]})),
    ],
)
async def test_nonsense_is_told_to_be_nonsense(attempt: Attempt, answer: bytes) -> None:
    with pytest.raises(Unavailable, match="makes no sense"):
        await attempt(FileBridge(table(), Saying(answer)))


async def test_what_a_command_said_when_it_failed_is_told_but_quoted() -> None:
    run = Saying(b"", code=1, stderr=b"x" * 10_000 + b"\x1b[31mno module\nnamed os")
    with pytest.raises(Unavailable) as caught:
        await STAT(FileBridge(table(), run))
    assert r"ended with 1 and said b'" in str(caught.value)
    assert r"\x1b[31mno module\nnamed os" in str(caught.value)
    assert len(str(caught.value)) < 1000


async def test_without_a_python_nothing_can_be_done() -> None:
    run = Saying(b"", code=127)
    with pytest.raises(
        Unavailable, match="no Python at /usr/bin/python3, /usr/local/bin/python3, /bin/python3"
    ):
        await STAT(FileBridge(table(), run))
    assert run.asked == list(PYTHONS)


async def test_the_python_that_was_found_is_the_one_that_is_asked() -> None:
    class Elsewhere(Saying):
        async def __call__(
            self, command: Sequence[str], stdin: bytes, *, limit: int, seconds: float
        ) -> Ended:
            ended = await super().__call__(command, stdin, limit=limit, seconds=seconds)
            return ended if command[0] == PYTHONS[1] else Ended(code=126, stdout=b"not here", stderr=b"")

    run = Elsewhere(said({"about": ABOUT}))
    bridge = FileBridge(table(), run)
    await bridge.stat("/workspace")
    await bridge.stat("/workspace")
    assert run.asked == [PYTHONS[0], PYTHONS[1], PYTHONS[1]]


@pytest.mark.parametrize("refused", Refusal)
async def test_every_word_has_an_error(refused: Refusal) -> None:
    with pytest.raises(BridgeError, match="/workspace/x"):
        await STAT(FileBridge(table(), Saying(said({"refused": refused}))))


@pytest.mark.parametrize("number", [0, 5, 11, 16, 18, 22, 36, 40, 95, 122, 4095])
async def test_every_number_has_an_error(number: int) -> None:
    with pytest.raises(BridgeError, match="/workspace/x"):
        await STAT(FileBridge(table(), Saying(said({"errno": number}))))


@given(st.binary(max_size=200))
@example(b"2 0\n{}")
@example(b"4 0\nnull")
@example(b"\xd9\xa1 0\n{")
def test_any_bytes_are_an_answer_or_are_not(answer: bytes) -> None:
    try:
        decode(answer)
    except GarbledError:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: (
        st.lists(below)
        | st.dictionaries(
            st.sampled_from(["refused", "errno", "about", "entries", "name", *ABOUT]) | st.text(), below
        )
    ),
    max_leaves=20,
)


@given(JSON, st.binary())
def test_any_json_is_an_answer_or_is_not(header: object, data: bytes) -> None:
    try:
        answer, rest = decode(said(header, data))
    except GarbledError:
        return
    assert isinstance(answer, Answer)
    assert rest == data
