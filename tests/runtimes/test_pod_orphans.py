"""Pods without Sandboxes, where the garbage collector does not come: on a control plane on which it is frozen."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from runtimes.pod_orders import INSTALLATION, order
from sandkeeper.cluster.api import KubeApi, NotFound, Object
from sandkeeper.cluster.leadership import NotLeader
from sandkeeper.cluster.resources import PODS, SANDBOXES
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import Ceilings, PodSettings
from sandkeeper.config.pod import PodShape
from sandkeeper.runtimes.pod.backend import PodRuntimes
from sandkeeper.runtimes.pod.orphans import Orphans
from sandkeeper.runtimes.pod.pods import Pods
from sandkeeper.runtimes.protocol import Owner
from support.api import api_at
from support.cluster import OwnCluster
from support.crds import install_crds

pytestmark = pytest.mark.cluster

PLACE = "orphans"
KEY = RuntimeKey(PLACE, "uid", "default", "agent:rain")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def uncollected(own_cluster: OwnCluster) -> Iterator[OwnCluster]:
    install_crds(own_cluster)
    own_cluster.kubectl("create", "namespace", PLACE)
    own_cluster.kubectl("-n", PLACE, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    with own_cluster.without_controllers():
        yield own_cluster


@pytest.fixture
async def api(uncollected: OwnCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    async with api_at(uncollected.kubeconfig, monkeypatch) as speaking:
        yield speaking
        for resource in (PODS, SANDBOXES):
            async for page, _ in speaking.pages(resource, namespace=PLACE):
                for found in page:
                    await delete(speaking, resource, found["metadata"])


async def delete(api: KubeApi, resource: object, metadata: Object) -> None:
    await api.delete(resource, name=metadata["name"], namespace=PLACE, uid=metadata["uid"])  # type: ignore[arg-type]


async def sandbox(api: KubeApi, name: str) -> Object:
    body = {
        "apiVersion": "sandkeeper.dev/v1alpha1",
        "kind": "Sandbox",
        "metadata": {"name": name},
        "spec": {"agentId": name},
    }
    made = await api.create(SANDBOXES, body, namespace=PLACE)
    metadata: Object = made["metadata"]
    return metadata


def runtimes_of(api: KubeApi, clock: Clock) -> PodRuntimes:
    """Who believes that no Sandbox lives."""
    return PodRuntimes(
        PodSettings(),
        Ceilings(),
        INSTALLATION,
        api=api,
        connection=api._connection,
        is_live=lambda _namespace, _owner: False,
        clock=clock,
    )


class Left:
    """A Pod that was met as an orphan."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api
        self.clock = Clock()
        self.pods = Pods(installation=INSTALLATION, on_change=lambda _old, _new: None)
        self.leading = True
        self.orphans = Orphans(api, pods=self.pods, may_act=self.may_act, clock=self.clock)
        self.uid = ""

    def may_act(self, namespace: str) -> None:
        assert namespace == PLACE
        if not self.leading:
            raise NotLeader("it is not")

    async def begin(self, *owners: Object) -> None:
        runtimes = runtimes_of(self.api, self.clock)
        owned = [Owner(name=owner["name"], uid=owner["uid"]) for owner in owners]
        made = await runtimes.create(
            order(KEY, owners=tuple(owned), pod=PodShape(node_selector={"no": "where"}))
        )
        self.uid = made.id
        await self.see(made.name)

    async def see(self, name: str) -> None:
        """Let the cache have what is there now, and meet it."""
        self.pods.cache.put(await self.api.get(PODS, name=name, namespace=PLACE))
        pod = self.pods.by_uid(self.uid)
        assert pod is not None
        self.orphans.meet(pod)

    async def patch(self, metadata: Object) -> None:
        (pod,) = self.pods.of(KEY)
        await self.api.patch(PODS, {"metadata": metadata}, name=pod.name, namespace=PLACE)
        await self.see(pod.name)

    async def is_there(self) -> bool:
        async for page, _ in self.api.pages(PODS, namespace=PLACE):
            for found in page:
                if found["metadata"]["uid"] == self.uid and "deletionTimestamp" not in found["metadata"]:
                    return True
        return False

    async def is_removed(self) -> bool:
        removed = [pod.uid for pod in await self.orphans.remove_left()]
        assert removed == ([] if await self.is_there() else [self.uid])
        return bool(removed)


