"""How the site is built from these pages: `make docs`.

The pages are plain Markdown, for a Git host shows them as they are. So what Sphinx wants besides is said here: where
each page stands in the navigation.
"""

from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

project = "Sandkeeper"
author = "The Sandkeeper authors"
version = release = version_of("sandkeeper")

extensions = ["myst_parser"]
myst_heading_anchors = 4
nitpicky = True
highlight_language = "none"

html_theme = "furo"
html_title = f"{project} {version}"
html_copy_source = False

_DOCS: Final = Path(__file__).parent
_NAVIGATION: Final = {
    "Tutorial": ["tutorial/first-sandbox", "tutorial/*"],
    "How-to": ["how-to/*"],
    "Reference": ["reference/*", "performance", "reliability"],
    "Explanation": ["explanation/design", "explanation/rules-of-life", "explanation/*", "security"],
    "Decisions": ["adr/README"],
    "Runbooks": ["runbooks/README", "runbooks/*"],
}
"""By its headings: pages, and folders of which each page is shown once. A page that is in none of them is an error."""
_BELOW: Final = {"adr/README": ["adr/[0-9]*"], "reference/dashboards": ["dashboards/run"]}
"""What is shown below a page, when one is there."""


def _toctree(entries: list[str], caption: str = "") -> str:
    """Write entries as Sphinx wants them, each page once; nothing where there are none as yet."""
    found = [page for entry in entries for page in sorted(_DOCS.glob(f"{entry}.md"))]
    names = dict.fromkeys(f"/{page.relative_to(_DOCS).with_suffix('')}" for page in found)
    if not names:
        return ""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "", "```{toctree}", *options, "", *names, "```", ""])


def _add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    if page == "index":
        source[0] += "".join(_toctree(entries, caption) for caption, entries in _NAVIGATION.items())
    elif page in _BELOW:
        source[0] += _toctree(_BELOW[page])


def setup(app: Sphinx) -> None:
    """Be told of each page before it is read."""
    app.connect("source-read", _add_navigation)
