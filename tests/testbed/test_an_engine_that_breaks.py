from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import docker
import pytest

from testbed import mounts, probes, processes

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.engine import Engine

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="no dockerd; `make cluster-up` installs it"),
]


def test_it_answers_hangs_and_answers_again(new_engine: Callable[..., Engine]) -> None:
    engine = new_engine()
    engine.pause()
    assert "timed out" in str(engine.check())
    engine.resume()
    probes.wait("dockerd", engine.check, seconds=60)


def test_a_crash_and_a_restart_keep_its_id(new_engine: Callable[..., Engine]) -> None:
    engine = new_engine()
    before = identity(engine)
    engine.kill()
    assert engine.check() is not None
    engine.start()
    engine.wait_ready()
    assert identity(engine) == before


def test_another_engine_has_another_id(new_engine: Callable[..., Engine]) -> None:
    assert identity(new_engine()) != identity(new_engine())


def test_a_container_goes_with_its_engine_even_after_a_crash(new_engine: Callable[..., Engine]) -> None:
    engine = new_engine(base=True)
    client = engine.client()
    client.containers.run("debian:bookworm-slim", "sleep 4711", detach=True, network_mode="none")
    client.close()
    assert list(processes.mentioning("sleep\x004711"))
    engine.kill()
    assert list(processes.mentioning("sleep\x004711"))
    engine.stop()
    assert not list(processes.mentioning("sleep\x004711"))
    assert not list(processes.mentioning(str(engine.root)))
    assert not mounts.below(engine.root)


def identity(engine: Engine) -> str:
    client: docker.DockerClient = engine.client()
    try:
        return str(client.info()["ID"])
    finally:
        client.close()
