"""One leader at a time: over a real Lease, with clocks that a test can turn."""

import asyncio
from collections.abc import Callable

import pytest

from sandkeeper.cluster.api import KubeApi
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.leadership import Leadership, NotLeader
from sandkeeper.cluster.resources import LEASES
from sandkeeper.telemetry.metrics import Metrics
from support.api import api_at
from support.cluster import Cluster
from support.proxy import ApiProxy
from support.trouble import PASS, Asked, Fate, Refusal

pytestmark = [pytest.mark.cluster]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


Candidate = Callable[[str], tuple[Leadership, Clock]]


@pytest.fixture
def candidate(api: KubeApi, namespace: str) -> Candidate:
    def make(identity: str) -> tuple[Leadership, Clock]:
        clock = Clock()
        return Leadership(api, namespace=namespace, release="test", identity=identity, clock=clock), clock

    return make


async def attempt(leadership: Leadership, _clock: Clock) -> bool:
    await leadership.attempt()
    return leadership.leads("any")


async def test_the_first_leads_and_the_second_waits(candidate: Candidate) -> None:
    first, clock = candidate("first")
    second, other = candidate("second")
    assert await attempt(first, clock)
    assert first.leads("any")
    first.check("any")
    assert not await attempt(second, other)
    with pytest.raises(NotLeader):
        second.check("any")


async def test_no_effect_may_begin_after_the_renewal_deadline(candidate: Candidate) -> None:
    first, clock = candidate("first")
    await attempt(first, clock)
    clock.now += 6.9
    first.check("any")
    clock.now += 0.2
    with pytest.raises(NotLeader):
        first.check("any")
    assert await attempt(first, clock), "nobody else took it: it leads again"
    first.check("any")


async def test_a_standby_takes_over_when_it_saw_no_change_for_the_whole_lease(candidate: Candidate) -> None:
    first, clock = candidate("first")
    second, other = candidate("second")
    await attempt(first, clock)
    assert not await attempt(second, other)
    other.now += 9.9
    assert not await attempt(second, other)
    await attempt(first, clock)  # renewed: the standby counts from when it sees that
    other.now += 0.2
    assert not await attempt(second, other)
    other.now += 10.1
    assert await attempt(second, other)
    assert not await attempt(first, clock), "it was deposed and knows it by now"


async def test_a_standby_that_was_asleep_does_not_take_over_on_waking(candidate: Candidate) -> None:
    first, clock = candidate("first")
    second, other = candidate("second")
    await attempt(first, clock)
    await attempt(second, other)
    other.now += 3600
    await attempt(first, clock)
    assert not await attempt(second, other)


async def test_what_was_given_back_is_there_for_the_next_at_once(
    candidate: Candidate, api: KubeApi, namespace: str
) -> None:
    first, clock = candidate("first")
    second, other = candidate("second")
    await attempt(first, clock)
    await attempt(second, other)
    await first.release(seconds=30)
    assert not first.leads("any")
    assert await attempt(second, other)
    spec = (await api.get(LEASES, name="test-leader", namespace=namespace))["spec"]
    assert spec["holderIdentity"] == "second"
    assert spec["leaseTransitions"] == 1


async def test_a_renewal_that_is_still_on_its_way_does_not_keep_the_lease(
    cluster: Cluster, namespace: str, api_proxy: ApiProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 2

    def renewed_late(asked: Asked) -> Fate:
        nonlocal late
        if asked.verb == "update" and late:
            cluster.kubectl("-n", namespace, "annotate", "--overwrite", "lease/test-leader", f"late={late}")
            late -= 1
        return PASS

    async with api_at(api_proxy.kubeconfig, monkeypatch) as api:
        leadership = Leadership(api, namespace=namespace, release="test", identity="first")
        await leadership.attempt()
        with api_proxy.judged_by(renewed_late):
            await leadership.release(seconds=60)
        assert late == 0
        assert not (await api.get(LEASES, name="test-leader", namespace=namespace))["spec"]["holderIdentity"]


async def test_who_is_answered_slowly_gives_back_as_long_as_there_is_time(
    namespace: str,
    api_proxy: ApiProxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with api_at(api_proxy.kubeconfig, monkeypatch) as api:

        async def holder() -> str:
            found: str = (await api.get(LEASES, name="test-leader", namespace=namespace))["spec"][
                "holderIdentity"
            ]
            return found

        leadership = Leadership(api, namespace=namespace, release="test", identity="slow")
        for seconds, left in ((0.5, "slow"), (60, "")):
            await leadership.attempt()
            assert leadership.leads("any")
            with api_proxy.judged_by(lambda _: Fate(delay=1)):
                await leadership.release(seconds=seconds)
            assert not leadership.leads("any")
            assert await holder() == left
            assert ("could not be given back" in caplog.text) is bool(left)
            caplog.clear()


async def test_of_two_that_are_quick_one_wins(candidate: Candidate) -> None:
    pairs = [candidate(f"candidate-{number}") for number in range(5)]
    won = await asyncio.gather(*(attempt(*pair) for pair in pairs))
    assert sum(won) == 1


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it happens in another thread
        await asyncio.sleep(0.05)


async def test_whoever_leads_goes_on_through_renewals_that_fail_until_the_deadline(
    api_proxy: ApiProxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(api_proxy.kubeconfig)
    )
    connection, told = Connection(), list[bool]()

    def tell(_lost: frozenset[int], gained: frozenset[int]) -> None:
        told.append(bool(gained))

    leadership = Leadership(
        KubeApi(connection, metrics=Metrics()), namespace=namespace, release="test", identity="first"
    )
    running = asyncio.create_task(leadership.run(tell))
    try:
        await until(lambda: bool(told))
        # From here on no renewal succeeds: the first that fails comes right after the lease was taken.
        with api_proxy.judged_by(lambda _: Fate(refusal=Refusal(500))) as struck:
            await until(lambda: sum(struck.values()) > 1)
            assert told == [True]
            await until(lambda: told != [True])
            assert told == [True, False]
            assert not leadership.leads("any")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await connection.close()
