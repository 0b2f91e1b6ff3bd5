"""The same properties, guided by coverage.

Hypothesis chooses texts by what it was told of them; Atheris goes on from those that reached code that none had.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attacks import test_fuzz_answers, test_fuzz_fields, test_fuzz_paths
from attacks.register import On, attack

pytestmark = pytest.mark.nightly

SECONDS = 20
FUZZED = [
    f"{module.__name__.partition('.')[2]}.{name}"
    for module in (test_fuzz_answers, test_fuzz_fields, test_fuzz_paths)
    for name, test in vars(module).items()
    # A fixture cannot be had there.
    if hasattr(test, "hypothesis") and name != "test_the_spelling_leads_where_the_kernel_goes"
]


@attack(
    "all that is fuzzed above and asks no API server, for twenty seconds each, from what reached new code on",
    stopped_by="as above",
    on=On.CODE,
)
@pytest.mark.parametrize("fuzzed", FUZZED)
def test_from_what_reached_new_code_on(fuzzed: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="there is no Atheris for this Python or this machine")
    done = subprocess.run(
        [sys.executable, "-m", "attacks.guided", fuzzed, f"-max_total_time={SECONDS}", "-max_len=2048"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = f"{done.stdout}{done.stderr}"
    assert done.returncode == 0, said[-8000:]
    assert "DONE" in said
