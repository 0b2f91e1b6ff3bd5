"""What a fault is, and how it says that it did not hit."""

import random
from typing import Protocol

from chaos.scene import Scene

__all__ = ["Fault", "MissedError"]


class MissedError(Exception):
    """The strike did nothing, so it does not count: what it was meant for was not there, or did not notice."""


class Fault(Protocol):
    """One kind of fault."""

    @property
    def name(self) -> str:
        """What the figures call it."""

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Let it happen once, for a bounded time, and put things right again.

        A strike proves itself that it hit, by what it sees at the one who was struck; else it raises
        :class:`MissedError`. It may be cancelled, and puts things right then too.
        """
