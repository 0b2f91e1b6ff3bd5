"""What comes out of a sandbox, fuzzed: answers of programs that anybody may have replaced.

An image's Python prepares workspaces and serves the bridge, and may say anything: bytes that are no answer, answers
that make no sense, a thousand levels of brackets. It is read by the operator and by gateways.
"""

import json

from hypothesis import given
from hypothesis import strategies as st

from attacks.hostile import PATHS, TEXTS
from attacks.register import On, attack
from sandkeeper.bridge.errors import BridgeError
from sandkeeper.bridge.protocol import GarbledError, decode
from sandkeeper.bridge.table import Mount, MountTable
from sandkeeper.config.mounts import Role
from sandkeeper.runtimes.pod.preparing import said_in

WORDS = st.sampled_from(
    ["refused", "errno", "about", "entries", "kind", "size", "mode", "links", "modified_ns", "name"]
)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.sampled_from(["file", "2e2e", "2f", "link"]),
        TEXTS,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=8,
)
TABLE = MountTable(
    [
        Mount(role=Role.WORKSPACE, target="/workspace", read_only=False, host="/srv/rain"),
        Mount(role=Role.SKILLS, target="/workspace/skills", read_only=True, host="/srv/rain/skills"),
        Mount(role=Role.BIND, target="/workspace/shared", read_only=False, host="/srv/shared"),
    ]
)


def answer(header: object, data: bytes) -> bytes:
    """As the bridge's program would say it."""
    said = json.dumps(header).encode()
    return b"%d %d\n%s%s" % (len(said), len(data), said, data)


@attack(
    "any bytes, and any JSON in the form of an answer, in place of what the bridge's program says",
    stopped_by="an answer is taken if all of it is as it should be; names in it are single components",
    on=On.CODE,
)
@given(st.one_of(st.binary(max_size=80), st.builds(answer, JSON, st.binary(max_size=8))))
def test_an_answer_is_one_or_none(said: bytes) -> None:
    try:
        found, _ = decode(said)
    except GarbledError:
        return
    for entry in found.entries or ():
        assert entry.name not in {"", ".", ".."}
        assert not {"/", "\0"} & set(entry.name)


@attack(
    "any path that a gateway is made to ask for, and any that it is told of the host",
    stopped_by="each lies in one mount of the table, below its root and without `..`, both ways; or is refused",
    on=On.CODE,
)
@given(
    st.one_of(
        PATHS, PATHS.map(lambda path: f"/workspace{path}"), PATHS.map(lambda path: f"/srv/rain{path}"), TEXTS
    )
)
def test_a_path_lies_in_one_mount_or_in_none(path: str) -> None:
    try:
        place = TABLE.place(path)
    except BridgeError:
        pass
    else:
        assert place.path == place.mount.target or place.path.startswith(f"{place.mount.target}/")
        assert not {"", ".", ".."} & set(place.parts)
        assert TABLE.place(place.path) == place
        deeper = [
            one
            for one in ("/workspace/skills", "/workspace/shared")
            if f"{place.path}/".startswith(f"{one}/")
        ]
        assert place.mount.target == (deeper or ["/workspace"])[0]
    try:
        seen = TABLE.sandbox_path(path)
    except BridgeError:
        return
    host = TABLE.host_path(seen)
    assert host is not None
    assert TABLE.sandbox_path(host) == seen


@attack(
    "any text, and any JSON, as what prepared a workspace says of its end, terminals' control sequences among it",
    stopped_by="what is shown is one line of printable characters, of bounded length",
    on=On.CODE,
)
@given(st.one_of(TEXTS, JSON.map(json.dumps), st.integers(0, 5000).map(lambda deep: "[" * deep)))
def test_what_is_shown_is_printable(said: str) -> None:
    shown = said_in(said)
    assert shown.isprintable()
    assert len(shown) <= 1024
