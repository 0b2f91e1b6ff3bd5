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

REFUSED = "socket.accept() out of system resource"


def test_it_says_so_in_a_few_lines_and_goes_on_when_it_has_some_again(
    operator: OperatorProcess, sandboxes: Sandboxes
) -> None:
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")["runtime"]["id"]
    address = urlsplit(operator.url("/"))
    with ExitStack() as stack:
        stack.enter_context(limited(operator.process.pid, to_spare=2))
        for _ in range(8):
            stack.enter_context(
                socket.create_connection((address.hostname or "", address.port or 0), timeout=5)
            )
        wait_for(lambda: spare(operator.process.pid) == 0, what="it has none left")
        sandboxes.apply(sandboxes.sandbox("tio"))
        time.sleep(4)
    assert 0 < operator.log.read_text().count(REFUSED) <= 50
    sandboxes.wait("tio", "Running")
    assert operator.process.poll() is None
    assert operator.ready()
    assert sandboxes.status("rain")["runtime"]["id"] == before
