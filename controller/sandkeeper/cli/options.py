"""What all subcommands that speak to a cluster have in common."""

import functools
from collections.abc import Callable
from typing import Any

import click

from sandkeeper.cli.cluster import Cluster

__all__ = ["speaks_to_cluster"]


def speaks_to_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which cluster and namespace, and pass a :class:`Cluster` as ``cluster``."""

    @click.option("-n", "--namespace", help="Namespace; by default the one of the kubeconfig's context.")
    @click.option("--context", help="Context of the kubeconfig; by default the current one.")
    @click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        help="Kubeconfig; by default $KUBECONFIG, then ~/.kube/config, then the Pod's service account.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        namespace: str | None,
        context: str | None,
        kubeconfig: str | None,
        **options: Any,
    ) -> Any:  # noqa: ANN401 - whatever the command itself returns
        cluster = Cluster(kubeconfig=kubeconfig, context=context, namespace=namespace)
        return command(*args, cluster=cluster, **options)

    return wrapped
