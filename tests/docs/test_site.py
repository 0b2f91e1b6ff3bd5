"""The site is built from the documents, and what leads nowhere fails the build."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONF = Path(__file__).parents[2] / "docs/conf.py"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Give the documents of a project that has next to none: a page, and a file beside them."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/build.sh").write_text("#!/bin/sh\n")
    folder = tmp_path / "docs"
    (folder / "tutorial").mkdir(parents=True)
    (folder / "index.md").write_text("# Beginning\n")
    (folder / "tutorial/first.md").write_text("# First\n\n## Last words\n")
    shutil.copy(CONF, folder)
    return folder


def build(docs: Path) -> tuple[int, str]:
    """Build the site as `make docs` does; return how it ended, and what was said."""
    command = [
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--quiet",
        "--fresh-env",
        "--doctree-dir",
        "../trees",
        ".",
        "../site",
    ]
    done = subprocess.run(
        [sys.executable, *command], cwd=docs, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr


def test_pages_take_their_place_in_the_navigation(docs: Path) -> None:
    for page in ("runbooks/SandkeeperDown", "adr/README", "adr/0001-one", "how-to/links"):
        (docs / page).parent.mkdir(exist_ok=True)
        (docs / f"{page}.md").write_text(
            f"# Of {page}\n\n[page](../tutorial/first.md#last-words) [file](../../deploy/build.sh)\n"
        )
    assert build(docs) == (0, "")
    front = (docs.parent / "site/index.html").read_text()
    for name in ("tutorial/first", "runbooks/SandkeeperDown", "adr/README", "adr/0001-one", "how-to/links"):
        assert f'href="{name}.html"' in front
    page = (docs.parent / "site/how-to/links.html").read_text()
    assert 'href="../tutorial/first.html#last-words"' in page
    assert "/build.sh" in page


def test_what_leads_nowhere_fails_the_build(docs: Path) -> None:
    wrong = {
        "[page](second.md)": "target not found: 'second.md'",
        "[heading](first.md#no-such-words)": "local id not found in doc 'tutorial/first': 'no-such-words'",
        "[heading of its own](#nor-these)": "target not found: 'nor-these'",
        "[file beside the documents](../../deploy/test.sh)": "target not found: '../../deploy/test.sh'",
        "![picture](picture.svg)": "image file not readable: tutorial/picture.svg",
    }
    (docs / "tutorial/wrong.md").write_text("# Wrong\n\n" + "\n\n".join(wrong) + "\n")
    (docs / "stray.md").write_text("# In no navigation\n")
    ended, said = build(docs)
    assert ended == 1
    for message in (*wrong.values(), "stray.md: WARNING: document isn't included in any toctree"):
        assert message in said
