"""Seccomp profiles by name: real files."""

import json
from pathlib import Path

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.runtimes.docker.seccomp import is_kept, read_profile


def refusal(name: str, directory: Path | None) -> Permanent:
    with pytest.raises(Permanent) as caught:
        read_profile(name, str(directory) if directory else None)
    assert caught.value.reason is Reason.INVALID_CONFIG
    assert name in caught.value.message
    return caught.value


@pytest.mark.parametrize("name", [None, "unconfined"])
def test_what_is_no_file(name: str | None) -> None:
    assert not is_kept(name)
    assert read_profile(name, None) == name


@pytest.mark.parametrize("file", ["strict", "strict.json"])
def test_a_profile_is_found_by_name(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text('{\n  "defaultAction": "SCMP_ACT_ERRNO"\n}')

    assert is_kept("strict")
    assert json.loads(read_profile("strict", str(tmp_path)) or "") == {"defaultAction": "SCMP_ACT_ERRNO"}


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{not json", "\udcff".encode("utf-8", "surrogateescape")]
)
def test_a_profile_that_is_none(tmp_path: Path, content: str | bytes | None) -> None:
    if content is not None:
        (tmp_path / "strict").write_bytes(content if isinstance(content, bytes) else content.encode())

    refusal("strict", tmp_path)


def test_a_profile_without_a_directory() -> None:
    assert "docker.seccompProfiles" in refusal("strict", None).message
