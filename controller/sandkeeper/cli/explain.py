"""``sandkeeper explain``: why a sandbox is as it is, and what becomes of it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from sandkeeper.api.policy import AgentSandboxPolicySpec, Backend
from sandkeeper.api.sandbox import SandboxSpec, SandboxStatus
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.columns import aligned
from sandkeeper.cli.configuration import load
from sandkeeper.cli.failures import Failure
from sandkeeper.cli.options import speaks_to_cluster
from sandkeeper.config.canonical import canonical_json
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.policies import DEFAULT_NAME, FoundPolicy, Policies, find_policy
from sandkeeper.config.provenance import Said, identity_of, values_of
from sandkeeper.config.resolution import Problem, Resolution
from sandkeeper.config.resolve import resolve
from sandkeeper.config.scope import applicable_levels, identify
from sandkeeper.lifecycle.instants import show_instant
from sandkeeper.reconcile.objects import PolicyObject, SandboxObject

__all__ = ["command"]

_SHOWN: Final = 100
"""Characters of a value."""
_PRIVATE: Final = ("container.env.", "container.setupCommand")
"""What may have something in it that is nobody else's business."""
_WITHOUT_CONFIG: Final = "known with --config only: the operator's ceilings have a say"
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
    help="The operator's configuration: with it, what is wanted is worked out as the operator does.",
)
@speaks_to_cluster
def command(cluster: Cluster, name: str, path: Path | None) -> None:
    """Tell why the sandbox of NAME is as it is: who says each value, what its hash is taken of, and what comes next.

    Values of environment variables and the setupCommand are not shown.
    """
    sandbox = SandboxObject.parse(cluster.get(name))
    if isinstance(sandbox.spec, Problem):
        raise Failure(
            f"This command cannot read the Sandbox: {sandbox.spec.message}; is it older than the operator?"
        )
    facts = _find(cluster, sandbox, sandbox.spec, load(path) if path is not None else None)
    for line in _lines(facts):
        click.echo(line)


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What is known."""

    sandbox: SandboxObject
    spec: SandboxSpec
    policy: FoundPolicy | str
    """Or why it is not known which one applies."""
    config: OperatorConfig | None
    resolution: Resolution | None
    """Only with the operator's configuration."""

    @property
    def status(self) -> SandboxStatus:
        """What the operator says."""
        return self.sandbox.status


def _find(
    cluster: Cluster, sandbox: SandboxObject, spec: SandboxSpec, config: OperatorConfig | None
) -> _Facts:
    recorded = sandbox.status.policy
    home = config.namespace if config is not None else _home_of(recorded, own=sandbox.namespace)
    try:
        policies = _policies(cluster, spec.policy_ref.name, own=sandbox.namespace, home=home)
    except Failure as error:
        return _Facts(sandbox=sandbox, spec=spec, policy=error.message, config=config, resolution=None)
    found = find_policy(
        spec.policy_ref.name,
        namespace=sandbox.namespace,
        operator_namespace=home,
        recorded=recorded,
        policies=policies,
    )
    resolution = None
    if config is not None:
        resolution = resolve(
            namespace=sandbox.namespace,
            namespace_uid="",  # of no consequence here
            spec=spec,
            policies=policies,
            recorded_policy=recorded,
            operator=config,
        )
    return _Facts(sandbox=sandbox, spec=spec, policy=found, config=config, resolution=resolution)


def _home_of(recorded: str | None, *, own: str) -> str:
    """Guess the operator's namespace: a policy that is not from the Sandbox's own is from there."""
    namespace, slash, _ = (recorded or "").partition("/")
    return namespace if slash and namespace != own else OperatorConfig().namespace


def _policies(cluster: Cluster, name: str, *, own: str, home: str) -> Policies:
    """Read the policy that applies, from the Sandbox's namespace or the operator's; a Failure where that may not be."""
    for namespace in (own, home) if name == DEFAULT_NAME else (own,):
        raw = cluster.read_policy(name, namespace=namespace)
        if raw is not None:
            return {(namespace, name): PolicyObject.parse(raw).spec}
    return {}


# --- lines ------------------------------------------------------------------------------------------------------------


def _lines(facts: _Facts) -> Iterator[str]:
    yield from aligned(list(_about(facts)))
    if isinstance(facts.policy, FoundPolicy) and isinstance(facts.policy.spec, AgentSandboxPolicySpec):
        rows = (_row(said, facts.resolution) for said in _said(facts, facts.policy.spec))
        yield ""
        yield from aligned([("VALUE", "FROM"), *rows])
    yield ""
    yield from _hash(facts)
    yield ""
    yield _next(facts.status)


