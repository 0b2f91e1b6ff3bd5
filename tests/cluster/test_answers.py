"""What the API server, or somebody in front of it, answers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sandkeeper.cluster.api import ApiError, KubeApi
from sandkeeper.cluster.resources import PODS
from support.api import api_at
from support.upstream import kubeconfig_of


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    """Answers to everything with a page for people, as a proxy does whose log-in has run out."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="<html>Please log in</html>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    served = TestServer(app)
    async with served:
        yield served


@pytest.fixture
async def api(server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeApi]:
    """Requests to that server."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(str(server.make_url("/"))), encoding="utf-8")
    async with api_at(kubeconfig, monkeypatch) as speaking:
        yield speaking


@pytest.mark.parametrize("metadata_only", [False, True])
async def test_a_page_for_people_is_no_list(api: KubeApi, *, metadata_only: bool) -> None:
    with pytest.raises(ApiError, match="none to what was asked") as refused:
        [page async for page in api.pages(PODS, metadata_only=metadata_only)]
    assert refused.value.status == 0


async def test_nor_is_it_an_object(api: KubeApi) -> None:
    with pytest.raises(ApiError, match="none to what was asked"):
        await api.get(PODS, name="rain", namespace="team")
