from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed import providers
from testbed.providers import Facts, Provider, RefusedError, choose

BARE = Facts(
    kubeconfig=None,
    context=None,
    engine=None,
    kind=None,
    node_image=False,
    root=True,
    linux=True,
)
ENGINE = replace(BARE, engine="unix:///var/run/docker.sock")
KIND = replace(ENGINE, kind="/usr/bin/kind", node_image=True)
NAMED = replace(KIND, kubeconfig="/tmp/kubeconfig", context="kind-mine")  # noqa: S108


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(BARE, Provider.LOCAL, id="a bare machine"),
        pytest.param(ENGINE, Provider.LOCAL, id="an engine alone"),
        pytest.param(replace(KIND, node_image=False), Provider.LOCAL, id="no node image"),
        pytest.param(replace(KIND, kind=None), Provider.LOCAL, id="no kind"),
        pytest.param(KIND, Provider.KIND, id="kind has all it needs"),
        pytest.param(replace(KIND, root=False), Provider.KIND, id="kind needs no root"),
        pytest.param(replace(KIND, linux=False, root=False), Provider.KIND, id="kind on another system"),
        pytest.param(NAMED, Provider.KUBECONFIG, id="the caller's own word comes first"),
        pytest.param(replace(NAMED, kind=None, engine=None, root=False), Provider.KUBECONFIG, id="and alone"),
    ],
)
def test_the_first_that_fits(facts: Facts, expected: Provider) -> None:
    assert choose(facts) is expected


@pytest.mark.parametrize(
    "context",
    ["kind-a", "k3d-a", "minikube", "sandkeeper-testbed", "my-test", "Testing", "arn:aws:eks:test/a"],
)
def test_a_context_that_looks_like_a_test_cluster(context: str) -> None:
    assert choose(replace(NAMED, context=context)) is Provider.KUBECONFIG


@pytest.mark.parametrize("context", ["production", "admin@cluster", "my-kind-cluster", "default", "k3s"])
def test_a_context_that_does_not_is_refused_by_name(context: str) -> None:
    with pytest.raises(RefusedError, match=context):
        choose(replace(NAMED, context=context))


def test_a_kubeconfig_without_a_context_is_refused() -> None:
    with pytest.raises(RefusedError, match="no current context"):
        choose(replace(NAMED, context=None))


@pytest.mark.parametrize("facts", [replace(BARE, root=False), replace(BARE, linux=False)])
def test_where_nothing_fits_it_says_what_would(facts: Facts) -> None:
    with pytest.raises(RefusedError, match=r"root.*kind.*SANDKEEPER_TEST_KUBECONFIG"):
        choose(facts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("current-context: kind-a\n", "kind-a"),
        ('{"current-context": "minikube"}', "minikube"),
        ("current-context: ''\n", None),
        ("clusters: []\n", None),
        ("- a list\n", None),
        ("{broken", None),
    ],
)
def test_reading_the_context(tmp_path: Path, text: str, expected: str | None) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text, encoding="utf-8")
    assert providers.current_context(file) == expected


def test_a_kubeconfig_that_is_not_there_has_no_context(tmp_path: Path) -> None:
    assert providers.current_context(tmp_path / "none") is None


def test_our_own_engine_is_not_taken_for_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = "unix:///state/docker.sock"
    asked: list[str] = []

    def answers(url: str) -> bool:
        asked.append(url)
        return url == ours

    monkeypatch.setattr(providers, "_answers", answers)
    assert providers.callers_engine({"DOCKER_HOST": ours}, own_engine=ours) is None
    assert asked == ["unix:///var/run/docker.sock"]
