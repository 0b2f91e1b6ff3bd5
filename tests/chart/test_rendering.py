"""What the chart makes of values."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.rendered import VALUES, Rendered, render
from sandkeeper.config.operator import OperatorConfig
from support.helm import CHART, Helm, Refused

pytestmark = pytest.mark.timeout(900)  # Helm may have to be built

SETS = sorted(path.stem for path in VALUES.glob("*.yaml"))


def config_of(rendered: Rendered) -> dict[str, Any]:
    (found,) = (one for one in rendered.all("ConfigMap") if "operator.yaml" in one.get("data", {}))
    read: dict[str, Any] = yaml.safe_load(found["data"]["operator.yaml"])
    return read


@pytest.mark.parametrize("values", SETS)
def test_it_lints(renderer: Helm, values: str) -> None:
    said = renderer.run("lint", "--strict", str(CHART), "--values", str(VALUES / f"{values}.yaml"))
    assert "0 chart(s) failed" in said


@pytest.mark.parametrize("values", SETS)
def test_the_operator_takes_the_configuration_that_it_makes(renderer: Helm, values: str) -> None:
    config = OperatorConfig.model_validate(config_of(render(renderer, values)))
    assert (config.namespace, config.release) == ("ns", "sk")
    assert config.default_backend in config.backends


def test_whole_numbers_stay_whole(renderer: Helm) -> None:
    assert config_of(render(renderer, "everything"))["prunes"] == {"perMinute": 1_000_000, "burst": 5}


@pytest.mark.parametrize("values", SETS)
def test_every_object_says_where_it_is_and_whose(renderer: Helm, values: str) -> None:
    everywhere = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
    for one in render(renderer, values).objects:
        name = f"{one['kind']}/{one['metadata']['name']}"
        if one["metadata"]["name"] in {"sk-one", "sk-two"}:
            continue  # ours, from values
        assert ("namespace" in one["metadata"]) is (one["kind"] not in everywhere), name
        assert one["metadata"]["labels"]["app.kubernetes.io/instance"] == "sk", name


@pytest.mark.parametrize("values", SETS)
def test_no_right_is_a_wildcard_and_none_reaches_beyond_what_is_served(renderer: Helm, values: str) -> None:
    rendered = render(renderer, values)
    for role, rule in rendered.rules():
        assert not any("*" in text for part in rule.values() for text in part), role["metadata"]["name"]
        assert "secrets" not in rule["resources"]
    served = {one["metadata"]["namespace"] for one in rendered.all("Role") if is_of_sandboxes(one)}
    assert served == ({"blue", "green"} if values == "namespaced" else set())


def is_of_sandboxes(role: dict[str, Any]) -> bool:
    return any("sandboxes" in rule["resources"] for rule in role["rules"])


def test_an_operator_of_some_namespaces_may_do_nothing_elsewhere(renderer: Helm) -> None:
    rendered = render(renderer, "namespaced")
    beyond = {
        (resource, verb)
        for role, rule in rendered.rules()
        if role["kind"] == "ClusterRole"
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    # What has no namespace.
    assert beyond == {
        ("namespaces", "get"),
        ("namespaces", "list"),
        ("namespaces", "watch"),
        ("nodes", "get"),
    }
    own = [role["metadata"]["name"] for role in rendered.all("Role") if role["metadata"]["namespace"] == "ns"]
    assert own == ["sk-sandkeeper-defaults", "sk-sandkeeper-leader"]


def test_an_operator_without_pods_has_no_rights_on_them(renderer: Helm) -> None:
    resources = {
        each
        for role, rule in render(renderer, "engine-over-tls").rules()
        for each in rule["resources"]
        if "helm.sh/hook" not in role["metadata"].get("annotations", {})
    }
    assert resources == {
        *("sandboxes", "sandboxes/status", "agentsandboxpolicies", "agentsandboxpolicies/status"),
        *("events", "namespaces", "leases"),
    }


def test_the_roles_of_users_grow(renderer: Helm) -> None:
    rendered = render(renderer)
    granted = {
        role: {
            (resource, verb)
            for rule in one["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for role in ("view", "edit", "admin")
        if (one := rendered.one("ClusterRole", f"sk-sandkeeper-{role}"))["metadata"]["labels"][
            f"rbac.authorization.k8s.io/aggregate-to-{role}"
        ]
        == "true"
    }
    assert {verb for _, verb in granted["view"]} == {"get", "list", "watch"}
    assert {resource for resource, _ in granted["view"]} == {"sandboxes", "agentsandboxpolicies"}
    assert {resource for resource, _ in granted["edit"]} == {"sandboxes"}
    assert {resource for resource, _ in granted["admin"]} == {"agentsandboxpolicies"}


@pytest.mark.parametrize("values", SETS)
def test_all_that_runs_is_restricted(renderer: Helm, values: str) -> None:
    rendered = render(renderer, values)
    pods = [one["spec"]["template"]["spec"] for one in rendered.all("Deployment", "Job")]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_a_changed_configuration_starts_the_operator_anew_and_nothing_else_does(renderer: Helm) -> None:
    def checksum(**values: Any) -> str:
        return str(render(renderer, **values).pod["metadata"]["annotations"]["checksum/config"])

    assert checksum() == checksum(replicaCount=5)
    assert checksum() != checksum(**{"config.workers": 8})


def test_the_image_is_named_by_its_digest_where_there_is_one(renderer: Helm) -> None:
    assert render(renderer).container["image"] == "sandkeeper-operator:0.1.0"
    named = render(renderer, "everything")
    images = {
        one["spec"]["template"]["spec"]["containers"][0]["image"] for one in named.all("Deployment", "Job")
    }
    assert images == {f"registry.example/team/sandkeeper@sha256:{'0123456789abcdef' * 4}"}


def test_a_socket_is_mounted_for_its_group(renderer: Helm) -> None:
    rendered = render(renderer, "everything")
    pod = rendered.pod["spec"]
    assert pod["securityContext"]["supplementalGroups"] == [5, 998]
    (engine,) = (volume for volume in pod["volumes"] if volume["name"] == "engine")
    assert engine["hostPath"] == {"path": "/var/run/docker.sock", "type": "Socket"}
    env = {one["name"]: one.get("value") for one in rendered.container["env"]}
    assert env["DOCKER_HOST"] == "unix:///run/engine/docker.sock"
    assert env["HTTPS_PROXY"] == "http://proxy:3128"


def test_an_engine_over_tls_is_reached_with_its_secret_and_through_the_network_policy(renderer: Helm) -> None:
    rendered = render(renderer, "engine-over-tls")
    env = {one["name"]: one.get("value") for one in rendered.container["env"]}
    assert env["DOCKER_HOST"] == "tcp://engine.example:2377"
    assert (env["DOCKER_TLS_VERIFY"], env["DOCKER_CERT_PATH"]) == ("1", "/etc/sandkeeper-engine")
    (engine,) = (volume for volume in rendered.pod["spec"]["volumes"] if volume["name"] == "engine")
    assert engine["secret"]["secretName"] == "engine"
    ports = [
        port["port"] for rule in rendered.one("NetworkPolicy")["spec"]["egress"] for port in rule["ports"]
    ]
    assert ports == [443, 6443, 53, 53, 2377]


def test_by_default_no_engine_is_within_reach(renderer: Helm) -> None:
    rendered = render(renderer)
    assert [volume["name"] for volume in rendered.pod["spec"]["volumes"]] == ["config"]
    assert "env" not in rendered.container


def test_crds_stay_unless_somebody_says_otherwise(renderer: Helm) -> None:
    kept = render(renderer).all("CustomResourceDefinition")
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in kept} == {"keep"}
    gone = render(renderer, **{"crds.keep": False}).all("CustomResourceDefinition")
    assert {"annotations" in one["metadata"] for one in gone} == {False}
    assert [one["spec"] for one in kept] == [one["spec"] for one in gone]
    assert render(renderer, **{"crds.enabled": False}).all("CustomResourceDefinition") == []


def test_the_crds_are_those_of_the_models(renderer: Helm) -> None:
    from sandkeeper.api import crd

    found = {one["metadata"]["name"]: one["spec"] for one in render(renderer).all("CustomResourceDefinition")}
    assert found == {
        resource.definition_name: crd.definition(resource)["spec"] for resource in (crd.SANDBOX, crd.POLICY)
    }


def test_the_policy_comes_last_where_its_kind_is_new_and_is_the_releases_own_later(renderer: Helm) -> None:
    wanted: dict[str, Any] = {"defaultPolicy.enabled": True, "defaultPolicy.spec": {"scope": "session"}}
    first = render(renderer, **wanted).one("AgentSandboxPolicy")
    later = render(
        renderer, None, "--api-versions", "sandkeeper.dev/v1alpha1/AgentSandboxPolicy", **wanted
    ).one("AgentSandboxPolicy")
    assert "post-install" in first["metadata"]["annotations"]["helm.sh/hook"]
    assert later["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert first["spec"] == later["spec"] == {"scope": "session"}
    # What Helm looks for in what it is to take over.
    assert first["metadata"]["annotations"]["meta.helm.sh/release-name"] == "sk"
    assert first["metadata"]["annotations"]["meta.helm.sh/release-namespace"] == "ns"


@pytest.mark.parametrize(
    ("set_values", "hooks"),
    [
        ({}, set()),
        ({"uninstall.sandboxes": "delete"}, {"sk-sandkeeper-delete"}),
        ({"config.backends": ["pod", "docker"]}, {"sk-sandkeeper-release"}),
    ],
    ids=["pods leave nothing to be done", "sandboxes are deleted", "finalizers are released"],
)
def test_uninstalling_does_what_there_is_to_do(
    renderer: Helm, set_values: dict[str, Any], hooks: set[str]
) -> None:
    rendered = render(renderer, **set_values)
    assert rendered.names("Job") == hooks
    # All that a hook needs goes with it: by then nothing of the release may be there.
    for job in rendered.all("Job"):
        when = job["metadata"]["annotations"]["helm.sh/hook"]
        account = job["spec"]["template"]["spec"]["serviceAccountName"]
        assert rendered.one("ServiceAccount", account)["metadata"]["annotations"]["helm.sh/hook"] == when
        bound = [
            one
            for one in rendered.all("ClusterRoleBinding", "RoleBinding")
            if one["subjects"][0]["name"] == account
        ]
        assert bound
        assert {one["metadata"]["annotations"]["helm.sh/hook"] for one in bound} == {when}


def test_one_replica_holds_up_no_drain(renderer: Helm) -> None:
    assert len(render(renderer).all("PodDisruptionBudget")) == 1
    assert render(renderer, replicaCount=1).all("PodDisruptionBudget") == []


def test_replicas_are_spread_by_their_own_labels_unless_others_are_named(renderer: Helm) -> None:
    rendered = render(renderer, "everything")
    first, second = rendered.pod["spec"]["topologySpreadConstraints"]
    assert first["labelSelector"] == rendered.one("Deployment")["spec"]["selector"]
    assert second["labelSelector"] == {"matchLabels": {"mine": "true"}}


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A copy of the chart, with no alerts and no dashboards."""
    copy = tmp_path / "sandkeeper"
    shutil.copytree(CHART, copy, ignore=shutil.ignore_patterns("alerts", "dashboards"))
    return copy


