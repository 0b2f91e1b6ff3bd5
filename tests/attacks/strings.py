"""Every string of both kinds, and an object that has it."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from api.documents import EXAMPLES, RESOURCES, example
from api.walking import fields
from sandkeeper.api.crd import POLICY, SANDBOX, Resource
from sandkeeper.api.structural import structural_schema

__all__ = ["STRINGS", "Place"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A string in a spec, or the keys of a map that are free."""

    resource: Resource
    path: str
    """As in ``.pod.mounts[].path``; an asterisk is a map's value, and a hash its key."""
    schema: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.resource.kind}{self.path}"

    def spec(self, change: Callable[[str], str]) -> Json:
        """Return a spec that is valid but for what ``change`` makes of this string."""
        section, _ = _first(self.path)
        # Other sections of a policy would only take time; but what agents may say depends on what all may.
        kept = {section, "container"} if section == "agents" else {section}
        for known in _specs(self.resource):
            found = copy.deepcopy(
                {key: part for key, part in known.items() if key in kept or self.resource is SANDBOX}
            )
            if _change(found, self.path, change):
                return found
        raise AssertionError(f"no example has {self}")


def _specs(resource: Resource) -> Iterator[Json]:
    """Yield the specs of the examples, the longest first, and each of a policy's agents as a policy."""
    for name in sorted(EXAMPLES, key=lambda name: "maximal" not in name):
        document = example(name)
        if RESOURCES[document["kind"]] is resource:
            yield document["spec"]
            for agent in document["spec"].get("agents", []):
                yield {key: value for key, value in agent.items() if key != "id"}


def _change(part: Any, path: str, change: Callable[[str], str]) -> bool:
    """Change the first string that is found at the path."""
    if path.startswith("[]"):
        return any(_change_at(part, index, path[2:], change) for index in range(len(part)))
    if path.startswith(".*"):
        return any(_change_at(part, key, path[2:], change) for key in list(part))
    if path == "#":
        key = next(iter(part), None)
        if key is not None:
            part[change(key)] = part.pop(key)
        return key is not None
    name, rest = _first(path)
    return name in part and _change_at(part, name, rest, change)


def _change_at(whole: Any, key: Any, path: str, change: Callable[[str], str]) -> bool:
    if path:
        return _change(whole[key], path, change)
    if isinstance(whole[key], str):
        whole[key] = change(whole[key])
        return True
    return False


def _first(path: str) -> tuple[str, str]:
    end = min((at for mark in ".[#" if (at := path.find(mark, 1)) > 0), default=len(path))
    return path[1:end], path[end:]


def _strings(resource: Resource) -> Iterator[Place]:
    # What a policy says for one agent is of the same types as what it says for all.
    for path, schema in fields(structural_schema(resource.spec, defaults=False)):
        if path.startswith(".agents[]") and path != ".agents[].id":
            continue
        if schema.get("type") == "string" and "enum" not in schema:
            yield Place(resource, path, schema)
        if "additionalProperties" in schema:
            yield Place(resource, f"{path}#", {})


STRINGS: Final = tuple(_strings(SANDBOX)) + tuple(_strings(POLICY))
