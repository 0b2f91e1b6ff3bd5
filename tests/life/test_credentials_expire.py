"""The operator's token expires while it works: it goes on with the new one, from wherever it had the old one."""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.operator import OperatorFactory, Sandboxes
from support.pods import serving_pods
from support.proxy import ApiProxy
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster]


@pytest.fixture
def proxy(cluster: Cluster, tmp_path: Path) -> Iterator[ApiProxy]:
    with ApiProxy(cluster.kubeconfig, tmp_path, token=True) as proxy:
        yield proxy


def test_a_new_token_is_read_when_the_old_one_is_refused(
    proxy: ApiProxy, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes
) -> None:
    operator = operator_factory(env={"KUBECONFIG": str(proxy.kubeconfig)}, **serving_pods()).wait_ready()
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    for name in ("tio", "host"):
        proxy.renew_token()
        pod_sandboxes.apply(pod_sandboxes.sandbox(name))
        pod_sandboxes.wait(name, "Running")
        assert proxy.count(status=HTTPStatus.UNAUTHORIZED) > 0
    # The watches go on with the new one, too.
    proxy.cut()
    proxy.heal()
    wait_for(lambda: proxy.open_watches("sandboxes") == 1, what="the Sandboxes are watched again")
    pod_sandboxes.apply(pod_sandboxes.sandbox("late"))
    pod_sandboxes.wait("late", "Running")
    assert operator.process.poll() is None
