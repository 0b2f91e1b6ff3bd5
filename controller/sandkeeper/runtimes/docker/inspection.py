"""What an inspection of a container means. Pure: it looks at nothing but the engine's answer."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.names import Label
from sandkeeper.api.policy import Backend
from sandkeeper.config.binds import Mount
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import key_from_labels, wiped_for
from sandkeeper.lifecycle.model import Observed, RuntimeState

__all__ = [
    "STOPPED_BY_SIGTERM",
    "Inspection",
    "ever_ran",
    "is_ours",
    "mounts_of",
    "observed",
    "preference",
    "state_of",
]

_PAUSED: Final = "Somebody paused the container at the engine; 'docker unpause' undoes it."

Inspection = Mapping[str, Any]
"""The engine's answer to an inspection."""

STOPPED_BY_SIGTERM: Final = 143
"""The exit code of a process that SIGTERM ended: 128 + 15."""
_KILLED: Final = 137
"""The exit code of a process that SIGKILL ended: 128 + 9."""
_NOT_RUN: Final = frozenset({1, 126, 127})
"""Exit codes of a command that is not there, cannot be run, or is a sleep that knows no infinity."""
_NEVER: Final = "0001-01-01"
"""How the engine writes the time of what did not happen."""


def is_ours(container: Inspection, key: RuntimeKey, installation: str) -> bool:
    """Whether the container's labels prove it the key's runtime, of this installation."""
    return key_from_labels(container["Config"].get("Labels") or {}, installation) == key


def observed(container: Inspection, *, node: str, in_use: bool, stopped_by_us: bool = False) -> Observed:
    """Say in the vocabulary of decisions what was seen.

    ``stopped_by_us``: this process stopped it, so that a SIGKILL at the end of the grace is no failure.
    """
    state, ended, message = state_of(container, stopped_by_us=stopped_by_us)
    labels = container["Config"].get("Labels") or {}
    return Observed(
        backend=Backend.DOCKER,
        id=container["Id"],
        name=container["Name"].removeprefix("/"),
        node=node,
        user=container["Config"].get("User") or "",
        state=state,
        created_at=_time(container["Created"]),
        config_hash=labels.get(Label.CONFIG_HASH, ""),
        image=container["Config"]["Image"],
        has_setup=labels.get(Label.SETUP) == "true",
        wiped_for=wiped_for(labels),
        in_use=in_use,
        ended=ended,
        message=message,
    )


def state_of(
    container: Inspection, *, stopped_by_us: bool = False
) -> tuple[RuntimeState, Reason | None, str]:
    """Return the state, why it ended if it FAILED, and a message."""
    state = container["State"]
    status = state["Status"]
    if status == "exited":
        return _of_exited(state, may_be_stopped=stopped_by_us or _ends_by_sigkill(container))
    return {
        # A start that failed leaves a message, and the state as it was.
        "created": (RuntimeState.CREATED, None, state.get("Error") or ""),
        "running": (RuntimeState.RUNNING, None, ""),
        # Nobody but a person at the engine does that, and it is theirs to undo: what is in memory is worth keeping.
        "paused": (RuntimeState.RUNNING, None, _PAUSED),
        "restarting": (RuntimeState.STARTING, None, ""),
        "removing": (RuntimeState.TERMINATING, None, ""),
        "dead": (RuntimeState.FAILED, Reason.EXITED, "The engine could not remove the container altogether."),
    }.get(status, (RuntimeState.FAILED, Reason.EXITED, f"The engine says that it is {status}."))


def _ends_by_sigkill(container: Inspection) -> bool:
    """Whether it ended as it does when it is stopped, having no init.

    The kernel keeps signals with a default action from process 1 of a container, so `sleep` there outlives SIGTERM and
    every stop ends by SIGKILL, ours as well as a person's and that of an engine that is shut down. Another command that
    minds SIGTERM would need a shell in the image, and the engine records nothing of a stop that could be asked for
    later. So a kill is taken for a stop: that costs nothing, for what is wanted is started again as it is, whereas a
    stop taken for a failure would cost a stopped sandbox all that it holds.
    """
    without_init = (container.get("HostConfig") or {}).get("Init") is False
    return without_init and container["State"]["ExitCode"] == _KILLED


def _of_exited(state: Inspection, *, may_be_stopped: bool) -> tuple[RuntimeState, Reason | None, str]:
    code = state["ExitCode"]
    if code == STOPPED_BY_SIGTERM:
        # Even if memory ran out once: that killed a command, and not the container.
        return RuntimeState.STOPPED, None, ""
    if state["OOMKilled"]:
        return RuntimeState.FAILED, Reason.OOM_KILLED, f"It ran out of memory (exit code {code})."
    if may_be_stopped:
        return RuntimeState.STOPPED, None, ""
    said = f": {state['Error']}" if state.get("Error") else ""
    hint = " The image has to have `sleep`, with `infinity`." if code in _NOT_RUN else ""
    return RuntimeState.FAILED, Reason.EXITED, f"It ended with exit code {code}{said}.{hint}"


def mounts_of(container: Inspection) -> tuple[Mount, ...]:
    """Return what is mounted in a container of the host, as it was created with."""
    mounts = (container.get("HostConfig") or {}).get("Mounts") or ()
    return tuple(
        Mount(mount["Source"], mount["Target"], "ro" if mount.get("ReadOnly") else "rw")
        for mount in mounts
        if mount["Type"] == "bind"
    )


def preference(container: Inspection) -> tuple[bool, bool, str]:
    """Return by what one of several containers of a key is chosen, the greatest first.

    There should be one. A second can only come from a create call that was given up and took effect later, and was
    then never started; so what runs comes first, then what ever ran, then the newest.
    """
    return container["State"]["Running"], ever_ran(container), container["Created"]


def ever_ran(container: Inspection) -> bool:
    """Whether it was started at least once."""
    return not container["State"]["StartedAt"].startswith(_NEVER)


def _time(text: str) -> datetime:
    # The engine writes nanoseconds, and as many of them as are not zero; Python reads microseconds.
    whole, _, rest = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{rest[:6]:0<6}").replace(tzinfo=UTC)
