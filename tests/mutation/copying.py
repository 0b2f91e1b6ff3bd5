"""The copy of the repository in which mutants live: nothing of it stays behind in the checkout."""

import ast
import difflib
import shutil
from pathlib import Path
from typing import Final

from mutmut.mutation.file_mutation import mutate_file_contents

from mutation.properties import without_properties

__all__ = ["PACKAGES", "Copy"]

PACKAGES: Final = ("api", "config", "lifecycle")
"""The pure layers."""

_ROOT: Final = Path(__file__).resolve().parents[2]
_NEEDED: Final = ("charts", "controller", "crds", "deploy", "docs", "tests")
"""Whatever tests read, or import before the first of them runs."""


class Copy:
    """The repository at another place, its pure layers with every mutant in them."""

    def __init__(self, place: Path) -> None:
        self._place = place
        shutil.copy(_ROOT / "pyproject.toml", place)
        for name in _NEEDED:
            shutil.copytree(_ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))

    def mutate(self, package: str) -> list[str]:
        """Put all mutants of a package in the place of what they are made from; return their names.

        Each stands beside the original, and which of them is called is said when the tests run.
        """
        return [
            f"sandkeeper.{package}.{file.stem}.{name}"
            for file in sorted((self._place / "controller" / "sandkeeper" / package).glob("*.py"))
            for name in self._mutate_file(file)
        ]

    def difference(self, mutant: str) -> str:
        """Return what a mutant changes."""
        module, _, name = mutant.rpartition(".")
        text = (self._place / "controller" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        original = f"{name.partition('__mutmut_')[0]}__mutmut_orig"
        sources = {
            node.name: ast.get_source_segment(text, node) or ""
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef) and node.name in {name, original}
        }
        before, after = (sources[each].replace(each, "it").splitlines() for each in (original, name))
        return "\n".join([f"# {mutant}", *difflib.unified_diff(before, after, n=2, lineterm=""), ""])

    @staticmethod
    def _mutate_file(file: Path) -> list[str]:
        mutated = mutate_file_contents(str(file), without_properties(file.read_text(encoding="utf-8")))
        file.write_text(mutated.code, encoding="utf-8")
        return list(mutated.mutant_names)
