"""The references of both kinds and of the reasons in Markdown, generated from the models.

Run as a program (``python -m sandkeeper.api.reference``), it takes ``--write docs/reference`` or
``--check docs/reference``.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Final

from sandkeeper.api import generated
from sandkeeper.api.conditions import ConditionType, Phase, PolicyConditionType, Reason
from sandkeeper.api.crd import POLICY, SANDBOX, Resource
from sandkeeper.api.names import API_VERSION, Annotation
from sandkeeper.api.structural import plain_text
from sandkeeper.api.tables import OPERATOR, POLICY_AUTHOR, SANDBOX_AUTHOR, Tables

__all__ = ["files"]

_HEADER: Final = (
    "<!-- Generated from the models in controller/sandkeeper/api: change those, then run\n"
    "     python -m sandkeeper.api.reference --write docs/reference -->\n"
)
_GROUPS: Final[Mapping[Reason, str]] = {
    Reason.RUNNING: "Ready is True",
    Reason.PENDING: "Ready is False: on the way, or at rest",
    Reason.POLICY_NOT_FOUND: "Ready is False: what is wanted cannot be said",
    Reason.IMAGE_MISSING: "Ready is False: the world does not play along",
    Reason.NODE_LOST: "Ready is Unknown",
    Reason.CONFIG_CHANGED: "Drifted is True",
    Reason.ANNOTATION_INVALID: "The other conditions",
    Reason.ACCEPTED: "Of a policy",
}
"""Headings, by the first reason below each."""
_REMARKS: Final[Mapping[Reason, str]] = {
    Reason.POLICY_NOT_FOUND: (
        "What runs is kept as it is until somebody changes something. The message names the field and the fix."
    ),
    Reason.ANNOTATION_INVALID: "`ReplacementFailed` has the reason that `Ready` had when a replacement failed.",
    Reason.ACCEPTED: (
        "Where the policy cannot be followed at all, `Ready` is False with the reason that its Sandboxes get, such as "
        "`CeilingExceeded`; that is known before there is any."
    ),
}


def _meanings(kind: type[StrEnum]) -> Iterator[tuple[str, str]]:
    """Yield the members of an enum with the docstrings below them, which Python itself forgets."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)  # noqa: S101 - the source of a class
    for statement, following in pairwise([*tree.body, None]):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            meaning = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                meaning = plain_text(str(following.value.value))
            yield kind[statement.targets[0].id], meaning


def _documented(kind: type[StrEnum]) -> Iterator[str]:
    """Yield a heading-less section about an enum: what it says of itself, and a table of its members."""
    yield f"{plain_text(kind.__doc__ or '')}\n"
    yield "| name | meaning |"
    yield "|---|---|"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in _meanings(kind))
    yield ""


def _kind(resource: Resource, *, author: str) -> Iterator[str]:
    yield _HEADER
    yield f"# {resource.kind}\n"
    yield (
        f"{resource.description} `{API_VERSION}`, namespaced, "
        f"`kubectl get {resource.plural}` or `{resource.short_name}`.\n"
    )
    tables = Tables()
    tables.add("spec", resource.spec, author=author)
    if resource.status is not None:
        tables.add("status", resource.status, author=OPERATOR)
    yield from tables.lines()


def _sandbox_lines() -> Iterator[str]:
    yield from _kind(SANDBOX, author=SANDBOX_AUTHOR)
    yield "## Annotations\n"
    yield from _documented(Annotation)
    yield "## Conditions\n"
    yield from _documented(ConditionType)
    yield "## Phases\n"
    yield f"{', '.join(f'`{phase}`' for phase in Phase)}. {plain_text(Phase.__doc__ or '')}"


def _policy_lines() -> Iterator[str]:
    yield from _kind(POLICY, author=POLICY_AUTHOR)
    yield "## Conditions\n"
    yield from _documented(PolicyConditionType)


def _reason_lines() -> Iterator[str]:
    yield _HEADER
    yield "# Reasons\n"
    yield "One word for each, in conditions, Events and metric labels."
    for name, meaning in _meanings(Reason):
        reason = Reason(name)
        if reason in _GROUPS:
            yield f"\n## {_GROUPS[reason]}\n"
            if reason in _REMARKS:
                yield f"{_REMARKS[reason]}\n"
            yield "| reason | meaning |"
            yield "|---|---|"
        yield f"| `{reason}` | {meaning} |"


def files() -> Mapping[str, str]:
    """Return what is generated: file names, and the text of each."""
    pages = {"sandbox.md": _sandbox_lines(), "policy.md": _policy_lines(), "reasons.md": _reason_lines()}
    return {name: generated.page(lines) for name, lines in pages.items()}


if __name__ == "__main__":
    sys.exit(generated.main(files(), program="sandkeeper.api.reference", arguments=sys.argv[1:]))
