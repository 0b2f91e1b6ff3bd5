"""Where sandboxes write, and that nothing is mounted which one of them could swap."""

from collections.abc import Collection
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.api.names import Label
from sandkeeper.config.binds import Mount
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.runtimes.docker.places import (
    Reservations,
    Writes,
    labels_of,
    writes_by,
    writes_in,
    writes_of,
)


def key(scope: str = "agent:rain") -> RuntimeKey:
    return RuntimeKey(namespace="team", namespace_uid="0000-1111", policy="default", scope=scope)


WORKSPACE = Mount("/srv/rain", "/workspace", "rw")
SKILLS = Mount("/srv/rain/skills", "/workspace/skills", "ro")


@pytest.mark.parametrize(
    ("mounts", "writes"),
    [
        ([], {}),
        ([Mount("/a", "/x", "ro")], {}),
        ([Mount("/a", "/x", "rw"), Mount("/b", "/y", "rw")], {"/a": set(), "/b": set()}),
        ([WORKSPACE, SKILLS], {"/srv/rain": {"skills"}}),
        ([WORKSPACE, SKILLS, Mount("/srv/rain", "/again", "rw")], {"/srv/rain": set()}),
        ([Mount("/srv/rain", "/again", "rw"), WORKSPACE, SKILLS], {"/srv/rain": set()}),
        # mounted elsewhere, or deeper, it keeps nobody from renaming anything
        ([WORKSPACE, Mount("/srv/rain/skills", "/skills", "ro")], {"/srv/rain": set()}),
        ([WORKSPACE, Mount("/srv/other", "/workspace/skills", "ro")], {"/srv/rain": set()}),
        ([WORKSPACE, Mount("/srv/rain/a/b", "/workspace/a/b", "ro")], {"/srv/rain": set()}),
        ([Mount("/", "/all", "rw"), Mount("/a", "/all/a", "ro")], {"/": {"a"}}),
    ],
)
def test_what_a_container_writes_to(mounts: list[Mount], writes: dict[str, set[str]]) -> None:
    assert writes_of(mounts) == writes


@pytest.mark.parametrize(
    ("source", "writes", "through"),
    [
        ("/srv/rain", {"/srv/rain": set()}, None),
        ("/srv/rain/x", {"/srv/rain": set()}, "/srv/rain"),
        ("/srv/rain/x/y", {"/srv/rain": {"y"}}, "/srv/rain"),
        ("/srv/rain2", {"/srv/rain": set()}, None),
        ("/srv", {"/srv/rain": set()}, None),
        ("/srv/rain/skills", {"/srv/rain": {"skills"}}, None),
        ("/srv/rain/skills/mail", {"/srv/rain": {"skills"}}, None),
        ("/srv/rain/skills2", {"/srv/rain": {"skills"}}, "/srv/rain"),
        ("/srv/rain/skills", {"/srv/rain": {"skills"}, "/srv": set()}, "/srv"),
        ("/srv/rain", {"/": set()}, "/"),
    ],
)
def test_what_could_be_swapped(source: str, writes: dict[str, Collection[str]], through: str | None) -> None:
    assert writes_by(source, {path: frozenset(names) for path, names in writes.items()}) == through


NAMES = st.text(min_size=1).filter(lambda name: "/" not in name and "\0" not in name)


@given(st.dictionaries(NAMES.map(lambda name: f"/{name}"), st.frozensets(NAMES)))
def test_labels_say_what_is_written_whatever_the_names(writes: Writes) -> None:
    assert writes_in(labels_of(writes)) == writes
    assert bool(labels_of(writes)) is bool(writes)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"/a": 1}', '"x"'])
def test_labels_that_are_not_ours_count_for_nothing(text: str) -> None:
    assert writes_in({Label.WRITES: text}) == {}


# --- reservations -----------------------------------------------------------------------------------------------------


def take(
    reservations: Reservations,
    scope: str,
    *mounts: Mount,
    others: Collection[Writes] = (),
    sources: Collection[str] | None = None,
) -> Any:
    found = {mount.source for mount in mounts} if sources is None else sources
    return reservations.take(key(scope), sources=found, writes=writes_of(mounts), others=others)


def refused(reservations: Reservations, scope: str, *mounts: Mount, **options: Any) -> str:
    with pytest.raises(Permanent) as caught, take(reservations, scope, *mounts, **options):
        pass
    assert caught.value.reason is Reason.BIND_REFUSED
    return caught.value.message


def test_what_lies_where_another_sandbox_writes_is_refused() -> None:
    message = refused(
        Reservations(), "a", Mount("/srv/rain/x", "/x", "ro"), others=[{"/srv/rain": frozenset()}]
    )

    assert "/srv/rain/x" in message
    assert "it lies in /srv/rain, to which a sandbox writes" in message


def test_the_directory_itself_may_be_shared() -> None:
    with take(Reservations(), "a", Mount("/srv/rain", "/x", "rw"), others=[{"/srv/rain": frozenset()}]):
        pass


def test_what_is_only_copied_from_is_no_different() -> None:
    refused(Reservations(), "a", sources={"/srv/rain/x"}, others=[{"/srv/rain": frozenset()}])


def test_nor_may_a_sandbox_mount_what_it_could_swap_itself() -> None:
    refused(Reservations(), "a", Mount("/srv/rain", "/x", "rw"), Mount("/srv/rain/x", "/y", "ro"))
    with take(Reservations(), "a", WORKSPACE, SKILLS):
        pass


@pytest.mark.parametrize("ends", [True, False])
def test_two_that_are_made_at_once(*, ends: bool) -> None:
    """One mounts what lies where the other is about to write: neither check alone would see the other."""
    reservations, reads, writes = Reservations(), Mount("/srv/a/b", "/x", "ro"), Mount("/srv/a", "/x", "rw")
    with ExitStack() as going_on:
        going_on.enter_context(take(reservations, "writer", writes))
        if ends:
            going_on.close()
            with take(reservations, "reader", reads):
                pass
        else:
            refused(reservations, "reader", reads)

    with ExitStack() as going_on:
        going_on.enter_context(take(reservations, "reader", reads))
        if ends:
            going_on.close()
            with take(reservations, "writer", writes):
                pass
        else:
            with pytest.raises(Transient, match="is being mounted"), take(reservations, "writer", writes):
                pass


def test_a_key_does_not_stand_in_its_own_way() -> None:
    reservations = Reservations()
    with (
        take(reservations, "a", Mount("/srv/a/b", "/x", "ro")),
        take(reservations, "a", Mount("/srv/a", "/x", "rw")),
    ):
        pass


def test_what_failed_reserves_nothing() -> None:
    reservations = Reservations()
    refused(reservations, "a", Mount("/srv/a", "/x", "rw"), Mount("/srv/a/b", "/y", "ro"))

    with pytest.raises(KeyError), take(reservations, "a", Mount("/srv/a", "/x", "rw")):
        raise KeyError

    with take(reservations, "b", Mount("/srv/a/b", "/x", "ro")):
        pass
