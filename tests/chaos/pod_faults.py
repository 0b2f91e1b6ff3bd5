"""What may happen to a Pod behind the operator's back."""

import random
from dataclasses import dataclass

from bench.kube import pods
from chaos.faults import MissedError
from chaos.scene import Scene, now

__all__ = ["Removed"]


@dataclass(frozen=True)
class Removed:
    """Somebody takes a Pod away, without a word and at once."""

    name: str = "Pod removed"

    async def strike(self, scene: Scene, chance: random.Random) -> None:
        """Delete one that runs."""
        found = [one for one in await scene.side.runtimes() if one.running and not one.ending]
        if not found:
            raise MissedError("there is none")
        victim = chance.choice(found)
        scene.history.excuse(victim.id, now())
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": victim.id}}
        if await scene.client.insist("DELETE", pods(scene.namespace, victim.name), body) is None:
            raise MissedError("it went by itself")
