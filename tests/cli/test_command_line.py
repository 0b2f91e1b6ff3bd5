"""What the command says and refuses without a cluster."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from sandkeeper import __version__
from sandkeeper.cli import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig that leads to a port at which nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    path = tmp_path / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "gone", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "gone", "user": "me", "namespace": "home"}}],
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_help_names_every_command() -> None:
    said = run("--help")
    assert said.exit_code == 0
    for name in ("exec", "get", "hold", "run", "touch"):
        assert f"  {name} " in said.output


def test_version() -> None:
    assert run("--version").output == f"sandkeeper, version {__version__}\n"


def test_a_command_that_there_is_not() -> None:
    said = run("tuoch", "rain")
    assert said.exit_code == 2
    assert "No such command 'tuoch'" in said.output


def test_slow_libraries_are_imported_only_where_they_are_used() -> None:
    program = (
        "import sys\n"
        "from sandkeeper.cli import get, hold, main, run, touch, execute\n"
        "print(sorted({'kopf', 'docker', 'kubernetes', 'aiohttp'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ("hold", "rain"),
        ("hold", "rain", "--for", "60", "--release"),
        ("hold", "rain", "--for", "60", "--until", "2100-01-01T00:00:00Z"),
    ],
)
def test_hold_wants_to_know_exactly_one_thing(arguments: tuple[str, ...]) -> None:
    said = run(*arguments)
    assert said.exit_code == 2
    assert "Say one of --for SECONDS, --until TIME and --release." in said.output


@pytest.mark.parametrize(
    ("time", "why"),
    [
        ("tomorrow", "is not a time with an offset"),
        ("2100-01-01T00:00:00", "is not a time with an offset"),
        ("2020-01-01T00:00:00Z", "has passed already"),
    ],
)
def test_hold_refuses_a_time_that_means_nothing(time: str, why: str) -> None:
    said = run("hold", "rain", "--until", time)
    assert said.exit_code == 2
    assert why in said.output


def test_hold_refuses_eternity() -> None:
    said = run("hold", "rain", "--for", "1e12")
    assert said.exit_code == 2
    assert "beyond the end of the calendar" in said.output


def test_exec_wants_a_command() -> None:
    assert run("exec", "rain", "--").exit_code == 2


def test_a_name_belongs_to_one_namespace() -> None:
    said = run("get", "-A", "rain")
    assert said.exit_code == 2
    assert "leave out NAME or --all-namespaces" in said.output


def test_no_kubeconfig_says_how_to_name_one(tmp_path: Path) -> None:
    said = run("get", "--kubeconfig", str(tmp_path / "nowhere"))
    assert said.exit_code == 1
    assert "there is no kubeconfig" in said.output
    assert "--kubeconfig or $KUBECONFIG" in said.output


def test_kubeconfig_is_taken_from_the_environment_of_the_moment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "elsewhere"))
    assert "elsewhere" in run("get").output


def test_a_context_that_there_is_not(kubeconfig: Path) -> None:
    said = run("get", "--kubeconfig", str(kubeconfig), "--context", "there")
    assert said.exit_code == 1
    assert "there" in said.output
    assert "--context" in said.output


def test_a_server_that_is_not_there(kubeconfig: Path) -> None:
    said = run("touch", "rain", "--kubeconfig", str(kubeconfig))
    assert said.exit_code == 1
    assert "Cannot touch Sandbox 'rain' in namespace 'home': the API server was not reached" in said.output


def test_exec_tells_its_own_failures_from_the_commands(kubeconfig: Path) -> None:
    said = run("exec", "rain", "--kubeconfig", str(kubeconfig), "--", "true")
    assert said.exit_code == 125
