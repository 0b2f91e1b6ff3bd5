"""``sandkeeper get``: the Sandboxes, in the columns that kubectl shows, with the reason beside them."""

import json
from collections.abc import Mapping
from typing import Any, Final

import click

from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.columns import aligned
from sandkeeper.cli.documents import as_yaml
from sandkeeper.cli.options import speaks_to_cluster
from sandkeeper.cli.sandboxes import Object

__all__ = ["command"]

_REASON: Final = "Reason"


@click.command("get")
@click.argument("name", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of every namespace.")
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table")
@speaks_to_cluster
def command(cluster: Cluster, name: str | None, output: str, *, all_namespaces: bool) -> None:
    """Show the Sandbox NAME, or all of them."""
    if name is not None and all_namespaces:
        raise click.UsageError("A name belongs to one namespace: leave out NAME or --all-namespaces.")
    if output in {"json", "yaml"}:
        found = cluster.list(all_namespaces=all_namespaces) if name is None else cluster.get(name)
        _print_object(_tidy(found), output)
        return
    table = cluster.table(name, all_namespaces=all_namespaces)
    lines = _lines(table, wide=output == "wide", all_namespaces=all_namespaces)
    if len(lines) == 1:
        where = "any namespace" if all_namespaces else f"namespace {cluster.namespace!r}"
        click.echo(f"No Sandboxes in {where}.", err=True)
    else:
        for line in aligned(lines):
            click.echo(line)


def _lines(table: Object, *, wide: bool, all_namespaces: bool) -> list[list[str]]:
    columns = table["columnDefinitions"]
    shown = [
        number
        for number, column in enumerate(columns)
        if wide or column["priority"] == 0 or column["name"] == _REASON
    ]
    header = [columns[number]["name"].upper() for number in shown]
    lines = [["NAMESPACE", *header] if all_namespaces else header]
    for row in table["rows"]:
        cells = [_text(row["cells"][number]) for number in shown]
        lines.append([row["object"]["metadata"]["namespace"], *cells] if all_namespaces else cells)
    return lines


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)


def _tidy(found: Object) -> dict[str, Any]:
    """Leave out who wrote which field, which nobody reads and which is longer than the rest."""
    if "items" in found:
        return {**found, "items": [_tidy(item) for item in found["items"]]}
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    return {**found, "metadata": metadata}


def _print_object(found: Mapping[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        click.echo(as_yaml(found), nl=False)