ON: dict[str, Any] = {"prometheusRule.enabled": True, "dashboards.enabled": True}


def test_alerts_and_dashboards_are_whatever_files_there_are(renderer: Helm, chart: Path) -> None:
    none = Rendered(renderer.template(chart=chart, **ON))
    assert none.all("PrometheusRule") == []
    assert none.names("ConfigMap") == {"sk-sandkeeper"}

    rule = {
        "alert": "Down",
        "expr": "up == 0",
        "annotations": {"summary": "{{ $labels.pod }} is at {{ $value }}"},
    }
    for name, text in {
        "alerts/one.yaml": yaml.safe_dump({"groups": [{"name": "g", "rules": [rule]}]}, explicit_start=True),
        "alerts/two.yaml": yaml.safe_dump({"groups": []}),
        "dashboards/churn.json": '{"title": "{{ churn }}"}',
    }.items():
        path = chart / "files" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    some = Rendered(renderer.template(chart=chart, **ON))
    assert some.names("PrometheusRule") == {"sk-sandkeeper-one", "sk-sandkeeper-two"}
    assert some.one("PrometheusRule", "sk-sandkeeper-one")["spec"]["groups"][0]["rules"] == [rule]
    dashboards = some.one("ConfigMap", "sk-sandkeeper-dashboards")
    assert dashboards["data"] == {"churn.json": '{"title": "{{ churn }}"}'}
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert Rendered(renderer.template(chart=chart)).all("PrometheusRule") == []


