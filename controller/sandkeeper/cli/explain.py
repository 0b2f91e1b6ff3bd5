"""``sandkeeper explain``: why a sandbox is as it is, and what becomes of it."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from sandkeeper.api.policy import AgentSandboxPolicySpec, Backend
from sandkeeper.api.sandbox import SandboxSpec, SandboxStatus
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.configuration import load
from sandkeeper.cli.options import speaks_to_cluster
from sandkeeper.cli.sandboxes import Object
from sandkeeper.config.canonical import canonical_json
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.policies import DEFAULT_NAME, find_policy
from sandkeeper.config.provenance import Said, identity_of, values_of
from sandkeeper.config.resolution import Problem, Resolution
from sandkeeper.config.resolve import resolve
from sandkeeper.config.scope import applicable_levels, identify

__all__ = ["command"]

_SHOWN: Final = 100
"""Characters of a value; a setupCommand may have thousands."""
_NEXT: Final = {
    "Prune": "its runtime is removed, if nobody uses it before: idleSeconds after the last use, or maxAgeSeconds after "
    "it was made",
    "Replace": "its runtime is replaced, for it differs from what is wanted by now; a use puts that off",
    "Delete": "this Sandbox is deleted, if it is still pruned then (prune.deleteAfterSeconds)",
    "Retry": "what failed is tried again",
}
"""By ``status.nextTransition.what``."""


@click.command("explain")
@click.argument("name")
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The operator's configuration, whose default backend and ceilings have a say; by default none is known.",
)
@speaks_to_cluster
def command(cluster: Cluster, name: str, path: Path | None) -> None:
    """Tell why the sandbox of NAME is as it is: who says each value, what its hash is taken of, and what comes next.

    Values of environment variables are not shown.
    """
    sandbox = cluster.get(name)
    spec = SandboxSpec.model_validate(sandbox["spec"])
    status = SandboxStatus.model_validate(sandbox.get("status") or {})
    operator = load(path) if path is not None else _unknown_operator(status)
    for line in _lines(cluster, sandbox, spec, status, operator, is_known=path is not None):
        click.echo(line)


def _unknown_operator(status: SandboxStatus) -> OperatorConfig:
    """Take the operator to be one that serves every backend, and by default the one that the status has."""
    backends = tuple(Backend)
    default = next((backend for backend in backends if backend.value == status.backend), Backend.DOCKER)
    return OperatorConfig(default_backend=default, backends=backends)


def _lines(
    cluster: Cluster,
    sandbox: Object,
    spec: SandboxSpec,
    status: SandboxStatus,
    operator: OperatorConfig,
    *,
    is_known: bool,
) -> Iterator[str]:
    namespace = str(sandbox["metadata"]["namespace"])
    policies = _policies(cluster, spec.policy_ref.name, namespace, operator)
    resolution = resolve(
        namespace=namespace,
        namespace_uid="",  # of no consequence here
        spec=spec,
        policies=policies,
        recorded_policy=status.policy,
        operator=operator,
    )
    yield from _columns(_about(sandbox, spec, status, resolution))
    found = find_policy(
        spec.policy_ref.name,
        namespace=namespace,
        operator_namespace=operator.namespace,
        recorded=status.policy,
        policies=policies,
    )
    if not isinstance(found.spec, Problem):
        yield ""
        yield from _columns([("VALUE", "FROM"), *map(_row, _said(spec, found.spec, operator))])
    yield ""
    yield from _hash(status, resolution, is_known=is_known)
    yield ""
    yield from _next(status)


def _policies(
    cluster: Cluster, name: str, namespace: str, operator: OperatorConfig
) -> dict[tuple[str, str], AgentSandboxPolicySpec | Problem]:
    """Read the policies that may apply. What is not ours to read is taken for absent."""
    namespaces = {namespace, operator.namespace} if name == DEFAULT_NAME else {namespace}
    found = {each: cluster.policy(name, namespace=each) for each in sorted(namespaces)}
    return {
        (each, name): AgentSandboxPolicySpec.model_validate(spec)
        for each, spec in found.items()
        if spec is not None
    }


def _about(
    sandbox: Object, spec: SandboxSpec, status: SandboxStatus, resolution: Resolution
) -> Iterator[tuple[str, str]]:
    metadata = sandbox["metadata"]
    yield "Sandbox", f"{metadata['namespace']}/{metadata['name']}"
    yield "Agent, session", f"{spec.agent_id}, {spec.session_key}"
    yield "Policy", resolution.policy or f"{spec.policy_ref.name} (not found)"
    yield "Shared by", resolution.key.scope if resolution.key is not None else "nobody: it is not sandboxed"
    if resolution.problem is not None:
        yield "Cannot be", f"{resolution.problem.reason}: {resolution.problem.message}"
    for condition in status.conditions:
        yield f"{condition.type}={condition.status}", f"{condition.reason}: {condition.message}"
    if status.runtime is not None:
        runtime = status.runtime
        yield "Runtime", f"{runtime.backend} {runtime.name}, made {_time(runtime.created_at)}"
    if status.last_used_at is not None:
        yield "Last used", f"{_time(status.last_used_at)}, or later: it is recorded with other changes"


def _said(spec: SandboxSpec, policy: AgentSandboxPolicySpec, operator: OperatorConfig) -> list[Said]:
    scope = identify(spec, policy).scope
    levels = applicable_levels(spec, policy, scope=scope, default_backend=operator.default_backend)
    return [*identity_of(spec, policy), *values_of(levels)]


def _row(said: Said) -> tuple[str, str]:
    if said.field.startswith("container.env."):
        return f"{said.field}: ({len(str(said.value))} characters)", said.by
    shown = said.value if isinstance(said.value, str) else json.dumps(said.value, ensure_ascii=False)
    shown = " ".join(shown.split())
    return f"{said.field}: {shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'}", said.by


def _hash(status: SandboxStatus, resolution: Resolution, *, is_known: bool) -> Iterator[str]:
    yield from _columns(
        [
            ("Runs", status.config_hash or "nothing"),
            ("Wanted, as the operator says", status.desired_config_hash or "nothing"),
            ("Wanted, as told above", resolution.config_hash or "nothing"),
        ]
    )
    if status.desired_config_hash != resolution.config_hash:
        why = (
            "that is not the configuration of the operator that serves it, or it has not looked since"
            if is_known
            else "the operator's ceilings have a say, which --config tells"
        )
        yield f"The two differ: {why}."
    if resolution.config is not None:
        taken: dict[str, Any] = json.loads(canonical_json(resolution.config))
        if "env" in taken:
            taken["env"] = dict.fromkeys(taken["env"], "(not shown)")
        yield f"Taken of: {json.dumps(taken, sort_keys=True, ensure_ascii=False)}"


def _next(status: SandboxStatus) -> Iterator[str]:
    if status.next_transition is None:
        yield "Next: nothing, unless somebody uses it or changes something."
        return
    what = status.next_transition.what
    yield f"Next: {what} at {_time(status.next_transition.at)}: {_NEXT.get(what, 'see its conditions')}."


def _columns(rows: Sequence[tuple[str, str]] | Iterator[tuple[str, str]]) -> Iterator[str]:
    known = list(rows)
    width = max(len(left) for left, _ in known) + 3
    for left, right in known:
        yield f"{left.ljust(width)}{right}"


def _time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
