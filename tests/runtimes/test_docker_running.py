"""Commands whose engine behaves as a real one does only now and then."""

import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from sandkeeper.runtimes.docker.commands import Commands
from sandkeeper.runtimes.docker.running import RunningCommand
from sandkeeper.runtimes.docker.transport import connect_to

SAYS = b"OCI runtime exec failed: no such file or directory\r\n"
LARGE = bytes(4 << 20)
"""More than all buffers between two ends of a socket hold."""


class Engine(ThreadingUnixStreamServer):
    """Starts no command: it says why, closes its own side, and reads no more of the input, as dockerd does."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Answers)
        self.over = threading.Event()
        self.hung_up = threading.Event()
        self.printed = SAYS

    def shutdown_request(self, request: Any) -> None:
        """Hang up, as dockerd does when it gets to it."""
        super().shutdown_request(request)
        if self.over.is_set():
            self.hung_up.set()


class Answers(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        self._say(b'{"ApiVersion": "1.41", "ExitCode": 126}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.endswith("/start"):
            self._say(b'{"Id": "e1"}')
            return
        said = self.server.printed
        self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        self.wfile.write(struct.pack(">BxxxL", 1, len(said)) + said)
        self.connection.shutdown(1)
        self.server.over.wait(30)

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """Return a name: a Unix socket's other end has no address."""
        return "test"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name for it
        """Say nothing."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "engine.sock") as made:
        serving = threading.Thread(target=made.serve_forever)
        serving.start()
        yield made
        made.over.set()
        made.shutdown()
        serving.join()


def test_an_engine_that_hangs_up_on_input_that_nobody_took_loses_nothing(engine: Engine) -> None:
    client = connect_to(f"unix://{engine.server_address}")(30)
    with closing(client), RunningCommand(client, "c1", ["no-such"], stdin=True) as running:
        running.send(bytes(100_000))  # less than the buffers hold: nobody waits, and nobody is told
        engine.over.set()
        assert engine.hung_up.wait(30)
        assert list(running.frames()) == [(1, SAYS)]
        assert running.exit_code() == 126


@pytest.mark.parametrize("printed", [SAYS, SAYS * 10_000], ids=["a-word", "half-a-mebibyte"])
async def test_input_that_nobody_reads_does_not_hold_up_what_was_said(engine: Engine, printed: bytes) -> None:
    engine.printed = printed
    commands, heard = Commands(connect_to(f"unix://{engine.server_address}")), bytearray()
    try:
        code = await commands.run(
            "c1", ["no-such"], LARGE, on_output=heard.extend, on_error=heard.extend, seconds=20
        )
    finally:
        commands.close()
    assert (code, bytes(heard)) == (126, printed)
