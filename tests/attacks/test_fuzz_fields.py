"""Fields, fuzzed: what admission's patterns let pass, against what the code makes of it.

Each field has a pattern, which the API server checks, and code that reads it, for objects that are older than the
pattern or got around it. Both are held against a third statement here, in plain string methods.
"""

import os
import posixpath
import re
import subprocess
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from attacks.hostile import NAMES, PATHS, TEXTS, around, is_unicode
from attacks.register import On, attack
from config.examples import NAMESPACE, ceilings, operator, policy, sandbox
from sandkeeper.api import types
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.workspace import Workspace
from sandkeeper.config import binds, environment
from sandkeeper.config.ceilings import is_user_allowed
from sandkeeper.config.resolve import resolve
from sandkeeper.config.tmpfs import normalise_tmpfs, parse_tmpfs

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that have no business in a name."""
MODES: Final = st.sampled_from(["", ":ro", ":rw", ":", ":RW", ":z", ":ro,z", ":rw:", ":ro\n", ": rw"])
OPTIONS: Final = st.sampled_from(
    ["", ":", ":size=64m", ":mode=1777,noexec", ":suid", ":dev", ":exec,dev", ":size=64m,", ":uid=0", ":bind",
     ":size=-1", ":mode=7777777", ":x-mount.mkdir", ":remount,rw", ":size=1\n", ":size=\u0661"]
)  # fmt: skip
BINDS: Final = around(st.builds(lambda one, two, mode: f"{one}:{two}{mode}", PATHS, PATHS, MODES))
TMPFS: Final = around(st.builds(lambda path, options: path + options, PATHS, OPTIONS))
NUMBERS: Final = st.one_of(
    st.integers(0, 2**32).map(str),
    st.sampled_from(["00", "+1", "-1", "1_0", "\u0661", "\u00b2", "0x0", " 1", "1 ", "9" * 22, ""]),
)
USERS: Final = around(st.lists(NUMBERS, min_size=1, max_size=3).map(":".join))


def is_plain(text: str) -> bool:
    """Whether it can be part of a path at all."""
    return not CONTROL.search(text) and is_unicode(text)


def admits(kind: Any, text: str) -> bool:
    """Whether admission's own type takes the text."""
    try:
        TypeAdapter(kind).validate_python(text)
    except ValidationError:
        return False
    return True


@attack(
    "any text as a bind",
    stopped_by="pattern and parser: two absolute paths and a mode, or nothing",
    on=On.CODE,
)
@given(BINDS)
def test_a_bind_is_two_paths_and_a_mode(text: str) -> None:
    parts = text.split(":")
    is_one = len(parts) in {2, 3} and all(part.startswith("/") for part in parts[:2])
    is_one = is_one and parts[2:] in ([], ["ro"], ["rw"])
    assert admits(types.Bind, text) == (is_one and is_plain(text) and len(text) <= 1024)
    try:
        mount = binds.parse(text)
    except ValueError:
        assert not admits(types.Bind, text)
        return
    assert binds.parse(str(mount)) == mount
    assert mount.mode == ("rw" if parts[2:] == ["rw"] else "ro"), "read-only unless somebody says otherwise"
    assert (mount.source, mount.target) == tuple(
        "/" + posixpath.normpath(part).lstrip("/") for part in parts[:2]
    )


@attack(
    "binds whose targets are spelt differently, one of them refused, in any order",
    stopped_by="one bind for each target is left, and each is the last one of it",
    on=On.CODE,
)
@given(
    st.lists(
        st.builds(lambda one, two: f"/{one}:/{two}", NAMES, NAMES).filter(lambda text: text.count(":") == 1)
    )
)
def test_one_bind_is_left_for_each_target(texts: list[str]) -> None:
    try:
        left = binds.normalise_binds(texts)
    except ValueError:
        return
    assert binds.normalise_binds(left) == left
    wanted = {mount.target: mount for mount in map(binds.parse, texts)}
    assert {mount.target: mount for mount in map(binds.parse, left)} == wanted
    assert len(left) == len(wanted)


