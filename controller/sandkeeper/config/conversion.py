"""From the configuration of an OpenClaw gateway to a policy.

Whoever asks is told of every field that does not come over, with the reason: nothing is passed over in silence. What
the fields come to is in :mod:`sandkeeper.config.terms`. What the operator's ceilings say to the outcome, and what is
missing in it, is for :func:`sandkeeper.config.resolve.resolve` to find out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.config.terms import (
    GATEWAYS,
    SECTIONS,
    TERMS,
    Convert,
    Place,
    Remark,
    directory,
    why_at_the_top,
    why_left,
)

__all__ = ["Conversion", "convert"]

Path = tuple[str | int, ...]
"""A place in the policy's spec."""

_OWN: Final = ("workspace", "agent", "hostPath", "path")
"""Where a level says what the agent's own workspace is."""


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A policy, and what became of the rest."""

    policy: AgentSandboxPolicySpec
    left: tuple[Remark, ...]
    """What was not carried over, by its place in the source, and why."""
    assumed: tuple[Remark, ...]
    """What the source leaves unsaid and the policy must not, by its place in the policy."""


def convert(source: Mapping[str, Any], *, home: str | None = None) -> Conversion:
    """Convert a gateway's configuration; ``home`` is what ``~`` stands for in its paths.

    ValueError: no policy can be made of it; the message says what to change.
    """
    carrying = _Carrying(home)
    carrying.take(source)
    assumed: tuple[Remark, ...] = ()
    if not carrying.has(("mode",)):
        carrying.put(("mode",), "off", said_at="agents.defaults.sandbox.mode")
        assumed = (Remark("mode", "off, as it is there where nobody says otherwise; here that would be all"),)
    return Conversion(policy=carrying.settle(), left=tuple(carrying.left), assumed=assumed)


class _Carrying:
    """What was carried over so far, and what was left."""

    def __init__(self, home: str | None) -> None:
        self._home = home
        self._values: dict[Path, object] = {}
        self._said_at: dict[Path, str] = {}
        self.left: list[Remark] = []

    def has(self, path: Path) -> bool:
        """Whether the policy has a value there."""
        return path in self._values

    def put(self, path: Path, value: object, *, said_at: str) -> None:
        """Put a value into the policy."""
        self._values[path] = value
        self._said_at[path] = said_at

    def take(self, source: Mapping[str, Any]) -> None:
        """Carry over what the whole configuration says."""
        for key, value in source.items():
            if key == "agents":
                self._agents(_fields(value, at=key))
            elif key == "session":
                self._session(_fields(value, at=key))
            else:
                self._leave(key, why_at_the_top(key))

    def _leave(self, at: str, why: str) -> None:
        self.left.append(Remark(at, why))

    def _session(self, session: Mapping[str, Any]) -> None:
        for key, value in session.items():
            if key == "mainKey":
                self.put(("mainSessionKey",), value, said_at="session.mainKey")
            else:
                self._leave(f"session.{key}", GATEWAYS)

    def _agents(self, agents: Mapping[str, Any]) -> None:
        listed = agents.get("list", [])
        if not isinstance(listed, list):
            raise ValueError("agents.list: has to be a list of agents")  # noqa: TRY004 - it is the user's text
        for number, entry in enumerate(listed):
            self._entry(_fields(entry, at=f"agents.list[{number}]"), number)
        for key, value in agents.items():
            if key == "defaults":
                self._defaults(_fields(value, at="agents.defaults"), listed=len(listed))
            elif key != "list":
                self._leave(f"agents.{key}", GATEWAYS)

    def _entry(self, entry: Mapping[str, Any], number: int) -> None:
        at, to = f"agents.list[{number}]", ("agents", number)
        self.put((*to, "id"), entry.get("id"), said_at=f"{at}.id")
        for key, value in entry.items():
            if key == "sandbox":
                self._section(value, at=f"{at}.{key}", to=to)
            elif key == "workspace":
                self._carry(value, at=f"{at}.{key}", to=(*to, *_OWN), how=directory)
            elif key != "id":
                self._leave(f"{at}.{key}", why_at_the_top(key))

    def _defaults(self, defaults: Mapping[str, Any], *, listed: int) -> None:
        for key, value in defaults.items():
            at = f"agents.defaults.{key}"
            if key == "sandbox":
                self._section(value, at=at, to=())
            elif key == "workspace":
                self._workspace_of_the_only_agent(value, at=at, listed=listed)
            else:
                self._leave(at, GATEWAYS)

    def _workspace_of_the_only_agent(self, value: object, *, at: str, listed: int) -> None:
        """Carry it over where it is clear whose it is: shared, it would be a way to another agent's files."""
        if listed > 1:
            self._leave(at, "it is one agent's, and there are several: name each agent's own in its entry")
        elif self.has(("agents", 0, *_OWN)):
            self._leave(at, "the only agent names its own")
        else:
            if not listed:
                self.put(("agents", 0, "id"), "main", said_at=at)
            self._carry(value, at=at, to=("agents", 0, *_OWN), how=directory)

    def _section(self, section: object, *, at: str, to: Path, below: str = "") -> None:
        """Carry over a ``sandbox`` section, or what stands ``below`` a place in it."""
        for key, value in _fields(section, at=at).items():
            place, name = f"{at}.{key}", f"{below}{key}"
            if name in TERMS:
                where, how = TERMS[name]
                self._carry(value, at=place, to=(*to, *where), how=how)
            elif name in SECTIONS:
                self._section(value, at=place, to=to, below=f"{name}.")
            else:
                self._leave(place, why_left(name))

    def _carry(self, value: object, *, at: str, to: Path, how: Convert) -> None:
        if self.has(to):
            self._leave(at, f"{self._said_at[to]} says the same, and has the word")
            return
        try:
            self.put(to, how(value, Place(at, self._home, self.left)), said_at=at)
        except ValueError as error:
            self._leave(at, str(error))

    def settle(self) -> AgentSandboxPolicySpec:
        """Make the policy, without what it would not be valid with."""
        while True:
            try:
                return AgentSandboxPolicySpec.model_validate(_tree(self._values))
            except ValidationError as error:
                problem = error.errors()[0]
                field = problem.get("ctx", {}).get("field") or ""
                self._drop((*problem["loc"], *field.split(".")), problem["msg"])

    def _drop(self, place: Path, message: str) -> None:
        """Leave out the value at a place, or around it."""
        for length in range(len(place), 0, -1):
            around = place[:length]
            if around in self._values and around[-1] != "id":  # without its id an entry is nobody's
                del self._values[around]
                self._leave(self._said_at[around], message)
                return
        raise ValueError(f"{self._said_at.get(place[:3], place[0])}: {message}")


def _fields(value: object, *, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{at}: has to be a mapping of fields")  # noqa: TRY004 - it is the user's text that is wrong
    return value


def _tree(values: Mapping[Path, object]) -> dict[str, Any]:
    """Put each value in its place. A number is a place in the list of agents, of whom each has an id."""
    agents: dict[str | int, dict[str, Any]] = {}
    spec: dict[str, Any] = {}
    for path, value in values.items():
        top, rest = (agents.setdefault(path[1], {}), path[2:]) if path[0] == "agents" else (spec, path)
        for part in rest[:-1]:
            top = top.setdefault(str(part), {})
        top[str(rest[-1])] = value
    return {**spec, "agents": list(agents.values())} if agents else spec
