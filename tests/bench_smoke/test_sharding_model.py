"""The model of several operators, where it can be checked against what is known otherwise."""

import uuid
from dataclasses import replace

import pytest

from bench.sharding import Costs, Work, by_label, by_range, fnv1a, heaviest, load, sizes, wait

COSTS = Costs(
    new_seconds=0.01,
    touch_seconds=0.002,
    foreign_seconds=0.0005,
    new_events=6,
    object_bytes=9000,
    metadata_bytes=1500,
    memory_bytes=15_000,
    base_memory_bytes=80_000_000,
)
WORK = Work(sandboxes=100_000, new_per_second=20, touches_per_second=200)


def test_what_each_is_sent_alone_adds_up_to_what_one_had() -> None:
    one = load(COSTS, WORK, shards=1, selected=False)
    each = load(COSTS, WORK, shards=4, selected=True)
    assert 4 * each.events_per_second == pytest.approx(one.events_per_second)
    assert 4 * each.processor == pytest.approx(one.processor)
    assert 4 * each.start_bytes == pytest.approx(one.start_bytes)
    assert 4 * (each.memory_bytes - COSTS.base_memory_bytes) == pytest.approx(
        one.memory_bytes - COSTS.base_memory_bytes
    )


def test_whoever_is_sent_everything_reads_everything_however_many_there_are() -> None:
    one = load(COSTS, WORK, shards=1, selected=False)
    many = load(COSTS, WORK, shards=1000, selected=False)
    assert many.events_per_second == pytest.approx(one.events_per_second)
    assert (many.start_bytes, many.resync_bytes) == (one.start_bytes, one.resync_bytes)
    assert many.memory_bytes == one.memory_bytes
    # 320 events a second that are another's, but for a thousandth.
    assert many.processor == pytest.approx(320 * 0.0005, rel=0.01)


def test_one_shard_is_the_same_either_way() -> None:
    assert load(COSTS, WORK, shards=1, selected=True) == load(COSTS, WORK, shards=1, selected=False)


@pytest.mark.parametrize("used", [0.3, 0.5, 0.7])
def test_a_simulated_wait_is_what_theory_says(used: float) -> None:
    """Pollaczek and Khinchine: with jobs of one length, used / (2 (1 - used)) of a job on average."""
    found = wait([(used / 0.01, 0.01)], count=400_000)
    assert found is not None
    assert found.mean == pytest.approx(0.01 * used / (2 * (1 - used)), rel=0.03)
    assert 0 <= found.p50 <= found.mean <= found.p99


def test_with_jobs_of_two_lengths_too() -> None:
    jobs = [(30.0, 0.01), (200.0, 0.001)]
    used = sum(rate * seconds for rate, seconds in jobs)
    second_moment = sum(rate * seconds**2 for rate, seconds in jobs)
    found = wait(jobs, count=400_000)
    assert found is not None
    assert found.mean == pytest.approx(second_moment / (2 * (1 - used)), rel=0.03)


def test_who_has_more_than_can_be_done_waits_ever_longer() -> None:
    assert wait([(100.0, 0.01)], count=10) is None
    assert wait([(60.0, 0.01), (100.0, 0.005)], count=10) is None


def test_a_simulation_is_the_same_each_time() -> None:
    jobs = [(50.0, 0.01), (100.0, 0.001)]
    assert wait(jobs, count=1000) == wait(jobs, count=1000)
    assert wait(jobs, count=1000) != wait(jobs, count=1000, seed=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_the_hash_is_the_published_one(text: str, expected: int) -> None:
    assert fnv1a(text) == expected


def test_every_text_falls_into_one_range() -> None:
    uids = [
        str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128))) for number in range(1000)
    ]
    for shards in (1, 3, 16):
        for divide in (by_label, by_range):
            assert {divide(uid, shards) for uid in uids} == set(range(shards))


def test_namespaces_that_are_numbered_are_divided_badly_by_the_servers_hash() -> None:
    namespaces = [(f"team-{number}", 1) for number in range(200)]
    assert heaviest(namespaces, 8, divide=by_range) >= 4
    assert heaviest(namespaces, 8, divide=by_label) < 1.5


def test_no_sandbox_is_lost_between_namespaces() -> None:
    for sandboxes, namespaces in ((100_000, 200), (7, 3), (1, 1)):
        divided = sizes(sandboxes, namespaces)
        assert (sum(divided), len(divided)) == (sandboxes, namespaces)
    first, second, *_ = sizes(100_000, 200)
    assert first == pytest.approx(2 * second, rel=0.01)


def test_what_stays_in_one_piece_cannot_be_divided() -> None:
    assert heaviest([("only", 100)], 4, divide=by_label) == 4
    assert heaviest([("one", 1), ("two", 1)], 1, divide=by_label) == 1
    many = [(f"agent-{number}", 1) for number in range(100_000)]
    assert 1 <= heaviest(many, 16, divide=by_label) < 1.05


def test_a_dearer_event_is_felt_by_all() -> None:
    dearer = replace(COSTS, foreign_seconds=2 * COSTS.foreign_seconds)
    assert (
        load(dearer, WORK, shards=4, selected=False).processor
        > load(COSTS, WORK, shards=4, selected=False).processor
    )
    assert load(dearer, WORK, shards=4, selected=True) == load(COSTS, WORK, shards=4, selected=True)
