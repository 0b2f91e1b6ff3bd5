"""The command: ``python -m dashboards --write|--check JSON_FOLDER PAGE``."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.backends import DOCKER, PODS
from dashboards.churn import CHURN
from dashboards.health import HEALTH
from dashboards.page import page
from dashboards.panels import build

_BOARDS: Final = (CHURN, HEALTH, PODS, DOCKER)


def _files(folder: Path, reference: Path) -> Mapping[Path, str]:
    made = {
        folder / f"{board.name}.json": JSONEncoder(sort_keys=True, indent=2).encode(build(board).build())
        + "\n"
        for board in _BOARDS
    }
    return {**made, reference: page(_BOARDS)}


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="dashboards", description="Write the Grafana dashboards.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write them")
    what.add_argument("--check", action="store_true", help="say whether they are as they would be written")
    parser.add_argument("folder", type=Path, help="of the JSON files")
    parser.add_argument("page", type=Path, help="that tells what is on them")
    chosen = parser.parse_args()
    files = _files(chosen.folder, chosen.page)
    if chosen.write:
        chosen.folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        return 0
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    wrong += sorted(set(chosen.folder.glob("*.json")) - set(files))
    for path in wrong:
        print(f"{path} is not what deploy/dashboards makes: run `make dashboard-files`", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
