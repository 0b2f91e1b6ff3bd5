"""The command: ``python -m chaos`` lets every storm rage, and says what came of it."""

import argparse
import asyncio
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chaos import report
from chaos.storm import Outcome, run
from chaos.storms import STORMS
from testbed import progress

_DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_MINUTE: Final = 60.0
_INTERRUPTED: Final = 130


async def _run(names: Sequence[str], *, seed: int, seconds: float, sandboxes: int) -> list[Outcome]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    outcomes = []
    for name in names:
        progress.say(f"The storm {name}, seed {seed}")
        outcome = await run(STORMS[name], seed=seed, seconds=seconds, sandboxes=sandboxes)
        outcomes.append(outcome)
        if outcome.violations:
            told = f"{len(outcome.violations)} violations; the operator's log is kept as {outcome.log}:"
            progress.say("\n".join([told, *outcome.violations]))
    return outcomes


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="chaos",
        description="Break everything around the operator, and look at what becomes of Sandboxes.",
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of users and faults")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each storm")
    parser.add_argument("--sandboxes", type=int, default=60, help="about so many at a time")
    parser.add_argument(
        "--storm",
        action="append",
        choices=tuple(STORMS),
        metavar="STORM",
        help=f"this one alone; may be repeated: {', '.join(STORMS)}",
    )
    parser.add_argument("--quick", action="store_true", help="a short storm of each, and nothing is written")
    chosen = parser.parse_args()
    names = [name for name in STORMS if not chosen.storm or name in chosen.storm]
    minutes, sandboxes = (0.5, 12) if chosen.quick else (chosen.minutes, chosen.sandboxes)
    try:
        outcomes = asyncio.run(_run(names, seed=chosen.seed, seconds=minutes * _MINUTE, sandboxes=sandboxes))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.say("Interrupted; everything is cleared away")
        return _INTERRUPTED
    sys.stdout.write(f"\n{report.table(outcomes).to_markdown()}\n")
    for outcome in outcomes:
        sys.stdout.write(
            f"\n{outcome.storm}, seed {outcome.seed}\n\n{report.faults(outcome).to_markdown()}\n"
        )
    if not (chosen.quick or chosen.storm):
        report.write(_DOCS, [STORMS[name] for name in names], outcomes)
        progress.say(f"Written to {_DOCS / 'reliability.md'}")
    return int(any(outcome.violations for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
