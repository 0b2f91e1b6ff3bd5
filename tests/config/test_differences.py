"""Which fields of two configurations differ."""

from dataclasses import replace

from config.examples import made_from, resolved
from sandkeeper.config.differences import Differences


def test_fields_are_told_as_users_write_them_and_what_they_hold_is_not() -> None:
    one = made_from(resolved())
    other = replace(one, env={"TOKEN_LIKE": "hidden"}, read_only_root=not one.read_only_root)
    assert Differences().between(one, other) == {"env", "readOnlyRoot"}
    assert Differences().between(one, replace(one)) == Differences().between(one, one) == frozenset()


def test_what_is_remembered_is_of_both_sides() -> None:
    one = made_from(resolved())
    image, workdir = replace(one, image="debian:trixie"), replace(one, workdir="/home")
    found = Differences()
    assert found.between(one, image) == {"image"}
    assert found.between(one, workdir) == {"workdir"}
    assert found.between(image, workdir) == {"image", "workdir"}
    assert found.between(workdir, image) == {"image", "workdir"}
    assert found.between(one, image) == {"image"}
