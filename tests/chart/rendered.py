"""What the chart makes of values, by kind and name."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from support.helm import Helm

__all__ = ["VALUES", "Rendered", "render"]

VALUES = Path(__file__).parent / "values"

Object = dict[str, Any]


class Rendered:
    """The objects of one rendering."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.objects = list(objects)

    def all(self, *kinds: str) -> list[Object]:
        """All of some kinds."""
        return [one for one in self.objects if one["kind"] in kinds]

    def one(self, kind: str, name: str | None = None) -> Object:
        """The only one of a kind, or of a kind and a name."""
        (found,) = (one for one in self.all(kind) if name in {None, one["metadata"]["name"]})
        return found

    def names(self, kind: str) -> set[str]:
        """The names of a kind's."""
        return {one["metadata"]["name"] for one in self.all(kind)}

    @property
    def pod(self) -> Object:
        """What the operator's Pods are made from."""
        found: Object = self.one("Deployment")["spec"]["template"]
        return found

    @property
    def container(self) -> Object:
        """The operator's container."""
        (found,) = self.pod["spec"]["containers"]
        return dict(found)

    def rules(self) -> Iterator[tuple[Object, Object]]:
        """Every rule, with the role that it is in."""
        for role in self.all("Role", "ClusterRole"):
            for rule in role["rules"]:
                yield role, rule


def render(helm: Helm, values: str | None = None, /, *arguments: str, **set_values: Any) -> Rendered:
    """Render the chart with one of our files of values, and with single ones."""
    files = [] if values is None else ["--values", str(VALUES / f"{values}.yaml")]
    return Rendered(helm.template(*files, *arguments, **set_values))
