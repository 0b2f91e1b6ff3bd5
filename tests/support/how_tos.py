"""The how-tos as something to try: every block of one, as it stands there."""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

__all__ = ["HowTo"]

_FOLDER = Path(__file__).parents[2] / "docs/how-to"
_BLOCK = re.compile(r"^\n((?: {7}.*\n)+)", re.MULTILINE)


class HowTo:
    """One page, or one section of it. ``instead`` is what stands for a text on this machine."""

    def __init__(
        self, name: str, *, section: str | None = None, instead: Mapping[str, str] | None = None
    ) -> None:
        self.manifests: list[dict[str, Any]] = []
        """What is to be applied, in the order of the page."""
        self.settings: list[dict[str, Any]] = []
        """Excerpts of the operator's configuration."""
        self.commands: list[str] = []
        """What is to be run in a shell."""
        page = (_FOLDER / name).read_text(encoding="utf-8")
        if section is not None:
            page = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        for block in _BLOCK.findall(page):
            text = textwrap.dedent(block)
            for old, new in (instead or {}).items():
                text = text.replace(old, new)
            self._sort(text)

    def _sort(self, text: str) -> None:
        try:
            loaded = yaml.safe_load(text)
        except yaml.YAMLError:
            loaded = None  # a command with braces and colons
        if not isinstance(loaded, dict):
            self.commands.append(text)
        elif "kind" in loaded:
            self.manifests.append(loaded)
        else:
            self.settings.append(loaded)

    def policy(self, name: str, *, image: str) -> dict[str, Any]:
        """Return one of its policies, with an image that the node has."""
        (found,) = (
            one
            for one in self.manifests
            if (one["kind"], one["metadata"]["name"]) == ("AgentSandboxPolicy", name)
        )
        return {**found, "spec": {**found["spec"], "container": {"image": image}}}
