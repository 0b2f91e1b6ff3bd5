"""The command: ``python -m watching`` lets a real Prometheus watch a real operator, and draws what it saw."""

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import machine
from bench.figures import Json
from bench.staging import staged
from sandkeeper import __version__
from testbed import progress
from watching.boards import BOARDS
from watching.pictures import draw
from watching.run import INTERVAL, Run, a_run

_FOLDER: Final = Path(__file__).parents[2] / "docs/dashboards"
_SECONDS: Final = 120.0


async def _watch(*, seconds: float) -> dict[str, str]:
    """Return what is to be written, by the files' names."""
    async with staged() as stage:
        with progress.step(f"Having {seconds:g} s of churn watched"):
            async with a_run(stage, seconds=seconds) as run:
                drawn = {f"{board.name}.svg": draw(board, run) for board in BOARDS}
                facts = await machine.describe(stage)
                return {**drawn, "run.md": _told(run, facts)}


def _told(run: Run, facts: Json) -> str:
    (series,) = run.prometheus.query('count({__name__=~"sandkeeper_.+"})')
    version = run.prometheus.get("status/buildinfo")["version"]
    rows = "\n".join(f"| {what} | {count} |" for what, count in sorted(run.done.items()))
    return f"""# What the pictures of the dashboards show

<!-- Made by `make dashboards`. -->

Drawn on {datetime.now(UTC):%Y-%m-%d}: Sandkeeper {__version__}, Prometheus {version},
Kubernetes {facts["kubernetes"]}, Docker {facts["docker"]}, {facts["cores"]} cores. Two replicas kept one
namespace: containers on a real engine, Pods on nodes that nothing runs on. Prometheus scraped both every
{INTERVAL:g} s for {run.end - run.start:.0f} s; in the end it had {series["value"][1]} series of them.

Policies had a hot window of 1 to 3 s, `prune.idleSeconds` 9, in one `prune.maxAgeSeconds` 6. Two named an image that
is not there, one had a setupCommand that fails, and one was edited to a missing image while it ran.
Meanwhile there were:

| | |
|---|---|
{rows}
"""


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="watching", description="Draw the dashboards from a real run.")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="how long the churn lasts")
    parser.add_argument(
        "--output", type=Path, default=_FOLDER, metavar="FOLDER", help="where to draw; docs/dashboards"
    )
    chosen = parser.parse_args()
    made = asyncio.run(_watch(seconds=chosen.seconds))
    chosen.output.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (chosen.output / name).write_text(text, encoding="utf-8")
    progress.say(f"Drawn in {chosen.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
