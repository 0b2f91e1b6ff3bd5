from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.proxy import ApiProxy

if TYPE_CHECKING:
    from pathlib import Path

    from support.cluster import Cluster, OwnCluster

pytestmark = pytest.mark.cluster


def test_it_is_another_one(own_cluster: OwnCluster, cluster: Cluster) -> None:
    assert own_cluster.server != cluster.server
    assert own_cluster.get("nodes")["items"] == []
    own_cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")


def test_a_revision_is_really_gone_after_a_compaction_and_a_restart(
    own_cluster: OwnCluster, tmp_path: Path
) -> None:
    own_cluster.kubectl("create", "configmap", "a")
    old = own_cluster.get("configmap", "a")["metadata"]["resourceVersion"]
    own_cluster.kubectl("delete", "configmap", "a")
    # Only this one: a cluster that has just begun makes others meanwhile.
    query = f"watch=true&timeoutSeconds=2&fieldSelector=metadata.name%3Da&resourceVersion={old}"
    path = f"/api/v1/namespaces/default/configmaps?{query}"
    with ApiProxy(own_cluster.kubeconfig, tmp_path) as proxy:
        told = own_cluster.kubectl("--kubeconfig", str(proxy.kubeconfig), "get", "--raw", path)
        assert [json.loads(line)["type"] for line in told.splitlines()] == ["DELETED"]
        assert proxy.gone == 0

        assert own_cluster.compact_etcd() > int(old)
        own_cluster.restart_api_server()

        told = own_cluster.kubectl("--kubeconfig", str(proxy.kubeconfig), "get", "--raw", path)
        (event,) = (json.loads(line) for line in told.splitlines())
        assert event["type"] == "ERROR"
        assert event["object"]["code"] == 410
        assert proxy.gone == 1
        (error,) = proxy.watch_errors
        assert (error.resource, error.code) == ("configmaps", 410)
        assert "too old resource version" in error.message
