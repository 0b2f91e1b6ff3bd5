"""Which level each value comes from, for people who ask why a sandbox is as it is.

Nothing else depends on it: what is wanted, :mod:`sandkeeper.config.resolve` finds out by itself, by the same rules of
merging (:mod:`sandkeeper.config.levels`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic.alias_generators import to_camel

from sandkeeper.api.base import Spec
from sandkeeper.api.policy import AgentSandboxPolicySpec, PolicyLevel
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config.builtin import BUILT_IN
from sandkeeper.config.ceilings import allotted
from sandkeeper.config.levels import CONCATENATED, MERGED, Level, merge_backend, merge_containers
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.scope import entry_of

__all__ = ["CEILINGS", "Said", "identity_of", "values_of"]

CEILINGS: Final = "the operator's ceilings"
"""Who gives where nobody says how much."""

_SECTIONS = ("container", "pod", "workspace", "prune", "rollout")
_IDENTITY = ("mode", "mainSessionKey", "scope")


@dataclass(frozen=True, kw_only=True)
class Said:
    """One value, and who says it."""

    field: str
    """As in a policy: ``container.memory``, ``container.env.LANG``, ``container.binds[0]``."""
    value: Any
    """As JSON has it."""
    by: str
    """The owner of the level: ``built-in``, ``the policy``, ``agents[dev]``, ``the Sandbox``."""


def values_of(levels: Sequence[Level], ceilings: Ceilings | None = None) -> list[Said]:
    """Tell who says what is in force, of levels from the most general to the most particular.

    Of what is concatenated each item has its own, of what is merged each entry. ``ceilings`` give where nobody says
    how much; None: they are not known.
    """
    said = [*_direct(levels), *(said for section in _SECTIONS for said in _in_section(section, levels))]
    if ceilings is None:
        return said
    merged = merge_containers(level.container for level in levels)
    given = allotted(merged, ceilings, backend=merge_backend(levels))
    return [
        *said,
        *(Said(field=f"container.{to_camel(field)}", value=most, by=CEILINGS) for field, most in given),
    ]


def identity_of(spec: SandboxSpec, policy: AgentSandboxPolicySpec) -> list[Said]:
    """Tell who says whether the Sandbox is sandboxed, and with whom it shares."""
    sections: list[tuple[str, Spec]] = [("built-in", BUILT_IN), ("the policy", policy)]
    if (entry := entry_of(policy, spec.agent_id)) is not None:
        sections.append((f"agents[{entry.id}]", entry))
    said: dict[str, Said] = {}
    for by, section in [*sections, ("the Sandbox", spec)]:
        given = (
            _given(section) if isinstance(section, PolicyLevel) else {"scope": _given(section).get("scope")}
        )
        for field in _IDENTITY:
            if given.get(field) is not None:
                said[field] = Said(field=field, value=given[field], by=by)
    return list(said.values())


def _direct(levels: Sequence[Level]) -> Iterator[Said]:
    for field, name in (("backend", "backend"), ("hotWindowSeconds", "hot_window_seconds")):
        for level in reversed(levels):
            if (value := getattr(level, name)) is not None:
                yield Said(field=field, value=value, by=level.owner)
                break


def _in_section(section: str, levels: Sequence[Level]) -> list[Said]:
    single: dict[str, Said] = {}
    items: list[Said] = []
    for level in levels:
        for name, value in _given(getattr(level, section)).items():
            field = f"{section}.{name}"
            if name in CONCATENATED:
                first = sum(said.field.startswith(f"{field}[") for said in items)
                items += [
                    Said(field=f"{field}[{number}]", value=item, by=level.owner)
                    for number, item in enumerate(value, first)
                ]
            elif name in MERGED:
                for key, entry in value.items():
                    single[f"{field}.{key}"] = Said(field=f"{field}.{key}", value=entry, by=level.owner)
            else:
                single[field] = Said(field=field, value=value, by=level.owner)
    return [*single.values(), *items]


def _given(section: Spec | None) -> dict[str, Any]:
    return {} if section is None else section.model_dump(mode="json", by_alias=True, exclude_none=True)
