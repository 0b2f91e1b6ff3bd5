"""The operator's process has no file descriptor left, and somebody takes those that it gives up."""

import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from chaos.descriptors import limited, spare
from support.operator import OperatorProcess, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

LINES = 50
"""In a log, of what may take seconds: it would be filled by one for each turn of a loop."""


def test_it_turns_away_who_comes_and_goes_on_when_it_has_some_again(
    operator: OperatorProcess, sandboxes: Sandboxes
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")["runtime"]["id"]
    address = urlsplit(operator.url("/"))
    with ExitStack() as stack:
        stack.enter_context(limited(operator.process.pid, to_spare=2))
        guests = [
            stack.enter_context(
                socket.create_connection((address.hostname or "", address.port or 0), timeout=30)
            )
            for _ in range(8)
        ]
        wait_for(lambda: spare(operator.process.pid) == 0, what="it has none left")
        sandboxes.apply(sandboxes.sandbox("tio"))
        time.sleep(4)
        assert guests[-1].recv(1) == b"", "nobody is left to wait for what does not come"
    assert len(operator.log.read_text().splitlines()) <= LINES
    sandboxes.wait("tio", "Running")
    assert operator.process.poll() is None
    operator.wait_ready()
    assert sandboxes.status("rain")["runtime"]["id"] == before
