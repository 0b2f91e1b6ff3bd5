"""Templates with ``{agentId}``: one policy names a directory for each of its agents."""

import re
from typing import Final

from pydantic import ValidationError

from sandkeeper.api.types import AGENT_ID
from sandkeeper.api.workspace import Workspace

__all__ = ["fill_workspace", "names_agent"]

_HARMLESS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
"""As admission has it for agentId. Stated again, because it is what keeps one agent out of another's directory."""


def names_agent(workspace: Workspace) -> bool:
    """Say whether any part of the section is another for each agent."""
    return AGENT_ID in workspace.model_dump_json()


def fill_workspace(workspace: Workspace, agent_id: str) -> Workspace:
    """Put the agent's id in its places. ValueError: it cannot stand there."""
    if _HARMLESS.fullmatch(agent_id) is None:
        raise ValueError(f"workspace: the agentId {agent_id!r} cannot be part of a path or a name")
    written = workspace.model_dump_json(by_alias=True, exclude_none=True)
    try:
        return Workspace.model_validate_json(written.replace(AGENT_ID, agent_id))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, ("workspace", *first["loc"])))
        raise ValueError(f"{field}: with the agentId {agent_id!r} it is not valid: {first['msg']}") from None
