"""Several operators that each have a share, under load: no namespace ever has two, and only what must move moves."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from availability.crew import RELEASE, Crew, Replica, assemble, eventually
from availability.reigns import Reign
from chaos.client import Json
from sandkeeper.cluster.sharding import member_of
from sandkeeper.cluster.slots import EVERY_SLOT, SHARES, Shares, slot_of
from support.cluster import OwnCluster
from support.crds import install_crds
from support.helm import Helm
from support.rights import account_with, roles_of_the_operator
from testbed import progress
from testbed.fake_nodes import FakeNodes

pytestmark = [pytest.mark.cluster]

NAMESPACES = 12
EACH = 3
TAKEOVER_SECONDS = 30
"""Twice as much as there is any need for: three operators and twelve namespaces of users share two cores here."""
AFTER_SECONDS = 6
RECORD = f"{RELEASE}-shards"

Fault = Callable[[Replica], AbstractAsyncContextManager[None]]


@pytest.fixture(scope="module")
def nodes(own_cluster: OwnCluster) -> Iterator[FakeNodes]:
    """Nodes of a cluster that nobody else uses: the operators serve all of it, as they would."""
    install_crds(own_cluster)
    with own_cluster.fake_nodes(4, prefix="shards") as made:
        yield made


@pytest.fixture(scope="module")
def rights(
    own_cluster: OwnCluster,
    nodes: FakeNodes,
    renderer: Helm,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Path]:
    """What the chart lets operators do that share the work."""
    roles = roles_of_the_operator(renderer, release=RELEASE, **{"config.sharding.enabled": True})
    with account_with(own_cluster, roles, tmp_path_factory.mktemp("crew"), pytestconfig) as kubeconfig:
        yield kubeconfig


def different_slots(prefix: str) -> list[str]:
    """Names for namespaces, each of another slot."""
    found: dict[int, str] = {}
    for number in count():
        name = f"{prefix}-{number}"
        found.setdefault(slot_of(name), name)
        if len(found) == NAMESPACES:
            return list(found.values())
    raise AssertionError


@asynccontextmanager
async def working(cluster: OwnCluster, nodes: FakeNodes, rights: Path, prefix: str) -> AsyncIterator[Crew]:
    """Three operators at work for the users of some namespaces."""
    names = different_slots(prefix)
    for name in names:
        await asyncio.to_thread(cluster.kubectl, "create", "namespace", name)
    for name in names:
        wait = ("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        await asyncio.to_thread(cluster.kubectl, "-n", name, *wait)
    try:
        async with assemble(cluster, nodes, names, kubeconfig=rights, sharding={"enabled": True}) as crew:
            for _ in range(3):
                await crew.add()
            await eventually(lambda: is_shared(crew, crew.replicas), what="all slots are shared among three")
            await crew.populate(seed=1, most=EACH)
            await asyncio.sleep(AFTER_SECONDS)
            yield crew
    finally:
        # The cluster is used again by the next test, whose operators serve all of it.
        for name in names:
            await asyncio.to_thread(cluster.kubectl, "delete", "namespace", name, "--wait=false")


# --- what the API server has ------------------------------------------------------------------------------------------


def records(crew: Crew) -> list[Json]:
    return [lease for lease in crew.leases if lease["metadata"]["name"] == RECORD]


def shares_in(crew: Crew, record: Json) -> dict[int, str]:
    """Read who has which slot, by the replicas' names."""
    identities = {
        member_of(lease["spec"]["holderIdentity"]): lease["spec"]["holderIdentity"]
        for lease in crew.leases
        if "-member-" in lease["metadata"]["name"]
    }
    found = Shares.parse(record["metadata"]["annotations"][SHARES]).holders
    holders = {slot: crew.replica_of(identities[member]) for slot, member in found.items()}
    return {slot: replica.name for slot, replica in holders.items() if replica is not None}


def shares(crew: Crew) -> dict[int, str]:
    """Who has which slot at the moment."""
    seen = records(crew)
    return shares_in(crew, seen[-1]) if seen else {}


