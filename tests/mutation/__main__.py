"""The command: ``python -m mutation`` changes the pure layers in every small way, and tells what no test sees of it."""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mutation.copying import PACKAGES, Copy
from mutation.scoring import HEAD, scores, survivors
from testbed import progress

_LEAST: Final = 85.0
"""Per cent of the mutants of each package that have to be found."""
_SECONDS: Final = 3 * 3600
"""For everything; a machine that needs longer is not the one to do this on."""
_REPORT: Final = Path("build/mutation.diff")


def main(argv: Sequence[str] | None = None) -> int:
    """Make the mutants in a copy, run the tests against each, say how many were found; 1: too few."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument(
        "--only", action="append", help="a package, or a module as in config.binds; may be repeated"
    )
    parser.add_argument("--sample", type=int, help="so many of them, picked at random")
    parser.add_argument("--seed", type=int, help="what to pick by, to pick the same ones again")
    parser.add_argument("--again", action="store_true", help="those that survived the last time")
    asked = parser.parse_args(argv)
    survived = frozenset(_named_in_report()) if asked.again else None
    with tempfile.TemporaryDirectory(prefix="sandkeeper-mutation-") as directory:
        place = Path(directory)
        copy = Copy(place)
        prefixes = tuple(f"sandkeeper.{name}." for name in asked.only or PACKAGES)
        names = [name for package in PACKAGES for name in copy.mutate(package) if name.startswith(prefixes)]
        names = names if survived is None else [name for name in names if name in survived]
        fates = _tried(_picked(names, sample=asked.sample, seed=asked.seed), place)
        left = survivors(fates)
        _REPORT.parent.mkdir(exist_ok=True)
        _REPORT.write_text("\n".join(map(copy.difference, left)), encoding="utf-8")
    found = scores(fates)
    progress.say("\n".join([HEAD, *map(str, found), f"What survived: {_REPORT}"]))
    return 0 if all(each.share >= _LEAST for each in found) else 1


def _named_in_report() -> list[str]:
    lines = _REPORT.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("# ") for line in lines if line.startswith("# sandkeeper.")]


def _picked(names: list[str], *, sample: int | None, seed: int | None) -> list[str]:
    if sample is None or sample >= len(names):
        return names
    seed = random.randrange(10**6) if seed is None else seed  # noqa: S311 - nothing is kept secret by it
    progress.say(f"{sample} of {len(names)} mutants, picked by --seed {seed}")
    return random.Random(seed).sample(names, sample)  # noqa: S311 - as above


def _tried(names: Sequence[str], place: Path) -> dict[str, str]:
    """Run the trial where nothing can be imported but the copy; return what became of each mutant."""
    (place / "mutants").write_text("\n".join(names), encoding="utf-8")
    path = os.pathsep.join(
        str(place / each) for each in ("controller", "deploy/testbed", "deploy/demo", "tests")
    )
    subprocess.run(
        [sys.executable, "-m", "mutation.trial", "mutants", "fates"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": path, "HYPOTHESIS_PROFILE": "mutation"},
        check=True,
        timeout=_SECONDS,
    )
    lines = (place / "fates").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
