"""What is there for those who do without Helm is what the chart makes, and an API server takes it."""

from typing import Any

import pytest
import yaml

from manifests import rendering
from sandkeeper.api import crd, generated
from support.cluster import OwnCluster
from testbed import binaries
from testbed.operator_image import ROOT

DEPLOY = ROOT / "deploy"

pytestmark = pytest.mark.timeout(900)  # Helm may have to be built


@pytest.fixture(scope="module")
def files() -> Any:
    return rendering.files()


def test_they_are_generated_from_the_chart_as_it_is(files: dict[str, str]) -> None:
    differences = "".join(generated.differences(files, inside=DEPLOY))
    assert not differences, f"run `make manifests`:\n{differences}"
    there = {str(path.relative_to(DEPLOY)) for path in (DEPLOY / "kustomize").rglob("*") if path.is_file()}
    assert there == set(files) - {"install.yaml"}, "and nothing else is there"


def by_identity(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def loaded(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    return by_identity(list(yaml.load_all(text, Loader=yaml.CSafeLoader)))


def everything(values: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return by_identity(
        [*(crd.definition(one) for one in (crd.SANDBOX, crd.POLICY)), *rendering.objects(values)]
    )


def test_the_plain_manifest_has_everything_once(files: dict[str, str]) -> None:
    text = files["install.yaml"]
    assert loaded(text) == everything({})
    assert text.count("\nkind: ") == len(loaded(text))
    assert "helm.sh" not in text


@pytest.mark.cluster
@pytest.mark.xdist_group("chart-own")
@pytest.mark.parametrize("overlay", [None, *rendering.OVERLAYS], ids=lambda name: name or "base")
def test_kustomize_makes_what_the_chart_makes(own_cluster: OwnCluster, overlay: str | None) -> None:
    folder = "base" if overlay is None else f"overlays/{overlay}"
    made = loaded(own_cluster.kubectl("kustomize", str(DEPLOY / "kustomize" / folder)))
    assert made == everything({} if overlay is None else rendering.OVERLAYS[overlay])


@pytest.mark.cluster
@pytest.mark.xdist_group("chart-own")
def test_an_api_server_takes_all_of_it(own_cluster: OwnCluster) -> None:
    shipped = binaries.sources("monitoring", "github.com/prometheus-operator/prometheus-operator")
    for kind in ("podmonitors", "prometheusrules"):
        path = shipped / f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
        own_cluster.kubectl("apply", "--server-side", "-f", str(path))
    own_cluster.kubectl("apply", "--server-side", "--validate=strict", "-f", str(DEPLOY / "install.yaml"))
    own_cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    for overlay in rendering.OVERLAYS:
        own_cluster.kubectl(
            *("apply", "--server-side", "--force-conflicts", "--validate=strict"),
            *("-k", str(DEPLOY / "kustomize/overlays" / overlay)),
        )
    own_cluster.kubectl("delete", "-f", str(DEPLOY / "install.yaml"), "--wait=false")
