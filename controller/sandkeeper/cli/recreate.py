"""``sandkeeper recreate``: a new runtime, with a fresh copy of the workspace if need be."""

from collections.abc import Iterable, Sequence
from typing import Final

import click

from sandkeeper.api.conditions import Reason
from sandkeeper.api.names import Annotation
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.failures import Failure, no_such_sandbox
from sandkeeper.cli.options import speaks_to_cluster
from sandkeeper.cli.sandboxes import Object, now, ready_of
from sandkeeper.lifecycle import mark_of

__all__ = ["command"]

_LISTED: Final = 10
"""Names that a message lists at most."""

_WITHOUT_A_SAY: Final = frozenset({Reason.CONFIG_CONFLICT.value, Reason.TOO_MANY_SHARERS.value})
"""Reasons for Ready of those who have the key of a runtime, and no claim on it."""


@click.command("recreate")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--agent", metavar="ID", help="All Sandboxes of this agent.")
@click.option("--session", metavar="KEY", help="All Sandboxes of this session; with --agent: that agent's.")
@click.option("--all", "everything", is_flag=True, help="All Sandboxes of the namespace.")
@click.option("--wipe", is_flag=True, help="With a fresh copy of the workspace: what is in it is lost.")
@speaks_to_cluster
def command(
    cluster: Cluster,
    names: Sequence[str],
    agent: str | None,
    session: str | None,
    *,
    everything: bool,
    wipe: bool,
) -> None:
    """Ask for a new runtime of the Sandboxes NAME, or of those that the options choose.

    One that is in use or held is replaced when it no longer is. A shared workspace is wiped when all who share it ask.
    """
    _check_choice(names, agent, session, everything=everything)
    found = list(cluster.sandboxes())
    chosen = _named(cluster, found, names) if names else _matching(cluster, found, agent, session)
    annotation = Annotation.WIPE if wipe else Annotation.RECREATE
    said = "asked for a new runtime" + (" with a fresh copy of the workspace" if wipe else "")
    value = now()
    for name in map(_name, chosen):
        sandbox = cluster.annotate(name, {annotation.value: value})
        answer = f"{said}; now {ready_of(sandbox)}" if sandbox is not None else "deleted meanwhile"
        click.echo(f"{cluster.namespace}/{name}: {answer}")
    if wipe:
        _tell_who_else_shares(found, asked={_name(each) for each in chosen})


def _check_choice(names: Sequence[str], agent: str | None, session: str | None, *, everything: bool) -> None:
    ways = sum((bool(names), agent is not None or session is not None, everything))
    if ways == 0:
        raise click.UsageError("Say which: NAME..., --agent ID, --session KEY, or --all.")
    if ways > 1:
        raise click.UsageError(
            "Say it in one way: NAME..., or --agent ID and --session KEY, or --all, which means every Sandbox anyway."
        )


def _named(cluster: Cluster, found: Iterable[Object], names: Sequence[str]) -> list[Object]:
    by_name = {_name(each): each for each in found}
    for name in names:
        if name not in by_name:
            raise no_such_sandbox(name, namespace=cluster.namespace, others=sorted(by_name))
    return [by_name[name] for name in dict.fromkeys(names)]


def _matching(
    cluster: Cluster, found: Sequence[Object], agent: str | None, session: str | None
) -> list[Object]:
    chosen = [each for each in found if agent in {None, _agent(each)} and session in {None, _session(each)}]
    if chosen:
        return chosen
    if not found:
        raise Failure(f"There is no Sandbox in namespace {cluster.namespace!r}; name the namespace with -n.")
    wanted = [f"agent {agent!r}"] if agent is not None else []
    wanted += [f"session {session!r}"] if session is not None else []
    text = f"There is no Sandbox of {' and '.join(wanted)} in namespace {cluster.namespace!r}"
    if agent is not None and all(_agent(each) != agent for each in found):
        raise Failure(f"{text}; there are the agents {_listed(map(_agent, found))}.")
    theirs = [each for each in found if agent in {None, _agent(each)}]
    raise Failure(f"{text}; there are the sessions {_listed(map(_session, theirs))}.")


def _tell_who_else_shares(found: Sequence[Object], *, asked: set[str]) -> None:
    """Name those without whom nothing is wiped: they have a workspace in common with one that asks."""
    shared: dict[tuple[str, str], list[Object]] = {}
    for sandbox in found:
        if (key := _key(sandbox)) is not None:
            shared.setdefault(key, []).append(sandbox)
    for (_, scope_key), sharers in shared.items():
        if asked.isdisjoint(map(_name, sharers)):
            continue
        silent = sorted(_name(each) for each in sharers if _name(each) not in asked and not _asks(each))
        if silent:
            click.echo(
                f"The workspace of {scope_key} is not wiped yet: these share it and did not ask: {_listed(silent)}. "
                "Ask for them too, if what is in it can go."
            )


def _key(sandbox: Object) -> tuple[str, str] | None:
    """Return what those have in common who share a runtime; None: it shares with nobody, or nobody knows yet."""
    key = sandbox.get("status", {}).get("key")
    if (
        key is None
        or "deletionTimestamp" in sandbox["metadata"]
        or ready_of(sandbox).reason in _WITHOUT_A_SAY
    ):
        return None
    return sandbox["spec"]["policyRef"]["name"], key


def _asks(sandbox: Object) -> bool:
    """Whether it has asked for a fresh copy before, and did not get it yet."""
    mark = mark_of(sandbox["metadata"].get("annotations", {}).get(Annotation.WIPE.value))
    return mark is not None and mark != sandbox.get("status", {}).get("wipe")


def _name(sandbox: Object) -> str:
    return str(sandbox["metadata"]["name"])


def _agent(sandbox: Object) -> str:
    return str(sandbox["spec"]["agentId"])


def _session(sandbox: Object) -> str:
    return str(sandbox["spec"]["sessionKey"])


def _listed(texts: Iterable[str]) -> str:
    known = sorted(set(texts))
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return ", ".join(known[:_LISTED]) + more
