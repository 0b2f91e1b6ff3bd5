"""``sandkeeper run`` ends when it is told to, and says why when it cannot begin."""

import os
import subprocess
import sys
import time
from pathlib import Path

HANGING = """
import threading, time
from sandkeeper.cli.punctual import PunctualOperator
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.telemetry.logs import set_up_logging
import asyncio

set_up_logging(verbose=False)

async def main():
    operator = PunctualOperator(OperatorConfig(), leader_election=False, health=("127.0.0.1", 0), grace=1)
    threading.Thread(target=time.sleep, args=(300,)).start()
    operator.stop()
    operator.stop()

asyncio.run(main())
"""


def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "still here 1 s after being told to stop" in done.stderr
    assert time.monotonic() - began < 30


def test_without_a_cluster_it_says_so_and_fails(tmp_path: Path) -> None:
    # Outside of any Pod and any home with a kubeconfig.
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "sandkeeper.cli", "run", "--health-host", "127.0.0.1", "--health-port", "0"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Ending: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_configuration_is_named_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "operator.yaml"
    path.write_text("nope: 1\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "sandkeeper.cli", "run", "--config", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "nope: there is no such field" in done.stderr
