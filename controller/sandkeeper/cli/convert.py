"""``sandkeeper convert``: a policy out of the configuration of an OpenClaw gateway."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from sandkeeper.api.names import API_VERSION
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import PolicyRef, SandboxSpec
from sandkeeper.cli.configuration import load
from sandkeeper.cli.documents import as_yaml
from sandkeeper.cli.failures import Failure
from sandkeeper.config.builtin import BUILT_IN
from sandkeeper.config.conversion import convert
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.policies import DEFAULT_NAME
from sandkeeper.config.resolve import resolve
from sandkeeper.config.terms import Remark

__all__ = ["command"]

_ANY_OTHER: Final = "any-other"
"""Stands for the agents that the policy has no entry for."""


@click.command("convert")
@click.argument("source", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="What to call the policy.")
@click.option("--home", metavar="DIRECTORY", help="What ~ stands for in its paths, on the engine's host.")
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The operator's configuration; by default one that allows nothing which reaches the host.",
)
def command(source: Path, name: str, home: str | None, path: Path | None) -> None:
    """Print an AgentSandboxPolicy that says what FILE, the configuration of an OpenClaw gateway, says about sandboxes.

    FILE is JSON or JSON5. What does not come over is told on the standard error output, and so is what the operator
    would refuse. Nothing is applied.
    """
    try:
        conversion = convert(_read(source), home=home)
    except ValueError as error:
        raise Failure(f"{source} cannot be converted: {error}") from error
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "AgentSandboxPolicy",
        "metadata": {"name": name},
        "spec": _written(conversion.policy),
    }
    click.echo(as_yaml(manifest), nl=False)
    refused = _refused(conversion.policy, load(path))
    for heading, remarks in (
        ("Not carried over:", conversion.left),
        ("Added:", conversion.assumed),
        ("Refused as long as the operator is configured like this:", tuple(refused)),
    ):
        _tell(heading, remarks)


def _read(source: Path) -> dict[str, Any]:
    import json5  # noqa: PLC0415 - slow to import

    try:
        read = json5.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"{source} cannot be read: {error}") from error
    if not isinstance(read, dict):
        raise ValueError("it has to be a mapping of fields")  # noqa: TRY004 - it is the user's text that is wrong
    return read


def _written(policy: AgentSandboxPolicySpec) -> dict[str, Any]:
    """Write the policy as people do: of an agent, its id comes first."""
    spec = policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if "agents" in spec:
        spec["agents"] = [{"id": agent["id"], **agent} for agent in spec["agents"]]
    return spec


def _refused(policy: AgentSandboxPolicySpec, operator: OperatorConfig) -> Iterator[Remark]:
    """Tell what the operator would say to a session of each agent, and of any other."""
    main = policy.main_session_key or BUILT_IN.main_session_key
    agents_by_problem: dict[str, list[str]] = {}
    for agent in (*(agent.id for agent in policy.agents or ()), _ANY_OTHER):
        spec = SandboxSpec(agent_id=agent, session_key=f"not-{main}", policy_ref=PolicyRef(name=DEFAULT_NAME))
        resolution = resolve(
            namespace="here",
            namespace_uid="",
            spec=spec,
            policies={("here", DEFAULT_NAME): policy},
            recorded_policy=None,
            operator=operator,
        )
        if resolution.problem is not None:
            agents_by_problem.setdefault(resolution.problem.message, []).append(agent)
        if resolution.filtered_env:
            names = ", ".join(resolution.filtered_env)
            left = f"container.env: left out, unless container.allowSecretEnv has the name: {names}"
            agents_by_problem.setdefault(left, []).append(agent)
    for problem, agents in agents_by_problem.items():
        yield Remark(", ".join(agents), problem)


def _tell(heading: str, remarks: Iterable[Remark]) -> None:
    for number, remark in enumerate(remarks):
        if number == 0:
            click.echo(f"\n{heading}", err=True)
        click.echo(f"  {remark.field}: {remark.text}", err=True)
