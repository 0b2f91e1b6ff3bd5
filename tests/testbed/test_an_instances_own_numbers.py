from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from testbed.instance import NoSubnetLeftError, choose_octet
from testbed.paths import Layout, StatePathTooLongError


def test_two_test_beds_begin_their_search_in_different_places() -> None:
    assert choose_octet("000001", taken=[], networks=[]) != choose_octet("000002", taken=[], networks=[])


def test_networks_in_use_are_avoided_whatever_their_size() -> None:
    networks = [IPv4Network("10.200.7.0/24"), IPv4Network("10.202.0.0/15"), IPv4Network("192.168.0.0/16")]
    assert choose_octet("000000", taken=[201], networks=networks) == 204


def test_the_search_goes_round() -> None:
    assert choose_octet("000031", taken=[249], networks=[]) == 200


def test_a_machine_that_uses_all_of_it_is_told_so() -> None:
    with pytest.raises(NoSubnetLeftError):
        choose_octet("000000", taken=[], networks=[IPv4Network("10.0.0.0/8")])


@pytest.mark.parametrize(
    ("environ", "state", "cache"),
    [
        (
            {"HOME": "/home/a"},
            "/home/a/.local/state/sandkeeper/testbed",
            "/home/a/.cache/sandkeeper",
        ),
        (
            {"HOME": "/home/a", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c"},
            "/s/sandkeeper/testbed",
            "/c/sandkeeper",
        ),
        (
            {"HOME": "/home/a", "SANDKEEPER_STATE": "/x", "SANDKEEPER_CACHE": "/y", "XDG_CACHE_HOME": "/c"},
            "/x",
            "/y",
        ),
    ],
)
def test_where_things_are_kept(environ: dict[str, str], state: str, cache: str) -> None:
    assert Layout.from_environment(environ) == Layout(Path(state), Path(cache))


def test_a_path_too_long_for_sockets_is_refused_before_anything_starts() -> None:
    with pytest.raises(StatePathTooLongError, match="SANDKEEPER_STATE"):
        Layout(Path("/" + "a" * 60), Path("/c"))


def test_folders_differ_so_names_differ() -> None:
    assert Layout(Path("/a"), Path("/c")).identity != Layout(Path("/b"), Path("/c")).identity
