"""The judge of the tests beside: it finds a second writer, and nothing else."""

from availability.reigns import Reign, usurpations
from support.proxy import Write

REIGNS = [
    Reign(10, {"a": "first", "b": "second"}.get),
    Reign(20, {"b": "second"}.get),
    Reign(30, {"a": "second", "b": "second"}.get),
]


def write(version: int, *, resource: str = "pods", namespace: str = "a") -> Write:
    return Write("create", resource, namespace=namespace, name="x", version=version, at=0)


def test_who_has_the_say_may_write() -> None:
    assert usurpations({"first": [write(11), write(19)], "second": [write(31)]}, REIGNS) == []


def test_who_had_it_or_will_have_it_may_not() -> None:
    for version in (20, 25, 30, 99):
        assert len(usurpations({"first": [write(version)]}, REIGNS)) == 1, version
    for version in (9, 15, 29):
        assert len(usurpations({"second": [write(version)]}, REIGNS)) == 1, version


def test_each_namespace_has_its_own() -> None:
    assert usurpations({"second": [write(15, namespace="b")]}, REIGNS) == []
    assert len(usurpations({"first": [write(15, namespace="b")]}, REIGNS)) == 1


def test_the_order_in_which_it_was_seen_does_not_matter() -> None:
    assert usurpations({"first": [write(19)]}, REIGNS[::-1]) == []


def test_leases_and_events_are_anybodys() -> None:
    assert usurpations({"first": [write(35, resource="leases"), write(36, resource="events")]}, REIGNS) == []
