"""What happens to Sandboxes while the storm lasts: their users make, use, stop, change and delete them."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from bench.kube import policies, sandboxes
from chaos.client import Json
from chaos.model import Policy, Wish
from chaos.pods import MARK
from chaos.scene import Place, now
from sandkeeper.api.names import API_VERSION, Annotation

__all__ = ["Users"]

_HOT: Final = timedelta(seconds=4)
_IDLE: Final = timedelta(seconds=15)
_HOLD: Final = timedelta(seconds=8)
_POLICIES: Final = {"steady": None, "brief": _IDLE}
"""By name: after what time its runtimes are pruned."""
_SHARED: Final = 0.2
"""How many of the Sandboxes share the runtime of another."""
_AGAIN: Final = 0.4
"""How many of those that are deleted are made again."""
_IN_USE: Final = 0.5
_USED_BEFORE: Final = 3
"""How many are used right before their policy changes."""
_PAUSES: Final = (0.02, 0.25)


class Users:
    """Keeps about ``most`` Sandboxes busy, with ``pauses`` of so many seconds at least and at most between two acts.

    What the API server acknowledged goes into the model.
    """

    def __init__(
        self,
        scene: Place,
        chance: random.Random,
        *,
        most: int,
        pauses: tuple[float, float] = _PAUSES,
    ) -> None:
        self.actions: Counter[str] = Counter()
        self.made = 0
        self._scene = scene
        self._chance = chance
        self._most = most
        self._pauses = pauses
        self._mark = 0
        self._weighted: dict[Callable[[], Awaitable[bool]], int] = {
            self._create: 5,
            self._touch: 8,
            self._stop: 2,
            self._resume: 3,
            self._hold: 2,
            self._recreate: 2,
            self._delete: 3,
            self._edit: 1,
        }

    async def begin(self) -> None:
        """Make the policies, and the first Sandboxes."""
        for name, idle in _POLICIES.items():
            self._scene.model.policies[name] = Policy(mark="0", hot=_HOT, idle=idle)
            body = {"apiVersion": API_VERSION, "kind": "AgentSandboxPolicy", "metadata": {"name": name}}
            path = policies(self._scene.namespace)
            await self._scene.client.insist("POST", path, {**body, "spec": self._spec(name)})
        while len(self._scene.model.wishes) < self._most:
            await self._create()

    async def run(self, over: asyncio.Event) -> None:
        """Do this and that until it is over. What was begun is finished, so that the model knows what came of it."""
        actions, weights = list(self._weighted), list(self._weighted.values())
        while not over.is_set():
            (action,) = self._chance.choices(actions, weights)
            if await action():
                self.actions[action.__name__.lstrip("_")] += 1
            await asyncio.sleep(self._chance.uniform(*self._pauses))

    # Each returns whether there was anything to do.

    async def _create(self) -> bool:
        model = self._scene.model
        if len(model.wishes) >= self._most * 1.2:
            return False
        name, policy = f"s{self.made}", self._chance.choice(list(_POLICIES))
        agent = name
        if model.wishes and self._chance.random() < _SHARED:
            other = self._chance.choice(list(model.wishes.values()))
            agent, policy = other.agent, other.policy
        self.made += 1
        await self._make(name, agent, policy)
        return True

    async def _make(self, name: str, agent: str, policy: str) -> None:
        body = {
            "apiVersion": API_VERSION,
            "kind": "Sandbox",
            "metadata": {"name": name},
            "spec": {"agentId": agent, "policyRef": {"name": policy}},
        }
        made = await self._scene.client.insist("POST", sandboxes(self._scene.namespace), body)
        assert made is not None
        created = datetime.fromisoformat(made["metadata"]["creationTimestamp"])
        self._scene.model.wishes[name] = Wish(
            name=name, uid=made["metadata"]["uid"], agent=agent, policy=policy, used_at=created
        )

    async def _touch(self) -> bool:
        wish = self._any()
        if wish is not None:
            await self._use(wish)
        return wish is not None

    async def _use(self, wish: Wish) -> None:
        used = now().replace(microsecond=0)
        answer = await self._annotate(wish, Annotation.LAST_USED, _text(used))
        wish.used_at = max(wish.used_at, used)
        self._scene.history.promise(answer, made=now(), until=used + _HOT)

    async def _hold(self) -> bool:
        wish = self._any()
        if wish is None:
            return False
        until = now().replace(microsecond=0) + _HOLD
        answer = await self._annotate(wish, Annotation.HOLD_UNTIL, _text(until))
        wish.held_until = until
        self._scene.history.promise(answer, made=now(), until=until)
        return True

    async def _recreate(self) -> bool:
        """Ask for a new runtime, now and then of one that is in use: it has to wait."""
        wish = self._any()
        if wish is None:
            return False
        if self._chance.random() < _IN_USE:
            await self._use(wish)
        self._mark += 1
        await self._annotate(wish, Annotation.RECREATE, str(self._mark))
        wish.recreate = str(self._mark)
        return True

    async def _stop(self) -> bool:
        wish = self._any(stopped=False)
        if wish is None:
            return False
        self._scene.history.withdraw(wish.uid, now())
        await self._patch(wish, {"spec": {"state": "Stopped"}})
        wish.stopped = True
        return True

    async def _resume(self) -> bool:
        wish = self._any(stopped=True)
        if wish is None:
            return False
        await self._patch(wish, {"spec": {"state": "Running"}})
        wish.stopped = False
        # Coming back is a use as well, at the moment at which the operator sees it; so it is used now.
        await self._use(wish)
        return True

    async def _delete(self) -> bool:
        """Delete one, and now and then make it again at once: same name, same key, another object."""
        wish = self._any()
        if wish is None or len(self._scene.model.wishes) < self._most * 0.8:
            return False
        self._scene.history.withdraw(wish.uid, now())
        del self._scene.model.wishes[wish.name]
        path = sandboxes(self._scene.namespace, wish.name)
        await self._scene.client.insist("DELETE", path, {"preconditions": {"uid": wish.uid}})
        if self._chance.random() < _AGAIN:
            while await self._scene.client.insist("GET", path) is not None:  # noqa: ASYNC110 - it is another's event
                await asyncio.sleep(0.1)
            await self._make(wish.name, wish.agent, wish.policy)
        return True

    async def _edit(self) -> bool:
        """Change a policy: all that runs under it has to be made anew, and what is in use only later."""
        self._mark += 1
        name, policy = self._chance.choice(list(self._scene.model.policies.items()))
        under = [wish for wish in self._scene.model.wishes.values() if wish.policy == name]
        for wish in self._chance.sample(under, min(len(under), _USED_BEFORE)):
            await self._use(wish)
        policy.mark = str(self._mark)
        await self._scene.client.insist(
            "PATCH", policies(self._scene.namespace, name), {"spec": self._spec(name)}
        )
        return True

    def _any(self, *, stopped: bool | None = None) -> Wish | None:
        found = [one for one in self._scene.model.wishes.values() if stopped in {None, one.stopped}]
        return self._chance.choice(found) if found else None

    async def _annotate(self, wish: Wish, annotation: Annotation, value: str) -> Json:
        return await self._patch(wish, {"metadata": {"annotations": {annotation.value: value}}})

    async def _patch(self, wish: Wish, body: Json) -> Json:
        answer = await self._scene.client.insist("PATCH", sandboxes(self._scene.namespace, wish.name), body)
        if answer is None:
            raise LookupError(f"{wish.name} is not there, and nobody deleted it")
        return answer

    def _spec(self, name: str) -> Json:
        policy, side = self._scene.model.policies[name], self._scene.side.policy
        idle = 0 if policy.idle is None else int(policy.idle.total_seconds())
        return {
            **side,
            "container": {**side.get("container", {}), "env": {MARK: policy.mark}},
            "hotWindowSeconds": int(policy.hot.total_seconds()),
            "prune": {"idleSeconds": idle, "maxAgeSeconds": 0},
        }


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