def test_the_alerts_are_those_of_the_files_and_lead_to_where_the_runbooks_are(renderer: Helm) -> None:
    files = {path.stem: yaml.safe_load(path.read_text()) for path in (CHART / "files/alerts").glob("*.yaml")}
    rendered = render(renderer, **ON)
    assert {one["metadata"]["name"]: one["spec"] for one in rendered.all("PrometheusRule")} == {
        f"sk-sandkeeper-{name}": spec for name, spec in files.items()
    }
    elsewhere = render(renderer, **ON, **{"prometheusRule.runbookUrl": "https://docs.example/{alert}/#top"})
    for one in elsewhere.all("PrometheusRule"):
        for rule in (rule for group in one["spec"]["groups"] for rule in group["rules"]):
            assert rule["annotations"]["runbook_url"] == f"https://docs.example/{rule['alert']}/#top"


@pytest.mark.parametrize(
    ("set_values", "said"),
    [
        ({"replicas": 2}, "additional properties 'replicas' not allowed"),
        ({"config.workerz": 2}, "additional properties 'workerz' not allowed"),
        ({"config.namespace": "x"}, "additional properties 'namespace' not allowed"),
        ({"config.ceilings": {"gpu": True}}, "additional properties 'gpu' not allowed"),
        ({"config.workers": 0}, "minimum: got 0, want 1"),
        ({"config.backends": ["podman"]}, "must be one of"),
        ({"uninstall.sandboxes": "maybe"}, "must be one of"),
        ({"image.digest": "latest"}, "'latest' does not match pattern"),
        ({"prometheusRule.runbookUrl": "https://docs.example/"}, "does not match pattern"),
        ({"docker.tls.enabled": True}, "minLength: got 0, want 1"),
        (
            {"config.defaultBackend": "docker"},
            "config.defaultBackend is docker, which is not among config.backends",
        ),
        ({"docker.socket.enabled": True}, "add docker to config.backends"),
        (
            {
                "config.backends": ["pod", "docker"],
                "docker.socket.enabled": True,
                "docker.tls": {"enabled": True, "host": "tcp://a:1", "secretName": "b"},
            },
            "enable one of them",
        ),
    ],
)
def test_a_mistake_is_refused_with_the_field(renderer: Helm, set_values: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as caught:
        render(renderer, **set_values)
    assert said in str(caught.value)