@pytest.fixture
def left(api: KubeApi) -> Left:
    return Left(api)


async def test_one_that_is_left_for_a_minute_is_removed(left: Left) -> None:
    gone, again = await sandbox(left.api, "rain"), await sandbox(left.api, "evening")
    await left.begin(gone, again)
    await delete(left.api, SANDBOXES, gone)
    await delete(left.api, SANDBOXES, again)
    assert (await sandbox(left.api, "evening"))["uid"] != again["uid"]  # its name has another by now
    left.clock.now = 60
    assert not await left.is_removed()
    left.clock.now = 61
    assert await left.is_removed()
    assert not await left.orphans.remove_left()


async def test_one_of_whose_sandboxes_one_lives_is_left_alone(left: Left) -> None:
    """The cache did not know; the API server does."""
    gone, lives = await sandbox(left.api, "rain"), await sandbox(left.api, "evening")
    await left.begin(gone, lives)
    await delete(left.api, SANDBOXES, gone)
    left.clock.now = 61
    assert not await left.is_removed()


async def test_one_that_somebody_else_owns_too_is_left_alone(left: Left) -> None:
    await left.begin({"name": "rain", "uid": "gone"})
    (pod,) = left.pods.of(KEY)
    ours = {"apiVersion": "sandkeeper.dev/v1alpha1", "kind": "Sandbox", "name": "rain", "uid": "gone"}
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "theirs"}
    await left.patch({"uid": pod.uid, "ownerReferences": [ours, theirs]})
    left.clock.now = 61
    assert not await left.is_removed()


async def test_one_that_nobody_owns_is_left_alone(left: Left) -> None:
    await left.begin({"name": "rain", "uid": "gone"})
    await left.patch({"ownerReferences": []})
    left.clock.now = 61
    assert not await left.is_removed()


async def test_another_of_the_same_name_is_left_alone(left: Left) -> None:
    await left.begin({"name": "rain", "uid": "gone"})
    (pod,) = left.pods.of(KEY)
    await delete(left.api, PODS, {"name": pod.name, "uid": pod.uid})
    another = Left(left.api)
    await another.begin({"name": "rain", "uid": "gone"})
    left.clock.now = 61
    assert not await left.orphans.remove_left()
    assert await another.is_there()


async def test_one_that_has_gone_unnoticed_is_known_to_be_gone(left: Left) -> None:
    await left.begin({"name": "rain", "uid": "gone"})
    (pod,) = left.pods.of(KEY)
    await delete(left.api, PODS, {"name": pod.name, "uid": pod.uid})
    left.clock.now = 61
    assert await left.orphans.remove_left() == [pod]
    assert not left.pods.of(KEY)


async def test_nothing_is_removed_by_who_does_not_lead(left: Left) -> None:
    await left.begin({"name": "rain", "uid": "gone"})
    left.clock.now, left.leading = 61, False
    assert not await left.is_removed()
    left.leading = True
    await left.see(left.pods.of(KEY)[0].name)
    assert not await left.is_removed()  # a minute from then
    left.clock.now = 122
    assert await left.is_removed()


async def test_whoever_waits_for_it_looks_again(api: KubeApi) -> None:
    clock, told = Clock(), asyncio.Event()
    runtimes = runtimes_of(api, clock)
    owner = Owner(name="rain", uid="gone")
    made = await runtimes.create(order(KEY, owners=(owner,), pod=PodShape(node_selector={"no": "where"})))
    await runtimes.observe(KEY, node=None)
    clock.now = 61
    running = asyncio.create_task(runtimes.run(lambda key: told.set() if key == KEY else None))
    async with asyncio.timeout(120):  # a sweep every 30 s
        await told.wait()
    running.cancel()
    with pytest.raises(NotFound):
        await api.get(PODS, name=made.name, namespace=PLACE)  # it was on no node, and is gone at once
