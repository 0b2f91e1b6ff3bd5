"""The world that the household lives in: what its sandboxes are, and how one looks at them from outside.

The chapters tell one story. What has to be told in another way for Pods than for containers, the world knows.
"""

from typing import Protocol

from demo.stage import Stage
from testbed.bed import Bed


class World(Protocol):
    """One backend, as somebody sees it who has root where the sandboxes run."""

    stage: Stage
    noun: str
    """What a sandbox is called here."""

    def equip(self, bed: Bed) -> None:
        """Put there what the sandboxes need, besides everybody's directory."""

    def runtimes(self, agent: str | None = None) -> list[str]:
        """List the ids of the household's sandboxes, running or not; of one agent, or of all."""

    def is_gone(self, agent: str) -> bool:
        """Whether nothing is left of what ran for an agent whose Sandboxes were deleted."""

    def kill(self, runtime: str) -> None:
        """Kill what runs there, behind the operator's back."""

    def isolate(self) -> None:
        """Show what Rain's sandbox can reach."""

    def hints(self) -> list[str]:
        """Say what else is there to be looked at."""
