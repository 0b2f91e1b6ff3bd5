"""A watch is refused, as it is when a token expires before anything else asked: kopf logs in anew, and goes on."""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.operator import OperatorFactory, Sandboxes
from support.pods import serving_pods
from support.proxy import ApiProxy
from support.trouble import PASS, Asked, Fate, Refusal
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster]

REFUSED = Fate(refusal=Refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized"))


@pytest.fixture
def proxy(cluster: Cluster, tmp_path: Path) -> Iterator[ApiProxy]:
    with ApiProxy(cluster.kubeconfig, tmp_path, token=True) as proxy:
        yield proxy


def refuse_watches(asked: Asked) -> Fate:
    return REFUSED if asked.verb == "watch" else PASS


def refuse_once(proxy: ApiProxy) -> None:
    with proxy.judged_by(refuse_watches) as struck:
        proxy.cut()
        proxy.heal()
        wait_for(lambda: struck["watch"] > 0, what="a watch is refused")
    wait_for(lambda: proxy.open_watches("sandboxes") > 0, what="it watches again")


def test_who_watches_logs_in_anew(
    proxy: ApiProxy, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes
) -> None:
    operator = operator_factory(env={"KUBECONFIG": str(proxy.kubeconfig)}, **serving_pods()).wait_ready()
    pod_sandboxes.apply(pod_sandboxes.policy())
    for name in ("rain", "tio"):
        refuse_once(proxy)
        pod_sandboxes.apply(pod_sandboxes.sandbox(name))
        pod_sandboxes.wait(name, "Running")
    assert operator.process.poll() is None
    assert operator.ready()


def test_who_cannot_read_new_credentials_goes_on_with_the_old_ones(
    proxy: ApiProxy, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes
) -> None:
    operator = operator_factory(env={"KUBECONFIG": str(proxy.kubeconfig)}, **serving_pods()).wait_ready()
    pod_sandboxes.apply(pod_sandboxes.policy())
    kept = proxy.kubeconfig.rename(proxy.kubeconfig.with_suffix(".away"))
    try:
        refuse_once(proxy)
    finally:
        kept.rename(proxy.kubeconfig)
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    assert operator.process.poll() is None


def test_who_loses_the_connection_while_finding_out_what_there_is_asks_again(
    proxy: ApiProxy, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes
) -> None:
    """kopf asks when it begins, and does not outlive an answer that breaks off while it reads it."""
    broken = 0

    def break_off_once(asked: Asked) -> Fate:
        nonlocal broken
        if asked.resource.startswith("/apis/") and not broken:
            broken += 1
            return Fate(refusal=Refusal(HTTPStatus.OK, headers={"Content-Length": "100000"}))
        return PASS

    with proxy.judged_by(break_off_once):
        operator = operator_factory(env={"KUBECONFIG": str(proxy.kubeconfig)}, **serving_pods()).wait_ready()
        wait_for(lambda: proxy.open_watches("sandboxes") > 0, what="it watches", timeout=120)
    assert broken
    pod_sandboxes.apply(pod_sandboxes.policy(), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    assert operator.stop() == 0
