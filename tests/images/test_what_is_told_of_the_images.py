"""The Dockerfiles, the scripts and the how-to agree; what is fetched is pinned, and nothing says from where."""

import json
import re
from pathlib import Path

import pytest

from testbed import shipped_images

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "deploy/images"
HOW_TO = (ROOT / "docs/how-to/images.md").read_text()
OF_SCRIPTS = {"TARGET_IMAGE", "CA_FILE"}
"""What docker is not told."""
ON_DEBIAN = [name for name in shipped_images.TARGETS if name != "common"]


def dockerfile(name: str) -> str:
    return (IMAGES / name / "Dockerfile").read_text()


def arguments(name: str) -> set[str]:
    return set(re.findall(r"^ARG (\w+)", dockerfile(name), re.MULTILINE))


@pytest.mark.parametrize("name", shipped_images.TARGETS)
def test_a_script_hands_on_every_argument(name: str) -> None:
    script = (IMAGES / name / "build.sh").read_text()
    assert set(re.findall(r"--build-arg (\w+)", script)) == arguments(name)
    assert f"TARGET_IMAGE:-{shipped_images.TARGETS[name]}}}" in script
    assert f"`{shipped_images.TARGETS[name]}`" in HOW_TO


def test_the_how_to_tells_of_every_variable_and_its_default() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? \|", HOW_TO, re.MULTILINE))
    assert set(told) == OF_SCRIPTS.union(*map(arguments, shipped_images.TARGETS))
    for name in shipped_images.TARGETS:
        defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile(name), re.MULTILINE))
        for variable, default in defaults.items():
            assert told[variable] == default or variable == "BASE_IMAGE"


def test_the_base_is_the_same_digest_everywhere() -> None:
    pinned = [re.findall(r"^ARG BASE_IMAGE=(.*)$", dockerfile(name), re.MULTILINE) for name in ON_DEBIAN]
    assert re.fullmatch(r"debian:bookworm-slim@sha256:[0-9a-f]{64}", pinned[0][0])
    assert all(one == pinned[0] for one in pinned)
    assert f"ARG BASE_IMAGE={shipped_images.TARGETS['base']}\n" in dockerfile("common")


@pytest.mark.parametrize("tool", ["pnpm", "bun"])
def test_what_npm_fetches_is_pinned_by_version_and_content(tool: str) -> None:
    wanted = json.loads((IMAGES / "common" / tool / "package.json").read_text())
    lock = (IMAGES / "common" / tool / "package-lock.json").read_text()
    assert "://" not in lock
    locked = json.loads(lock)["packages"]
    versions = wanted.get("dependencies", {}) | wanted.get("optionalDependencies", {})
    assert {f"node_modules/{name}" for name in versions} == set(locked) - {""}
    for name, version in versions.items():
        found = locked[f"node_modules/{name}"]
        assert found["version"] == version
        assert found["integrity"].startswith("sha512-")
