"""A watch is refused: for a token that has expired, which kopf gets anew; for long; or for good."""

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
    operator.wait_ready()


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


def test_one_that_is_refused_again_and_again_is_asked_for_again_and_again(
    proxy: ApiProxy, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes
) -> None:
    """An API server that has just begun does not know the kinds of others yet, and may be killed before it does."""
    not_yet = Fate(refusal=Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"))
    operator = operator_factory(env={"KUBECONFIG": str(proxy.kubeconfig)}, **serving_pods()).wait_ready()
    with proxy.judged_by(lambda asked: not_yet if _is_of_policies(asked) else PASS) as struck:
        proxy.cut()
        proxy.heal()
        # kopf of itself gives up after the ninth.
        wait_for(lambda: struck["watch"] > 9, what="it is refused ten times", timeout=180)
    wait_for(lambda: proxy.open_watches("agentsandboxpolicies") > 0, what="it watches again")
    pod_sandboxes.apply(pod_sandboxes.policy())
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    assert operator.process.poll() is None


def test_who_cannot_watch_any_more_ends_and_says_so(
    proxy: ApiProxy, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes
) -> None:
    """A kind that is gone: whoever starts the operator again is told which, and it waits for it."""
    operator = operator_factory(env={"KUBECONFIG": str(proxy.kubeconfig)}, **serving_pods()).wait_ready()
    pod_sandboxes.apply(pod_sandboxes.policy())
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    gone = Fate(refusal=Refusal(HTTPStatus.NOT_FOUND, "NotFound"))
    with proxy.judged_by(lambda asked: gone if _is_of_policies(asked) else PASS):
        proxy.cut()
        proxy.heal()
        assert operator.wait_dead(timeout=120) == 1
    assert "Ending" in operator.log.read_text()


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_who_hears_nothing_for_long_though_lists_are_answered_ends_and_says_so(
    proxy: ApiProxy, operator_factory: OperatorFactory, pod_sandboxes: Sandboxes
) -> None:
    """Whatever became of the watch: whoever starts the operator again has another."""
    operator = operator_factory(env={"KUBECONFIG": str(proxy.kubeconfig)}, **serving_pods()).wait_ready()
    pod_sandboxes.apply(pod_sandboxes.policy())
    never = Fate(delay=3600)
    with proxy.judged_by(lambda asked: never if _is_of_policies(asked) else PASS):
        proxy.cut()
        proxy.heal()
        assert operator.wait_dead(timeout=900) == 1
    assert "nothing is heard of AgentSandboxPolicies" in operator.log.read_text()


def _is_of_policies(asked: Asked) -> bool:
    return asked.verb == "watch" and asked.resource == "agentsandboxpolicies"
