"""A client that is closed leaves nothing open, even if its loop ends at once."""

import asyncio
import gc
import warnings

import pytest

from bench.kube import Kube, Watch, pods
from support.cluster import Cluster

pytestmark = pytest.mark.cluster


async def follow_shortly(cluster: Cluster) -> None:
    kube = Kube(cluster.kubeconfig)
    async with Watch(kube, "default", pods), Watch(kube, "kube-system", pods):
        pass
    await kube.close()


def test_who_follows_shortly_leaves_nothing_open(cluster: Cluster) -> None:
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(10):
            asyncio.run(follow_shortly(cluster))
        gc.collect()
    assert [str(one.message) for one in told] == []
