"""Caches are exact: older never overwrites newer, and what vanished unseen is found by a list."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.cluster.caches import Cache, versions_in
from sandkeeper.reconcile.objects import NamespaceObject


def raw(name: str, version: int, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"{uid}{version}", "resourceVersion": str(version)}}


def take_list(cache: Cache[NamespaceObject], raws: Iterable[dict[str, Any]], *, version: int) -> None:
    """Take in a whole list, of one page."""
    cache.complete({cache.put_listed(found) for found in raws}, version=version)


class Told:
    def __init__(self) -> None:
        self.changes: list[tuple[str | None, str | None]] = []
        self.cache = Cache("Namespaces", parse=NamespaceObject.parse, on_change=self)

    def __call__(self, old: NamespaceObject | None, new: NamespaceObject | None) -> None:
        self.changes.append((old.uid if old else None, new.uid if new else None))


def test_newer_replaces_older_and_not_the_other_way_round() -> None:
    told = Told()
    told.cache.put(raw("a", 5))
    told.cache.put(raw("a", 3))
    told.cache.put(raw("a", 5))
    told.cache.put(raw("a", 7))
    assert told.changes == [(None, "u5"), ("u5", "u7")]


def test_what_a_list_lacks_has_vanished_unless_it_is_newer_than_the_list() -> None:
    told = Told()
    told.cache.put(raw("old", 5))
    told.cache.put(raw("new", 12))
    take_list(told.cache, [], version=10)
    assert told.changes[2:] == [("u5", None)]
    assert told.cache.get(("", "new")) is not None


def test_a_list_that_is_older_than_a_deletion_does_not_bring_the_object_back() -> None:
    told = Told()
    told.cache.put(raw("a", 5))
    told.cache.drop(raw("a", 9))
    take_list(told.cache, [raw("a", 5)], version=7)
    assert told.cache.get(("", "a")) is None


def test_an_event_that_is_older_than_a_whole_list_does_not_bring_back_what_that_lacked() -> None:
    told = Told()
    told.cache.put(raw("a", 5))
    told.cache.drop(raw("a", 9))
    take_list(told.cache, [], version=12)
    told.cache.put(raw("a", 5))
    told.cache.put(raw("b", 12))
    assert told.cache.get(("", "a")) is None
    assert told.cache.get(("", "b")) is None
    told.cache.put(raw("a", 13))
    told.cache.take_in(raw("b", 11))  # an answer, and no event: it is there
    assert told.changes[2:] == [(None, "u13"), (None, "u11")]


def test_after_etcd_was_restored_events_are_older_and_believed() -> None:
    told = Told()
    take_list(told.cache, [], version=100)
    assert told.cache.compare({}, version=20, asked_at=100) == []
    told.cache.put(raw("a", 21))
    assert told.cache.get(("", "a")) is not None


def test_a_late_deletion_does_not_remove_what_was_made_again() -> None:
    told = Told()
    told.cache.put(raw("a", 20))
    told.cache.drop(raw("a", 9))
    assert told.cache.get(("", "a")) is not None


def test_what_the_api_server_does_not_know_is_gone_until_it_is_made_again() -> None:
    told = Told()
    told.cache.vanish(told.cache.put(raw("a", 5)))
    told.cache.put(raw("a", 5))
    assert told.cache.get(("", "a")) is None
    told.cache.put(raw("a", 6))
    assert told.cache.get(("", "a")) is not None


def test_what_has_its_name_by_now_is_not_what_is_gone() -> None:
    told = Told()
    gone = told.cache.put(raw("a", 5))
    told.cache.drop(raw("a", 6))
    told.cache.put(raw("a", 7))
    told.cache.vanish(gone)
    found = told.cache.get(("", "a"))
    assert found is not None
    assert found.uid == "u7"


def test_after_versions_went_back_what_is_listed_is_believed() -> None:
    """As after a restored etcd: older versions, of objects that are there all the same, and of others."""
    told = Told()
    for name in ("kept", "changed", "gone"):
        told.cache.put(raw(name, 900))
    told.cache.drop(raw("removed", 950))
    listed = [raw("kept", 90), raw("changed", 95), raw("removed", 80)]
    stale = told.cache.compare(versions_in(listed), version=100, asked_at=told.cache.newest)
    assert stale == [("", "kept"), ("", "changed"), ("", "removed")]
    for one in listed:
        told.cache.put_listed(one)
    assert {known.name: known.uid for known in told.cache} == {
        "kept": "u90",
        "changed": "u95",
        "removed": "u80",
    }


def test_it_counts_as_listed_only_after_a_whole_list() -> None:
    cache = Told().cache
    cache.put(raw("a", 1))
    assert not cache.listed
    take_list(cache, [raw("a", 1)], version=1)
    assert cache.listed


HISTORY = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30)


@given(history=HISTORY, seen=st.lists(st.booleans(), min_size=30, max_size=30), shuffle=st.randoms())
def test_whatever_was_lost_on_the_way_a_list_makes_it_right(history: Any, seen: Any, shuffle: Any) -> None:
    truth: dict[str, dict[str, Any]] = {}
    events = []
    for version, (name, exists) in enumerate(history, start=1):
        if exists:
            truth[name] = raw(name, version)
            events.append(("put", truth[name]))
        elif name in truth:
            del truth[name]
            events.append(("drop", raw(name, version)))
    arrived = [event for event, arrives in zip(events, seen, strict=False) if arrives]
    shuffle.shuffle(arrived)
    cache = Told().cache
    for how, what in arrived:
        getattr(cache, how)(what)
    take_list(cache, truth.values(), version=len(history))
    assert {view.name: view.uid for view in cache} == {
        name: one["metadata"]["uid"] for name, one in truth.items()
    }


def test_whoever_is_told_knows_what_is_the_answer_to_a_request() -> None:
    by_us: list[bool] = []
    cache: Cache[NamespaceObject] = Cache(
        "Namespaces", parse=NamespaceObject.parse, on_change=lambda _old, _new: by_us.append(cache.by_us)
    )
    cache.put(raw("a", 5))
    cache.take_in(raw("a", 6))
    cache.put(raw("a", 7))
    cache.vanish(cache.put(raw("a", 7)))
    take_list(cache, [raw("b", 8)], version=9)
    assert by_us == [False, True, False, True, False]


def test_metadata_tells_what_vanished_and_what_has_to_be_read() -> None:
    told = Told()
    for name, version in (("same", 5), ("older", 5), ("gone", 5), ("newer", 12)):
        told.cache.put(raw(name, version))
    told.cache.drop(raw("removed", 9))
    found = [raw(name, version) for name, version in (("same", 5), ("older", 7), ("new", 8), ("removed", 6))]
    assert told.cache.compare(versions_in(found), version=10) == [("", "older"), ("", "new")]
    assert {known.name for known in told.cache} == {"same", "older", "newer"}
    assert told.changes[4:] == [("u5", None)]
