"""What is prepared in a Pod before its sandbox starts, and what is heard of it: pure functions.

Nobody but the Pod has its volumes at hand. So an init container runs :mod:`sandkeeper.inside.prepare`, with the image,
the user and the limits of the sandbox itself, and only where there is something to prepare.

The kubelet may run it again as long as the sandbox has not started. So it leaves what is there as it is, and what it
wipes a second time is what it made itself.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

from sandkeeper.config.mounts import (
    AGENT_MOUNT,
    LARGEST_SEED,
    SEEDED,
    ConfigMapSource,
    has_copy,
    has_skills,
    has_workspace,
    is_seeded,
    places_in_workspace,
)
from sandkeeper.config.pod import EmptyDirVolume
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.protocol import Order

__all__ = [
    "COPY_MOUNT",
    "PREPARE",
    "complaints_in",
    "prepare_command",
    "prepares_agent",
    "prepares_copy",
    "said_in",
]

PREPARE: Final = "prepare"
"""The name of the init container."""
COPY_MOUNT: Final = "/workspace"
"""Where that finds the sandbox's own workspace; the agent's it finds at :data:`AGENT_MOUNT`."""

_LONGEST: Final = 1024
"""Characters that are shown of what it said: it is anybody's image that speaks."""


def prepares_agent(config: RuntimeConfig) -> bool:
    """Whether it needs the agent's own workspace: to copy from, or to see to the skills in it."""
    return config.agent is not None and has_workspace(config)


def prepares_copy(order: Order) -> bool:
    """Whether it needs the sandbox's own workspace: to copy to, or to wipe."""
    return is_seeded(order.config) or _is_wiped(order)


def prepare_command(order: Order) -> list[str]:
    """Return what the init container runs."""
    return ["python3", "-I", "-c", _program(), json.dumps(_task(order), sort_keys=True, ensure_ascii=False)]


def complaints_in(message: str) -> str:
    """Return what it complained of though it completed, fit to be shown; empty: nothing."""
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):
        return ""
    return _shown("; ".join(filter(lambda one: isinstance(one, str), said))) if isinstance(said, list) else ""


def said_in(message: str) -> str:
    """Return why it failed, in its own words or its interpreter's, fit to be shown."""
    return complaints_in(message) or _shown(message)


def _task(order: Order) -> dict[str, Any]:
    """Say what is to be done, as :func:`sandkeeper.inside.prepare.main` has it."""
    config = order.config
    task: dict[str, Any] = {
        "target": COPY_MOUNT if has_copy(config) else AGENT_MOUNT,
        # In a copy that may only be read nobody could make them any more, and in another it would be root who does. In
        # the agent's own, which is not written to, they are looked at: none of them may be a link.
        "directories": sorted(places_in_workspace(config)),
    }
    if _is_wiped(order):
        task["wipe"] = True
    if has_skills(config):
        task["skills_in"] = AGENT_MOUNT
    if is_seeded(config):
        # The files of a ConfigMap's volume are links, which the kubelet made.
        follow_links = isinstance(config.agent, ConfigMapSource)
        task |= {
            "source": AGENT_MOUNT,
            "names": SEEDED,
            "largest": LARGEST_SEED,
            "follow_links": follow_links,
        }
    return task


def _is_wiped(order: Order) -> bool:
    """Whether earlier runtimes may have left something that has to go. The agent's own is none of ours to wipe."""
    return order.wipe and has_copy(order.config) and not isinstance(order.config.workspace, EmptyDirVolume)


@cache
def _program() -> str:
    return files("sandkeeper.inside").joinpath("prepare.py").read_text(encoding="utf-8")


def _shown(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:_LONGEST]
