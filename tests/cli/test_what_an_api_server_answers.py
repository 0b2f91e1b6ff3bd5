"""Answers that a healthy cluster does not give: no CRDs, no permission, a watch that is too old."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sandkeeper.cli import main
from support.upstream import kubeconfig_of

Answer = tuple[int, str]
Play = Callable[..., Result]


def status(code: int, reason: str, message: str) -> Answer:
    return code, json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message})


def sandbox(*, version: str, ready: str, reason: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": "So it is."}
    return {
        "metadata": {"name": "rain", "namespace": "home", "resourceVersion": version},
        "status": {"conditions": [condition]},
    }


def sandboxes(*names: str) -> Answer:
    spec = {"agentId": "rain", "sessionKey": "main"}
    found = [{"metadata": {"name": name}, "spec": spec} for name in names]
    return 200, json.dumps({"metadata": {}, "items": found})


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Run a command against a server that gives the answers of a script, one after the other."""
    servers: list[ThreadingHTTPServer] = []

    def run(script: list[tuple[str, Answer]], *arguments: str) -> Result:
        left = list(script)

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                expected, (code, body) = left.pop(0)
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                assert f"{self.command} {self.path}".startswith(expected), (self.command, self.path)
                self.send_response(code)
                self.send_header("Content-Type", "application/json" if body.startswith("{") else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_PATCH = answer  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = tmp_path / "kubeconfig"
        path.write_text(
            kubeconfig_of(f"http://127.0.0.1:{server.server_port}", namespace="home"), encoding="utf-8"
        )
        done = CliRunner().invoke(main, [*arguments, "--kubeconfig", str(path)])
        assert not left, f"nobody asked for {left}"
        return done

    yield run
    for server in servers:
        server.shutdown()
        server.server_close()


PLACE = "/apis/sandkeeper.dev/v1alpha1/namespaces/home/sandboxes"
UNKNOWN: Answer = (404, "404 page not found\n")


def test_without_the_crds_it_says_how_to_install_them(play: Play) -> None:
    said = play([(f"GET {PLACE}", UNKNOWN)], "get")
    assert said.exit_code == 1
    assert "install them with `kubectl apply -f crds/`" in said.output


def test_without_the_crds_no_name_is_called_wrong(play: Play) -> None:
    said = play([(f"PATCH {PLACE}/rain", UNKNOWN), (f"GET {PLACE}", UNKNOWN)], "touch", "rain")
    assert said.exit_code == 1
    assert "install them with `kubectl apply -f crds/`" in said.output


def test_what_is_forbidden_is_said_in_the_servers_words(play: Play) -> None:
    refused = status(403, "Forbidden", 'User "me" cannot patch resource "sandboxes"')
    said = play([(f"PATCH {PLACE}/rain", refused)], "touch", "rain")
    assert said.exit_code == 1
    assert 'not allowed: User "me" cannot patch' in said.output


def test_credentials_that_are_not_accepted(play: Play) -> None:
    said = play([(f"GET {PLACE}", status(401, "Unauthorized", "Unauthorized"))], "get")
    assert said.exit_code == 1
    assert "does not accept the kubeconfig's credentials" in said.output


def test_a_watch_that_is_too_old_is_begun_anew(play: Play) -> None:
    pruned = json.dumps(sandbox(version="1", ready="False", reason="Idle"))
    expired = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    said = play(
        [
            (f"PATCH {PLACE}/rain", (200, pruned)),
            (f"GET {PLACE}?fieldSelector=metadata.name", (200, json.dumps(expired) + "\n")),
            (f"GET {PLACE}/rain", (200, json.dumps(sandbox(version="9", ready="True", reason="Running")))),
        ],
        *("touch", "rain", "--wait", "30"),
    )
    assert said.output == "home/rain: Ready=True (Running): So it is.\n"


def test_a_sandbox_that_is_deleted_is_not_waited_for(play: Play) -> None:
    pruned = sandbox(version="1", ready="False", reason="Idle")
    deleted = json.dumps({"type": "DELETED", "object": pruned}) + "\n"
    said = play(
        [(f"PATCH {PLACE}/rain", (200, json.dumps(pruned))), (f"GET {PLACE}?", (200, deleted))],
        *("touch", "rain", "--wait", "30"),
    )
    assert said.exit_code == 1
    assert "was deleted meanwhile" in said.output


def test_one_that_is_deleted_meanwhile_keeps_none_of_the_others_from_being_asked_for(play: Play) -> None:
    said = play(
        [
            (f"GET {PLACE}?", sandboxes("gone", "rain")),
            (f"PATCH {PLACE}/gone", status(404, "NotFound", 'sandboxes "gone" not found')),
            (f"PATCH {PLACE}/rain", (200, json.dumps(sandbox(version="8", ready="True", reason="Running")))),
        ],
        *("recreate", "--all"),
    )
    assert said.exit_code == 0
    assert "home/gone: deleted meanwhile\nhome/rain: asked for a new runtime" in said.output


def test_what_may_be_read_and_not_written_is_said_so(play: Play) -> None:
    said = play(
        [
            (f"GET {PLACE}?", sandboxes("rain")),
            (f"PATCH {PLACE}/rain", status(403, "Forbidden", "you may not")),
        ],
        *("recreate", "--all"),
    )
    assert said.exit_code == 1
    assert "Cannot annotate Sandbox 'rain' in namespace 'home': not allowed: you may not" in said.output
