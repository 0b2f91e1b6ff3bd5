"""Lines for programs and for people carry the same keys, and those of one pass one id."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from sandkeeper.telemetry.logs import LogFormat, about, reconciling, set_up_logging

logger = logging.getLogger("sandkeeper.test")


class Written:
    """What is written to standard error."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured

    def lines(self) -> list[str]:
        return self._captured.readouterr().err.splitlines()

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Written(capsys)
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("sandkeeper").setLevel(logging.NOTSET)


def test_a_line_for_programs_is_an_object(written: Written) -> None:
    set_up_logging(verbose=False, form=LogFormat.JSON)
    logger.debug("Not said")
    logger.warning("Trying %s again", "x", extra={"reason": "Exited", "diff": ["env", "image"]})
    (line,) = written.objects()
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {
        "level": "WARNING",
        "logger": "sandkeeper.test",
        "message": "Trying x again",
        "reason": "Exited",
        "diff": ["env", "image"],
    }


def test_a_trace_stays_in_its_line(written: Written) -> None:
    set_up_logging(verbose=True, form=LogFormat.JSON)
    logger.error("A pass failed", exc_info=ValueError("first\nsecond"))
    (line,) = written.objects()
    assert "ValueError: first\nsecond" in line["error"]
    assert line["message"] == "A pass failed"


def test_a_line_for_people_has_its_keys_behind_it(written: Written) -> None:
    set_up_logging(verbose=False)
    with reconciling(key="a/b/c", namespace="a") as reconcile_id:
        logger.info("Removing a/b/c", extra={"reason": "Idle", "diff": ["env", "image"], "nothing": ""})
    logger.info("Outside")
    inside, outside = written.lines()
    assert inside.endswith(f"Removing a/b/c reason=Idle diff=env,image reconcileID={reconcile_id}")
    assert outside.endswith("sandkeeper.test: Outside")


async def test_the_lines_of_a_pass_have_one_id_and_those_of_others_another(written: Written) -> None:
    set_up_logging(verbose=False, form=LogFormat.JSON)

    async def one(key: str) -> None:
        with reconciling(key=key):
            logger.info("Looking")
            await asyncio.sleep(0)
            about(sandbox=f"of-{key}")
            # What a pass begins and does not wait for belongs to it.
            await asyncio.create_task(later())
            logger.info("Looking", extra={"key": "its own"})

    async def later() -> None:
        await asyncio.sleep(0)
        logger.info("Setting up")

    await asyncio.gather(one("a"), one("b"))
    about(sandbox="nobody's")
    logger.info("Outside")
    lines = written.objects()
    ids = {line["reconcileID"] for line in lines[:-1]}
    assert len(ids) == 2
    for reconcile_id in ids:
        of_pass = [line for line in lines if line.get("reconcileID") == reconcile_id]
        key = of_pass[0]["key"]
        assert [line["key"] for line in of_pass] == [key, key, "its own"]
        assert [line.get("sandbox") for line in of_pass] == [None, f"of-{key}", f"of-{key}"]
    assert not {"reconcileID", "key", "sandbox"} & lines[-1].keys()


def test_a_thread_of_nobodys_has_no_id(written: Written) -> None:
    set_up_logging(verbose=False, form=LogFormat.JSON)
    with reconciling(key="a"):
        thread = threading.Thread(target=logger.info, args=["Alone"])
        thread.start()
        thread.join()
    (line,) = written.objects()
    assert "reconcileID" not in line