@attack(
    "any text as a tmpfs: options of other mounts, `dev` and `suid`, targets in `/proc`, `/sys` and `/dev`",
    stopped_by="a list of the options that a tmpfs has, less those that only serve to break out",
    on=On.CODE,
)
@given(TMPFS)
def test_a_tmpfs_has_a_place_and_known_options(text: str) -> None:
    try:
        found = parse_tmpfs(text)
    except ValueError:
        return
    assert parse_tmpfs(str(found)) == found
    assert normalise_tmpfs([text, text]) == (str(found),)
    assert not CONTROL.search(found.options)
    names = {option.partition("=")[0] for option in found.options.split(",")}
    assert not names & {"dev", "suid", "bind", "remount", "shared", "x-mount.mkdir"}
    assert found.path != "/"
    assert found.path == "/dev/shm" or found.path.split("/")[1] not in {"proc", "sys", "dev"}  # noqa: S108


@attack(
    "any text as a user: names, signs, other scripts' digits, leading zeros, numbers beyond the kernel's",
    stopped_by="the pattern and the ceiling: numbers, and none of them root's",
    on=On.CODE,
)
@given(USERS)
def test_a_user_is_a_number_and_not_roots(text: str) -> None:
    ids = text.split(":")
    are_ids = len(ids) <= 2 and all(re.fullmatch("[0-9]{1,10}", one) and int(one) < 2**31 for one in ids)
    assert admits(types.User, text) == (are_ids or text == "auto")
    if is_user_allowed(text, ceilings()):
        assert all(re.fullmatch("[0-9]+", one) and int(one) > 0 for one in ids)


@attack(
    "any names and values of variables: such as look like options, hold quotes, newlines, `$(NAME)`, or no text at all",
    stopped_by="what is let in reaches a program as it is, and nothing else does",
    on=On.CODE,
)
@settings(max_examples=settings().max_examples // 2)  # each starts a program
@given(st.dictionaries(around(st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,8}\Z")), TEXTS, max_size=3))
def test_variables_reach_a_program_as_they_are(env: dict[str, str]) -> None:
    cleaned = environment.clean(env, allowed=())
    assert {**cleaned.env, **{name: env[name] for name in cleaned.filtered}} == env
    if list(environment.check(cleaned.env)):
        return
    raw = {os.fsencode(name): value.encode("utf-8", "surrogatepass") for name, value in cleaned.env.items()}
    seen = subprocess.run(["/usr/bin/env", "-0"], env=raw, capture_output=True, check=True).stdout
    assert sorted(filter(None, seen.split(b"\0"))) == sorted(b"=".join(item) for item in raw.items())


@attack(
    "any text as a directory in a claim, as it is written and with an agentId in it",
    stopped_by="the pattern: names between slashes, none of them `.` or `..`",
    on=On.CODE,
)
@given(st.one_of(around(st.lists(NAMES, min_size=1, max_size=4).map("/".join)), TEXTS))
def test_a_directory_in_a_claim_stays_in_it(text: str) -> None:
    is_one = all(name not in {"", ".", ".."} for name in text.split("/"))
    is_one = is_one and is_plain(text) and ":" not in text and len(text) <= 512
    assert admits(types.SubPath, text) == is_one
    if admits(types.SubPathTemplate, text):
        filled = text.replace(types.AGENT_ID, "a..")
        assert posixpath.normpath(f"/claim/{filled}") == f"/claim/{filled}"


@attack(
    "any text in every field that becomes part of a mount, admission passed by altogether",
    stopped_by="the same checks, a second time in the operator: each ends in a condition, and none in an error",
    on=On.CODE,
)
@given(path=TEXTS, bind=BINDS, tmpfs=TMPFS, user=USERS, name=TEXTS, value=TEXTS, agent=TEXTS, key=TEXTS)
def test_what_admission_let_pass_is_refused_and_not_an_error(  # noqa: PLR0917
    path: str, bind: str, tmpfs: str, user: str, name: str, value: str, agent: str, key: str
) -> None:
    container = ContainerTemplate.model_construct(
        workdir=path,
        binds=[bind],
        tmpfs=[tmpfs],
        user=user,
        env={name: value},
        memory=value,
        memory_swap=name,
    )
    section = Workspace.model_validate({"agent": {"hostPath": {"path": "/srv/{agentId}"}}, "access": "rw"})
    under = policy().model_copy(update={"container": container, "workspace": section})
    found = resolve(
        namespace=NAMESPACE,
        namespace_uid="0f6c",
        spec=sandbox().model_copy(update={"agent_id": agent, "session_key": key}),
        policies={(NAMESPACE, "default"): under},
        recorded_policy=None,
        operator=operator(ceilings={"bindRoots": ["/srv"]}),
    )
    assert (found.config is None) == (found.problem is not None)
