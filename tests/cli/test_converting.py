"""``sandkeeper convert`` prints a policy that the API server takes, and tells what becomes of the rest."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sandkeeper.cli import main
from support.cluster import Cluster

EVERYTHING: dict[str, Any] = {
    "mode": "non-main",
    "scope": "session",
    "backend": "docker",
    "workspaceAccess": "ro",
    "workspaceRoot": "~/copies",
    "docker": {
        "image": "openclaw-sandbox:bookworm-slim",
        "containerPrefix": "openclaw-sbx-",
        "workdir": "/workspace",
        "readOnlyRoot": False,
        "tmpfs": ["/run", "/scratch:size=64m"],
        "network": "container:proxy",
        "dangerouslyAllowContainerNamespaceJoin": True,
        "user": "1000:1000",
        "capDrop": ["ALL"],
        "env": {"LANG": "C.UTF-8", "VERSION": "1e3", "OCTAL": "0o17"},
        "setupCommand": "apt-get update\napt-get install -y make",
        "pidsLimit": 256,
        "memory": 536870912,
        "memorySwap": "1g",
        "cpus": 1,
        "gpus": "all",
        "ulimits": {"nofile": "1024:2048", "nproc": 512},
        "seccompProfile": "strict.json",
        "apparmorProfile": "docker-default",
        "dns": ["192.0.2.53", "2001:db8::53"],
        "extraHosts": ["store:192.0.2.7"],
        "binds": ["/srv/lore:/lore:ro", "/srv/shared:/shared"],
    },
    "browser": {"binds": []},
    "prune": {"idleHours": 24, "maxAgeDays": 7},
}


def convert(tmp_path: Path, text: str, *options: str) -> Result:
    source = tmp_path / "gateway.json"
    source.write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, ["convert", str(source), *options])


@pytest.mark.cluster
def test_the_api_server_takes_all_that_comes_over(
    cluster: Cluster, crds: None, namespace: str, tmp_path: Path
) -> None:
    agents = [
        {"id": "rain", "workspace": "~/rain", "sandbox": EVERYTHING},
        {"id": "12", "sandbox": {"mode": "off"}},
    ]
    source = {"agents": {"defaults": {"sandbox": EVERYTHING}, "list": agents}, "session": {"mainKey": "1e3"}}
    done = convert(tmp_path, json.dumps(source), "--home", "/home/us", "--name", "carried-over")
    assert done.exit_code == 0
    assert "Not carried over" not in done.stderr

    dry_run = ["apply", "--dry-run=server", "-n", namespace, "-f", "-", "-o", "json"]
    taken = json.loads(cluster.kubectl(*dry_run, stdin=done.stdout))
    # What kubectl read is what was written: neither a mode nor a text has become another kind of value.
    assert taken["spec"] == yaml.safe_load(done.stdout)["spec"]
    assert taken["metadata"]["name"] == "carried-over"
    assert taken["spec"]["mainSessionKey"] == "1e3"
    assert taken["spec"]["agents"][1] == {"id": "12", "mode": "off"}
    assert taken["spec"]["container"]["env"] == EVERYTHING["docker"]["env"]


def test_what_the_operator_would_refuse_is_told_until_it_is_configured_otherwise(tmp_path: Path) -> None:
    docker = "{network: 'bridge', env: {API_TOKEN: 'x'}}"
    text = f"{{agents: {{defaults: {{sandbox: {{mode: 'all', docker: {docker}}}}}, list: [{{id: 'rain'}}]}}}}"
    told = convert(tmp_path, text).stderr
    assert "rain, any-other: container.network: 'bridge' is not within the operator's ceilings" in told
    assert (
        "rain, any-other: container.env: left out, unless container.allowSecretEnv has the name: API_TOKEN"
        in told
    )

    config = tmp_path / "operator.yaml"
    config.write_text("ceilings: {networks: [bridge]}\n", encoding="utf-8")
    told = convert(tmp_path, text, "--config", str(config)).stderr
    assert "container.network" not in told
    assert "API_TOKEN" in told


def test_sessions_that_are_not_sandboxed_are_judged_by_those_that_are(tmp_path: Path) -> None:
    text = "{agents: {defaults: {sandbox: {mode: 'non-main', docker: {network: 'bridge'}}}}, session: {mainKey: 'x'}}"
    assert "container.network" in convert(tmp_path, text).stderr
    assert "container.network" not in convert(tmp_path, text.replace("non-main", "off")).stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be converted: "),
        ("[]", "it has to be a mapping of fields"),
        ("{agents: {list: [{}]}}", "agents.list[0].id: "),
    ],
)
def test_what_cannot_be_converted_is_refused_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    done = convert(tmp_path, text)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["convert", str(tmp_path / "nowhere.json")])
    assert done.exit_code == 1
    assert "nowhere.json cannot be read" in done.stderr