def slots(crew: Crew, replica: Replica) -> set[int]:
    return {slot for slot, name in shares(crew).items() if name == replica.name}


def is_shared(crew: Crew, replicas: list[Replica]) -> bool:
    found = shares(crew)
    return found.keys() == EVERY_SLOT and set(found.values()) == {one.name for one in replicas}


def reigns(crew: Crew) -> list[Reign]:
    """Who had which namespace, version by version."""

    def reign(record: Json) -> Reign:
        found = shares_in(crew, record)
        return Reign(
            int(record["metadata"]["resourceVersion"]), lambda namespace: found.get(slot_of(namespace))
        )

    return [reign(record) for record in records(crew)]


def moved(before: Mapping[int, str], after: Mapping[int, str]) -> set[int]:
    return {slot for slot in EVERY_SLOT if before.get(slot) != after.get(slot)}


def writers(crew: Crew) -> set[str]:
    return {replica.name for replica in crew.replicas if replica.writes}


# --- tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [Replica.killed, Replica.frozen, Replica.cut_off], ids=["killed", "frozen", "cut-off"]
)
async def test_only_the_slots_of_who_is_lost_move_and_nobody_has_two(
    fault: Fault, own_cluster: OwnCluster, nodes: FakeNodes, rights: Path
) -> None:
    async with working(own_cluster, nodes, rights, fault.__name__.replace("_", "-")) as crew:
        lost, *others = crew.replicas
        before = shares(crew)
        own = slots(crew, lost)
        assert own

        struck = time.monotonic()
        async with fault(lost):
            await eventually(lambda: is_shared(crew, others), what="the others have its slots")
            taken = time.monotonic() - struck
            assert moved(before, shares(crew)) == own
            await asyncio.sleep(AFTER_SECONDS)
        await eventually(lambda: is_shared(crew, crew.replicas), what="who is back has a share again")
        await asyncio.sleep(AFTER_SECONDS)
        await crew.rest()

        progress.say(f"{fault.__name__}: {len(own)} slots had others {taken:.1f} s after")
        assert crew.complaints(reigns(crew)) == []
        assert len(writers(crew)) > 1
        assert taken < TAKEOVER_SECONDS


async def test_a_fourth_takes_slots_and_none_moves_between_the_others(
    own_cluster: OwnCluster, nodes: FakeNodes, rights: Path
) -> None:
    async with working(own_cluster, nodes, rights, "joined") as crew:
        before, seen = shares(crew), len(records(crew))
        joining = await crew.add()
        began = time.monotonic()
        await eventually(lambda: is_shared(crew, crew.replicas), what="the fourth has a share")
        progress.say(
            f"joined: it had {len(slots(crew, joining))} slots {time.monotonic() - began:.1f} s after"
        )
        await asyncio.sleep(AFTER_SECONDS)
        await crew.rest()

        after = shares(crew)
        assert moved(before, after) == slots(crew, joining)
        for record in records(crew)[seen:]:
            for slot, name in shares_in(crew, record).items():
                assert name in {before[slot], joining.name}, "on the way there, too"
        assert crew.complaints(reigns(crew)) == []


async def test_who_ends_in_order_hands_over_at_once(
    own_cluster: OwnCluster, nodes: FakeNodes, rights: Path
) -> None:
    async with working(own_cluster, nodes, rights, "ended") as crew:
        leaving, *others = crew.replicas
        before, own, seen = shares(crew), slots(crew, leaving), len(records(crew))
        assert await leaving.operated.stop() == 0
        ended = time.monotonic()
        await eventually(lambda: is_shared(crew, others), what="the others have its slots")
        taken = time.monotonic() - ended
        assert moved(before, shares(crew)) == own
        await asyncio.sleep(AFTER_SECONDS)
        await crew.rest()
        progress.say(f"ended: {len(own)} slots had others {taken:.1f} s after")
        assert crew.complaints(reigns(crew)) == []
        given_back = (own.isdisjoint(shares_in(crew, record)) for record in records(crew)[seen:])
        assert any(given_back), "nobody waited for its lease to expire: its slots would go straight to others"
