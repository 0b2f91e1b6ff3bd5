"""Each request to the real engine is told, with what it was for and how it ended."""

from typing import Any

import docker
import pytest
import requests
from requests.adapters import BaseAdapter

from sandkeeper.runtimes.docker.transport import Client, connect_to
from support.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


class Dead(BaseAdapter):
    def send(self, *_: Any, **__: Any) -> requests.Response:
        raise requests.ConnectionError("nobody there")

    def close(self) -> None:
        pass


def test_requests_are_told_whatever_becomes_of_them(cluster: Cluster) -> None:
    told: list[tuple[str, int | None]] = []
    client = connect_to(cluster.docker_host)(60.0)
    assert isinstance(client, Client)

    def tell(operation: str, seconds: float, status: int | None) -> None:
        assert 0 <= seconds < 60
        told.append((operation, status))

    client.tell = tell
    try:
        client.info()
        with pytest.raises(docker.errors.NotFound):
            client.inspect_container("there-is-no-such")
        client.mount("http+docker://", Dead())
        with pytest.raises(requests.ConnectionError):
            client.containers()
    finally:
        client.close()
    assert told == [("info", 200), ("container_inspect", 404), ("container_list", None)]
