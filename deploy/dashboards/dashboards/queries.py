"""Expressions of PromQL, as the panels ask for them. All look only at what the variables of the dashboard choose."""

from typing import Final, NamedTuple

__all__ = [
    "Query",
    "at_least_none",
    "at_most",
    "counted",
    "most",
    "per_minute",
    "per_second",
    "quantile",
    "quantiles",
    "rollouts",
    "runtimes",
    "selected",
    "summed",
]

_CHOSEN: Final = 'namespace=~"$namespace", job=~"$job"'
_OVER: Final = "$__rate_interval"


class Query(NamedTuple):
    """An expression, and how each of its series is called."""

    expression: str
    legend: str


def selected(metric: str, where: str = "") -> str:
    """Select the series of a metric; one of Sandkeeper's own, unless its name says that it is any process'."""
    name = metric if metric.startswith("process_") else f"sandkeeper_{metric}"
    return f"{name}{{{', '.join(filter(None, (_CHOSEN, where)))}}}"


def summed(metric: str, *by: str, where: str = "", legend: str = "") -> Query:
    """Sum a gauge by some labels."""
    return Query(f"sum{_by(by)} ({selected(metric, where)})", legend or _legend(by))


def runtimes(*by: str, where: str = "", legend: str = "") -> Query:
    """Count runtimes by some labels."""
    return _agreed("runtimes", ("backend", "phase", "policy"), by, where, legend)


def at_least_none(query: Query) -> Query:
    """Say 0 where there is no series, and nothing where no operator is seen."""
    return Query(f"{query.expression} or 0 * sum({selected('shard_slots')})", query.legend)


def rollouts(*by: str, where: str = "", legend: str = "") -> Query:
    """Count runtimes by how far a change of their policy has come."""
    return _agreed("rollout_runtimes", ("policy", "state"), by, where, legend)


def at_most(metric: str, *by: str, where: str = "", legend: str = "") -> Query:
    """Take the largest of a gauge by some labels."""
    return Query(f"max{_by(by)} ({selected(metric, where)})", legend or _legend(by))


def per_second(metric: str, *by: str, where: str = "", legend: str = "") -> Query:
    """Take a counter's rate by some labels."""
    return Query(_rate(metric, by, where), legend or _legend(by))


def per_minute(metric: str, *by: str, where: str = "", legend: str = "") -> Query:
    """Take a counter's rate by some labels: of what is seldom, a minute's is easier to read."""
    return Query(f"60 * {_rate(metric, by, where)}", legend or _legend(by))


def counted(metric: str, *by: str, where: str = "") -> Query:
    """Count what a counter gained in all the time that is shown, where it gained anything."""
    return Query(f"sum{_by(by)} (increase({selected(metric, where)}[$__range])) > 0", _legend(by))


def most(number: int, query: Query) -> Query:
    """Keep so many series, those with the largest values."""
    return Query(f"topk({number}, {query.expression})", query.legend)


def quantile(share: float, metric: str, *by: str, where: str = "", legend: str = "") -> Query:
    """Estimate a quantile of a histogram by some labels."""
    rate = _rate(f"{metric}_bucket", ("le", *by), where)
    return Query(f"histogram_quantile({share:g}, {rate})", legend or _legend(by))


def quantiles(metric: str, where: str = "") -> tuple[Query, ...]:
    """Estimate the median, and what one in twenty and one in a hundred exceed."""
    return tuple(
        quantile(share, metric, where=where, legend=f"p{share * 100:g}") for share in (0.5, 0.95, 0.99)
    )


def _agreed(metric: str, of: tuple[str, ...], by: tuple[str, ...], where: str, legend: str) -> Query:
    """Sum what every replica tells of the whole, standbys too: each series, with the labels ``of``, counts once."""
    once = f"max{_by(('namespace', 'job', *of))} ({selected(metric, where)})"
    return Query(f"sum{_by(by)} ({once})", legend or _legend(by))


def _rate(metric: str, by: tuple[str, ...], where: str) -> str:
    return f"sum{_by(by)} (rate({selected(metric, where)}[{_OVER}]))"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""


def _legend(labels: tuple[str, ...]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)
