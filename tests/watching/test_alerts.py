"""Each alert fires when it has to and only then, speaks to a person, and has a page that says what to do."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster import Cluster
from watching.expressions import complaints, families_of, grouped_by, labels_of, selectors, series_complaints
from watching.rules import ALERTS, RULES, RUNBOOKS, TESTS, Alert, mutants, promtool

pytestmark = pytest.mark.usefixtures("prometheus_package")

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)


def cases(alert: Alert) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(alert.tests.read_text())["tests"]
    return found


def test_promtool_takes_the_rules() -> None:
    done = promtool("check", "rules", *sorted(RULES.glob("*.yaml")))
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_a_dozen_and_no_two_of_one_name() -> None:
    names = [alert.name for alert in ALERTS]
    assert len(names) == len(set(names)) >= 12


def test_nothing_is_left_of_alerts_that_are_gone() -> None:
    names = {alert.name for alert in ALERTS}
    assert {path.stem for path in TESTS.iterdir()} == names
    assert {path.stem for path in RUNBOOKS.iterdir()} == names | {"README"}


@each_alert
def test_it_fires_when_it_has_to_and_only_then(alert: Alert) -> None:
    done = promtool("test", "rules", alert.tests)
    assert done.returncode == 0, done.stdout + done.stderr


@each_alert
def test_it_is_tested_in_both_ways(alert: Alert) -> None:
    asked = {selector.metric for selector in selectors(alert.expression)}
    fires: list[set[str]] = []
    quiet: list[set[str]] = []
    for case in cases(alert):
        given = {
            selector.metric for series in case["input_series"] for selector in selectors(series["series"])
        }
        for check in case["alert_rule_test"]:
            assert check["alertname"] == alert.name
            (fires if check["exp_alerts"] else quiet).append(given)
    assert any(asked <= given for given in fires)
    assert any(asked <= given for given in quiet), "one that stays quiet has to have what the alert looks at"


@each_alert
def test_its_patience_and_each_threshold_matter_to_its_tests(alert: Alert, tmp_path: Path) -> None:
    tests = re.sub(r"rule_files: .*", "rule_files: [rules.yaml]", alert.tests.read_text())
    (tmp_path / "tests.yaml").write_text(tests)
    for how, rule in mutants(alert):
        (tmp_path / "rules.yaml").write_text(
            yaml.safe_dump({"groups": [{"name": "broken", "rules": [rule]}]})
        )
        assert promtool("check", "rules", tmp_path / "rules.yaml").returncode == 0, how
        assert promtool("test", "rules", tmp_path / "tests.yaml").returncode != 0, f"nobody notices {how}"


@each_alert
def test_it_asks_for_what_there_is(alert: Alert) -> None:
    assert families_of(alert.expression), "an alert about nothing of ours"
    assert list(complaints(alert.expression)) == []


@each_alert
def test_its_tests_make_up_series_like_those_that_there_are(alert: Alert) -> None:
    for case in cases(alert):
        for series in case["input_series"]:
            assert list(series_complaints(series["series"])) == [], series["series"]


@each_alert
def test_it_speaks_to_a_person(alert: Alert) -> None:
    assert re.fullmatch(r"(?:[A-Z][a-z]+)+", alert.name)
    assert alert.rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(alert.annotations) == {"summary", "description", "runbook_url"}
    summary, description = alert.annotations["summary"], alert.annotations["description"]
    assert len(summary) <= 80, "it has to fit on a telephone"
    assert "{{" not in summary, "alerts are grouped by it"
    assert summary[0].isupper()
    assert summary.endswith(".")
    assert re.search(r"\d|\$value", description), "without a figure"
    left = grouped_by(alert.expression)
    if left is None:
        left = set.intersection(*({*labels_of(each.metric)} for each in selectors(alert.expression)))
    assert set(re.findall(r"\$labels\.(\w+)", description)) <= left


@each_alert
def test_its_runbook_says_what_to_do(alert: Alert) -> None:
    assert alert.annotations["runbook_url"] == f"docs/runbooks/{alert.name}.md"
    page = (RUNBOOKS / f"{alert.name}.md").read_text()
    assert page.startswith(f"# {alert.name}\n\n**{alert.rule['labels']['severity']}**: ")
    headings = re.findall(r"^## (.*)", page, re.MULTILINE)
    assert headings == ["What it means", "Who feels it", "Look first", "What to do"]
    look = page.partition("## Look first\n")[2].partition("\n## ")[0]
    assert re.search(r"^    (kubectl|docker|sandkeeper|curl|journalctl) ", look, re.MULTILINE), (
        "no command to begin with"
    )


@pytest.mark.cluster
def test_the_runbooks_commands_can_be_run(cluster: Cluster, crds: None, namespace: str) -> None:
    """There is no operator in the cluster, and so nothing to be found; but each command has to be understood.

    Sandboxes of other tests may be there, none of which was ever made again: then nothing can be sorted by that.
    """
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), str(Path(cluster.program).parent), os.environ["PATH"]]
    )
    about = {"NS": namespace, "TEAM": namespace, "POD": "none", "SANDBOX": "none", "POLICY": "none"}
    env = (
        os.environ
        | about
        | {"KUBECONFIG": str(cluster.kubeconfig), "ENGINE": cluster.docker_host, "PATH": path}
    )
    nothing_there = (
        "not found|No resources|There is no|Metrics API not available|couldn't find any field .*recoveries"
    )
    pages = "\n".join(page.read_text() for page in RUNBOOKS.glob("*.md"))
    commands = set(re.findall(r"^    (.*)", pages, re.MULTILINE))
    for command in commands:
        if command.startswith(("journalctl", "helm")):
            continue
        said = subprocess.run(
            ["bash", "-c", command], env=env, capture_output=True, text=True, check=False, timeout=60
        )
        for line in said.stderr.splitlines():
            assert re.search(nothing_there, line), f"{command}\n{line}"


def test_prometheus_takes_the_configuration_of_the_how_to(tmp_path: Path) -> None:
    page = (RUNBOOKS.parent / "how-to/watch-the-operator.md").read_text()
    (block,) = re.findall(r"^    scrape_configs:\n(?:    .*\n)+", page, re.MULTILINE)
    config = yaml.safe_load(textwrap.dedent(block))
    for job in config["scrape_configs"]:
        del job["kubernetes_sd_configs"]  # Debian builds Prometheus without
    config["rule_files"] = [str(path) for path in RULES.glob("*.yaml")]
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    done = promtool("check", "config", tmp_path / "prometheus.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_runbooks_are_listed_by_severity() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\((\w+)\.md\) \| (.*?) \|", (RUNBOOKS / "README.md").read_text(), re.MULTILINE
    )
    assert all(name == target for name, target, _ in rows)
    listed = {name: summary for name, _, summary in rows}
    assert listed == {alert.name: alert.annotations["summary"] for alert in ALERTS}
    severities = {alert.name: alert.rule["labels"]["severity"] for alert in ALERTS}
    order = [["critical", "warning", "info"].index(severities[name]) for name, _, _ in rows]
    assert order == sorted(order)
