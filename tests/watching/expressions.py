"""What an expression of PromQL asks for, and whether there is such a thing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from promql_parser import AggModifierType, AggregateExpr, Expr, VectorSelector, parse, walk

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.telemetry.catalogue import CATALOGUE, Family, Kind

__all__ = [
    "Selector",
    "complaints",
    "families_of",
    "grouped_by",
    "labels_of",
    "selectors",
    "series_complaints",
]

TARGET: Final = frozenset({"namespace", "job", "instance"})
"""Labels that every series has from where it was scraped: by the chart's monitors, or as the how-to says."""

_SUFFIXES: Final = {Kind.COUNTER: ("",), Kind.GAUGE: ("",), Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
_KNOWN: Final[Mapping[str, Family]] = {
    family.name + suffix: family for family in CATALOGUE for suffix in _SUFFIXES[family.kind]
}
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class Selector:
    """The series of one metric that an expression asks for, and the values that it names, by label."""

    metric: str
    values: Mapping[str, Sequence[str]]


def selectors(expression: str) -> list[Selector]:
    """Find everything that is asked for."""
    return [_selector(found) for found in _found(parse(expression))]


def families_of(expression: str) -> set[str]:
    """Find the names of the metrics that are asked for, as the catalogue has them."""
    return {_KNOWN[each.metric].name for each in selectors(expression) if each.metric in _KNOWN}


def labels_of(metric: str) -> frozenset[str]:
    """Return the labels that series of a metric have."""
    family = _KNOWN[metric]
    return TARGET | frozenset(family.labels) | ({"le"} if metric.endswith("_bucket") else frozenset())


def grouped_by(expression: str) -> set[str] | None:
    """Return the labels that the outermost aggregation leaves; None: nothing is aggregated."""
    found: list[AggregateExpr] = []

    def visit(node: Expr) -> bool:
        if isinstance(node, AggregateExpr) and node.modifier is not None:
            found.append(node)
        return True

    walk(parse(expression), pre_visit=visit)
    return set(found[0].modifier.labels) if found and found[0].modifier is not None else None


def complaints(expression: str) -> Iterator[str]:
    """Say what an expression asks for that there is not."""
    for each in selectors(expression):
        if each.metric not in _KNOWN:
            yield f"there is no metric {each.metric}"
            continue
        for label, values in each.values.items():
            if label not in labels_of(each.metric):
                yield f"{each.metric} has no label {label}"
                continue
            known = _values(_KNOWN[each.metric], label)
            if known is not None:
                yield from (f"{label} of {each.metric} is never {v}" for v in values if v not in known)
    yield from _group_complaints(expression)


def series_complaints(series: str) -> Iterator[str]:
    """Say in what a series that a test makes up differs from those that there are."""
    yield from complaints(series)
    (selector,) = selectors(series)
    if selector.metric in _KNOWN and set(selector.values) != labels_of(selector.metric):
        yield f"{selector.metric} has the labels {sorted(labels_of(selector.metric))}"


def _group_complaints(expression: str) -> Iterator[str]:
    """Say by which labels something is grouped that does not have them."""
    wrong: list[str] = []

    def visit(node: Expr) -> bool:
        if isinstance(node, AggregateExpr) and node.modifier is not None:
            assert node.modifier.type == AggModifierType.By, (
                "`without` lets through whatever labels come later"
            )
            below = {selector.name or "" for selector in _found(node.expr)} & _KNOWN.keys()
            for label in node.modifier.labels:
                wrong.extend(f"{name} has no label {label}" for name in below if label not in labels_of(name))
        return True

    walk(parse(expression), pre_visit=visit)
    yield from wrong


def _found(expression: Expr) -> list[VectorSelector]:
    found: list[VectorSelector] = []

    def visit(node: Expr) -> bool:
        if isinstance(node, VectorSelector):
            found.append(node)
        return True

    walk(expression, pre_visit=visit)
    return found


def _selector(found: VectorSelector) -> Selector:
    # Of a regular expression the words between bars are values; other ones are not looked into.
    values = {
        each.name: [word for word in each.value.split("|") if _WORD.fullmatch(word)]
        for each in found.matchers.matchers
    }
    return Selector(found.name or "", values)


def _values(family: Family, label: str) -> set[str] | None:
    """Return the values that a label may have, where the catalogue names them all; None: it does not."""
    told = family.labels.get(label)
    if told is None or "such as" in told or "as above" in told or "HTTP" in told or label == "policy":
        return None
    values = set(re.findall(r"`(\w+)`", told))
    if "reasons.md" in told or label == "reason":
        values |= {reason.value for reason in Reason}
    if "phases" in told:
        values |= {phase.value for phase in Phase}
    return values
