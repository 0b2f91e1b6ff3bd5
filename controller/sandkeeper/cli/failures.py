"""What went wrong, in words that say what to do about it."""

import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from sandkeeper.api.names import GROUP

__all__ = ["EXPIRED", "Failure", "no_cluster", "no_such_sandbox", "plainly"]

EXPIRED: Final = 410
"""HTTP: the resourceVersion of a watch is too old."""

_UNAUTHENTICATED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404

_LISTED: Final = 10
"""Names that a message offers at most."""

_NO_CRDS: Final = (
    f"The cluster does not know the resources of {GROUP}: install them with `kubectl apply -f crds/` from the "
    "source, or with the Helm chart."
)
_NO_KUBECONFIG: Final = (
    "No cluster to speak to: {why}. Name a kubeconfig with --kubeconfig or $KUBECONFIG, and a context of it with "
    "--context."
)


class Failure(click.ClickException):
    """Ends the command with a message."""


@contextmanager
def plainly(what: str) -> Iterator[None]:
    """Turn the client's errors while doing ``what`` (for example "get Sandboxes in x") into a :class:`Failure`."""
    from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - slow to import
    from kubernetes.config import ConfigException  # noqa: PLC0415 - slow to import
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - comes with the above

    try:
        yield
    except ConfigException as error:
        raise no_cluster(str(error).rstrip(".")) from error
    except ApiException as error:
        raise Failure(_explain(error.status, error.body or error.reason, what)) from error
    except (HTTPError, OSError) as error:
        raise Failure(f"Cannot {what}: the API server was not reached: {error}") from error


def no_cluster(why: str) -> Failure:
    """Say that no cluster is known, why, and how to name one."""
    return Failure(_NO_KUBECONFIG.format(why=why))


def no_such_sandbox(name: str, *, namespace: str, others: Sequence[str]) -> Failure:
    """Say that there is no such Sandbox, and which ones there are."""
    text = f"There is no Sandbox {name!r} in namespace {namespace!r}"
    close = difflib.get_close_matches(name.lower(), others, n=1)
    if close:
        return Failure(f"{text}; did you mean {close[0]!r}?")
    if others:
        listed = ", ".join(others[:_LISTED]) + (", ..." if len(others) > _LISTED else "")
        return Failure(f"{text}; there are: {listed}.")
    return Failure(f"{text}, nor any other; name the namespace with -n.")


def _explain(status: int | None, body: str | bytes | None, what: str) -> str:
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {"message": text.strip()}
    message = str(answer.get("message") or text) if isinstance(answer, dict) else text
    # For an unknown resource the answer is a plain page: nothing of ours was looked for, let alone not found.
    if status == _NOT_FOUND and "not found" in message and "page" in message:
        return _NO_CRDS
    if status == _UNAUTHENTICATED:
        return f"Cannot {what}: the API server does not accept the kubeconfig's credentials (401)."
    if status == _FORBIDDEN:
        return f"Cannot {what}: not allowed: {message}"
    return f"Cannot {what}: {message} ({status})"