def _about(facts: _Facts) -> Iterator[tuple[str, str]]:
    sandbox, status, resolution = facts.sandbox, facts.status, facts.resolution
    yield "Sandbox", f"{sandbox.namespace}/{sandbox.name}"
    yield "Agent, session", f"{facts.spec.agent_id}, {facts.spec.session_key}"
    yield "Policy", _policy(facts)
    if status.key is not None:
        yield "Shared by", status.key
    if resolution is not None and resolution.problem is not None:
        yield "Cannot be", f"{resolution.problem.reason}: {resolution.problem.message}"
    for condition in status.conditions:
        yield f"{condition.type}={condition.status}", f"{condition.reason}: {condition.message}"
    if status.runtime is not None:
        runtime = status.runtime
        yield "Runtime", f"{runtime.backend} {runtime.name}, made {show_instant(runtime.created_at)}"
    if status.last_used_at is not None:
        yield "Last used", f"{show_instant(status.last_used_at)}, or later: it is recorded with other changes"


def _policy(facts: _Facts) -> str:
    if isinstance(facts.policy, str):
        return f"{facts.status.policy or facts.spec.policy_ref.name} ({facts.policy})"
    if isinstance(facts.policy.spec, Problem):
        return f"{facts.policy.name or facts.spec.policy_ref.name} ({facts.policy.spec.message})"
    return str(facts.policy.name)


def _said(facts: _Facts, policy: AgentSandboxPolicySpec) -> list[Said]:
    config, scope = facts.config, identify(facts.spec, policy).scope
    default = config.default_backend if config is not None else _default_backend(facts.status)
    levels = applicable_levels(facts.spec, policy, scope=scope, default_backend=default)
    return [*identity_of(facts.spec, policy), *values_of(levels, config.ceilings if config else None)]


def _default_backend(status: SandboxStatus) -> Backend:
    """Take the operator's default for the one that the status has: where a level says another, that has the word."""
    return next((backend for backend in Backend if backend.value == status.backend), Backend.DOCKER)


def _row(said: Said, resolution: Resolution | None) -> tuple[str, str]:
    filtered = resolution.filtered_env if resolution is not None else ()
    if said.field.removeprefix("container.env.") in filtered:
        return f"{said.field}: (left out: see allowSecretEnv)", said.by
    text = said.value if isinstance(said.value, str) else json.dumps(said.value, ensure_ascii=False)
    if said.field.startswith(_PRIVATE):
        return f"{said.field}: {_hidden(text)}", said.by
    shown = " ".join(text.split())
    return f"{said.field}: {shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'}", said.by


def _hash(facts: _Facts) -> Iterator[str]:
    status, resolution = facts.status, facts.resolution
    worked_out = resolution.config_hash or "nothing" if resolution is not None else _WITHOUT_CONFIG
    yield from aligned(
        [
            ("Runs", status.config_hash or "nothing"),
            ("Wanted, as the operator says", status.desired_config_hash or "nothing"),
            ("Wanted, as worked out here", worked_out),
        ]
    )
    if resolution is None:
        return
    if status.desired_config_hash != resolution.config_hash:
        yield "The two differ: it has another configuration than was given here, or has not looked since."
    if resolution.config is not None:
        yield f"Taken of: {json.dumps(_taken(resolution), sort_keys=True, ensure_ascii=False)}"


def _taken(resolution: Resolution) -> dict[str, Any]:
    """Return what the hash is taken of, but for what is not to be shown."""
    assert resolution.config is not None  # noqa: S101 - for the type checker
    taken: dict[str, Any] = json.loads(canonical_json(resolution.config))
    if "env" in taken:
        taken["env"] = {name: _hidden(value) for name, value in taken["env"].items()}
    if "setup_command" in taken:
        taken["setup_command"] = _hidden(taken["setup_command"])
    return taken


def _next(status: SandboxStatus) -> str:
    following = status.next_transition
    if following is None:
        return "Next: nothing, unless somebody uses it or changes something."
    why = _NEXT.get(following.what, "see its conditions")
    return f"Next: {following.what} at {show_instant(following.at)}: {why}."


def _hidden(text: str) -> str:
    return f"({len(text)} characters)"
