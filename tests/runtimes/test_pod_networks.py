"""Network policies of Pods on the real API server: there when needed, gone when nobody needs them."""

from typing import Any

import pytest

from runtimes.pod_orders import order
from sandkeeper.cluster.api import Conflict, KubeApi, NotFound, Object
from sandkeeper.cluster.resources import NETWORK_POLICIES
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.runtimes.pod.networks import Networks
from sandkeeper.runtimes.pod.pods import Pods

pytestmark = pytest.mark.cluster

INSTALLATION = "0123456789abcdef"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def networks_of(api: KubeApi, **options: Any) -> Networks:
    """Network policies of an installation that has no Pods; nobody watches them."""
    return Networks(
        api,
        pods=Pods(installation=INSTALLATION, on_change=lambda _old, _new: None),
        installation=INSTALLATION,
        may_act=lambda _: None,
        on_change=lambda _namespace, _network: None,
        **options,
    )


async def test_one_that_no_pod_is_under_is_removed_after_a_while(
    operator_api: KubeApi, namespace: str
) -> None:
    clock = Clock()
    networks = networks_of(operator_api, clock=clock)
    key = RuntimeKey(namespace, "uid", "default", "agent:rain")
    await networks.ensure(key, order().config)
    (policy,) = networks.cache
    where = {"name": policy.id[1], "namespace": namespace}
    assert (await operator_api.get(NETWORK_POLICIES, **where))["metadata"]["uid"] == policy.uid
    clock.now += 200
    await networks.ensure(key, order().config)  # somebody needs it again
    clock.now += 200
    await networks.remove_spare()
    await operator_api.get(NETWORK_POLICIES, **where)
    clock.now += 200
    await networks.remove_spare()
    with pytest.raises(NotFound):
        await operator_api.get(NETWORK_POLICIES, **where)
    assert not len(networks.cache)


def opened(policy: Object) -> Object:
    """Somebody lets everything out."""
    return {**policy, "spec": {**policy["spec"], "policyTypes": ["Ingress"]}}


async def test_one_that_was_changed_behind_our_back_is_put_right_at_the_second_look(
    api: KubeApi, namespace: str
) -> None:
    """Nobody watches here: what the cache has is out of date, as it is where the watch is cut."""
    key = RuntimeKey(namespace, "uid", "default", "agent:rain")
    networks = networks_of(api)

    async def read() -> Object:
        return await api.get(NETWORK_POLICIES, name=known.id[1], namespace=namespace)

    async def write(policy: Object) -> Object:
        return await api.replace(NETWORK_POLICIES, policy, name=known.id[1], namespace=namespace)

    await networks.ensure(key, order().config)
    (known,) = networks.cache
    right = (await read())["spec"]
    changed = await write(opened(await read()))
    networks.cache.put(changed)
    # Once more, and this time unseen.
    await write({**changed, "metadata": {**changed["metadata"], "annotations": {"seen": "no"}}})
    with pytest.raises(Conflict):
        await networks.ensure(key, order().config)
    await networks.ensure(key, order().config)
    assert (await read())["spec"] == right

    networks.cache.put(await write(opened(await read())))
    await api.delete(NETWORK_POLICIES, name=known.id[1], namespace=namespace, uid=known.uid)
    with pytest.raises(NotFound):
        await networks.ensure(key, order().config)
    await networks.ensure(key, order().config)
    assert (await read())["spec"] == right
