"""Each storm once, short and always the same: what is longer, and different each time, is `make chaos`."""

import os
from pathlib import Path

import pytest

from chaos.storm import run
from chaos.storms import STORMS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("chaos"),
    pytest.mark.timeout(900),  # a storm has bounds of its own, which tell more
]

SEED = 20261121
SECONDS = 20
SANDBOXES = 12
_SHOWN = 20_000


def _end_of(log: str) -> str:
    """Return the end of a log: where nobody can look at it afterwards, that is better than nothing."""
    return Path(log).read_text(encoding="utf-8")[-_SHOWN:]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.engine] if name == "containers" else []) for name in STORMS],
)
async def test_everything_is_as_it_should_be_after_the_storm(name: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("a control plane or an engine of its own needs root")
    outcome = await run(STORMS[name], seed=SEED, seconds=SECONDS, sandboxes=SANDBOXES)
    told = f"seed {outcome.seed}, {dict(outcome.faults)}; its log: {outcome.log}"
    assert not outcome.violations, "\n".join([*outcome.violations, told, _end_of(outcome.log)])
    assert sum(outcome.faults.values()) >= len(STORMS[name].groups), told
    assert outcome.promises > 0, told
