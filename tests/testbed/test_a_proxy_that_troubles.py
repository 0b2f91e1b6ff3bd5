"""What the proxy before the API server can do to whoever comes by way of it."""

from __future__ import annotations

import http.client
import json
import random
import time
from http import HTTPStatus
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml

from support.proxy import ApiProxy
from support.trouble import PASS, Asked, Fate, Refusal
from support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.cluster import Cluster

pytestmark = pytest.mark.cluster


class Caller:
    """A client with one connection."""

    def __init__(self, proxy: ApiProxy, namespace: str, token: str | None = None) -> None:
        self._connection = HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"

    def ask(
        self, method: str, name: str = "", body: dict[str, Any] | None = None
    ) -> http.client.HTTPResponse:
        path = self._path + (f"/{name}" if name else "")
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer

    def make(self, name: str) -> int:
        return self.ask("POST", body={"metadata": {"name": name}}).status

    def watch(self) -> http.client.HTTPResponse:
        self._connection.request("GET", f"{self._path}?watch=true", None, self._headers)
        return self._connection.getresponse()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def caller(api_proxy: ApiProxy, namespace: str) -> Iterator[Caller]:
    made = Caller(api_proxy, namespace)
    yield made
    made.close()


def refusing(**refusal: Any) -> Fate:
    return Fate(refusal=Refusal(**refusal))


def test_a_request_is_refused_as_the_api_server_would_and_the_connection_goes_on(
    api_proxy: ApiProxy, caller: Caller
) -> None:
    def judge(asked: Asked) -> Fate:
        if not asked.writes:
            return PASS
        return refusing(status=429, reason="TooManyRequests", headers={"Retry-After": "1"})

    with api_proxy.judged_by(judge) as struck:
        answer = caller.ask("POST", body={"metadata": {"name": "a"}})
        assert (answer.status, answer.headers["Retry-After"]) == (HTTPStatus.TOO_MANY_REQUESTS, "1")
        assert caller.ask("GET", "a").status == HTTPStatus.NOT_FOUND
    assert struck == {"create": 1}
    assert caller.make("a") == HTTPStatus.CREATED
    assert api_proxy.count(verb="create", resource="configmaps", status=429) == 1


def test_a_request_is_held_up(api_proxy: ApiProxy, caller: Caller) -> None:
    with api_proxy.judged_by(lambda _: Fate(delay=0.5)):
        began = time.monotonic()
        assert caller.make("a") == HTTPStatus.CREATED
        assert time.monotonic() - began >= 0.5


def test_an_answer_is_lost_and_what_was_asked_for_is_done(api_proxy: ApiProxy, caller: Caller) -> None:
    with api_proxy.judged_by(lambda asked: Fate(lost=asked.writes)) as struck:
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            caller.make("a")
        assert struck == {"create": 1}
    caller.close()
    assert caller.ask("GET", "a").status == HTTPStatus.OK


def test_a_token_expires(cluster: Cluster, tmp_path: Path, namespace: str) -> None:
    def told(path: Path) -> str:
        return str(yaml.safe_load(path.read_text())["users"][0]["user"]["token"])

    with ApiProxy(cluster.kubeconfig, tmp_path, token=True) as proxy:
        old = told(proxy.kubeconfig)
        first = Caller(proxy, namespace, old)
        assert first.make("a") == HTTPStatus.CREATED
        proxy.renew_token()
        assert first.ask("GET", "a").status == HTTPStatus.UNAUTHORIZED
        second = Caller(proxy, namespace, told(proxy.kubeconfig))
        assert second.ask("GET", "a").status == HTTPStatus.OK
        stranger = Caller(proxy, namespace, "somebody-elses")
        assert stranger.ask("GET", "a").status == HTTPStatus.UNAUTHORIZED, "the API server does not know it"
        for one in (first, second, stranger):
            one.close()


def test_a_watch_ends_in_the_middle_of_an_event(
    api_proxy: ApiProxy, caller: Caller, cluster: Cluster, namespace: str
) -> None:
    answer = caller.watch()
    first = answer.readline()
    assert json.loads(first)["object"]["metadata"]["name"] == "kube-root-ca.crt"
    assert api_proxy.tear_watches() == 1
    cluster.kubectl("-n", namespace, "create", "configmap", "late")
    left = answer.fp.read()  # as it is on the wire: the size of a chunk, and half of it
    assert b'{"type":"ADDED"' in left
    assert not left.endswith(b"\n")
    wait_for(lambda: api_proxy.torn == 1, what="the proxy knows")


def test_a_watch_that_is_not_to_end_after_all_goes_on(
    api_proxy: ApiProxy, caller: Caller, cluster: Cluster, namespace: str
) -> None:
    answer = caller.watch()
    answer.readline()
    api_proxy.tear_watches()
    assert api_proxy.tear_watches(anyway=False) == 1
    cluster.kubectl("-n", namespace, "create", "configmap", "late")
    assert json.loads(answer.readline())["object"]["metadata"]["name"] == "late"
    assert api_proxy.torn == 0


def test_events_come_again(api_proxy: ApiProxy, caller: Caller) -> None:
    answer = caller.watch()
    first = answer.readline()
    assert api_proxy.repeat_events(random.Random(1)) == 1  # noqa: S311 - guards nothing
    assert answer.readline() == first


def test_a_frozen_watch_is_ended(api_proxy: ApiProxy, caller: Caller) -> None:
    answer = caller.watch()
    answer.readline()
    assert (api_proxy.freeze_watches(), api_proxy.end_frozen()) == (1, 1)
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        answer.read()
