"""Members as they are, on an API server that is a dictionary, in a world where time and messages do as a test likes.

What decides is the real code. It is run by hand, from one request to the next: a request arrives when the test says so,
or later, or never; its answer comes, or is lost; and in between any time may pass, for everybody at once. Who is not
run is frozen.
"""

import copy
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandkeeper.cluster.api import ApiError, Conflict, NotFound, Object
from sandkeeper.cluster.leadership import Leadership
from sandkeeper.cluster.sharding import Sharding
from sandkeeper.cluster.slots import EVERY_SLOT, SLOTS, slot_of

__all__ = ["NAMESPACES", "Member", "Store", "World"]


def _one_for_each_slot() -> dict[int, str]:
    found: dict[int, str] = {}
    number = 0
    while len(found) < SLOTS:
        found.setdefault(slot_of(f"team-{number}"), f"team-{number}")
        number += 1
    return found


LABELS = {"installation": "test"}
NAMESPACES = _one_for_each_slot()
"""A namespace of each slot."""


class Store:
    """An API server, as far as Leases go."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.version = 0

    def get(self, name: str) -> Object:
        if name not in self.objects:
            raise NotFound(404, name)
        return copy.deepcopy(self.objects[name])

    def list(self, labels: Mapping[str, str]) -> list[Object]:
        found = (one for one in self.objects.values() if one["metadata"].get("labels") == labels)
        return copy.deepcopy(list(found))

    def create(self, body: Object) -> Object:
        name = body["metadata"]["name"]
        if name in self.objects:
            raise Conflict(409, name, reason="AlreadyExists")
        return self._put(name, body, uid=f"uid-{self.version}")

    def replace(self, name: str, body: Object) -> Object:
        known = self.get(name)["metadata"]
        if known["resourceVersion"] != body["metadata"].get("resourceVersion"):
            raise Conflict(409, name)
        return self._put(name, body, uid=known["uid"])

    def delete(self, name: str, uid: str, version: str | None) -> None:
        known = self.objects.get(name, {}).get("metadata")
        if known is None:
            return
        if known["uid"] != uid or version not in {None, known["resourceVersion"]}:
            raise Conflict(409, name)
        del self.objects[name]

    def _put(self, name: str, body: Object, *, uid: str) -> Object:
        if self.objects.get(name) == body:
            return copy.deepcopy(body)  # a change that changes nothing makes no version
        self.version += 1
        kept = copy.deepcopy(body)
        kept["metadata"] |= {"resourceVersion": str(self.version), "uid": uid}
        self.objects[name] = kept
        return copy.deepcopy(kept)


class Call:
    """A request on its way; whoever made it goes on when it is answered."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self.arrived = False
        self.result: Any = None
        self.error: Exception | None = None

    def __await__(self) -> Generator["Call", None, Any]:
        yield self
        if self.error is not None:
            raise self.error
        return self.result

    def arrive(self) -> None:
        if self.arrived:
            return
        self.arrived = True
        try:
            self.result = self._act()
        except ApiError as error:
            self.error = error


class Api:
    """The client of one member."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, _resource: object, *, name: str, namespace: str) -> Object:
        del namespace
        found: Object = await Call(lambda: self._store.get(name))
        return found

    async def pages(
        self, _resource: object, *, namespace: str, params: Mapping[str, str]
    ) -> AsyncIterator[tuple[list[Object], str]]:
        del namespace
        labels = dict([params["labelSelector"].split("=")])
        yield await Call(lambda: self._store.list(labels)), ""

    async def create(self, _resource: object, body: Object, *, namespace: str) -> Object:
        del namespace
        sent = copy.deepcopy(body)
        made: Object = await Call(lambda: self._store.create(sent))
        return made

    async def replace(self, _resource: object, body: Object, *, name: str, namespace: str) -> Object:
        del namespace
        sent = copy.deepcopy(body)
        made: Object = await Call(lambda: self._store.replace(name, sent))
        return made

    async def delete(
        self, _resource: object, *, name: str, namespace: str, uid: str, resource_version: str | None = None
    ) -> None:
        del namespace
        await Call(lambda: self._store.delete(name, uid, resource_version))


@dataclass
class Work:
    """What a member has in hand."""

    short: set[str] = field(default_factory=set)
    long: set[str] = field(default_factory=set)

    def passing(self) -> set[str]:
        return self.short

    def lasting(self) -> set[str]:
        return self.long


class Member:
    """One process. ``alone``: it would lead everything."""

    def __init__(self, world: "World", number: int, *, clock_offset: float, alone: bool) -> None:
        self.work = Work()
        self.leaving = False
        self.over = False
        self.alone = alone
        api: Any = Api(world.store)
        common: Any = {
            "namespace": "operators",
            "release": "test",
            "identity": f"member-{number}",
            "clock": lambda: world.now + clock_offset,
        }
        self.leadership = Leadership(api, **common)
        self.sharding = Sharding(api, labels=LABELS, hands=self.work, **common)
        self.lead = self.leadership if alone else self.sharding
        self._world = world
        self._doing: Coroutine[Call, None, Any] | None = None
        self.call: Call | None = None

    @property
    def idle(self) -> bool:
        return self._doing is None and not self.over

    @property
    def believes(self) -> frozenset[int]:
        """The slots in which an effect would not be refused at this moment."""
        # Of no others is it possible, and to ask takes time.
        known = EVERY_SLOT if self.alone else self.sharding._terms
        return frozenset(slot for slot in known if not self.over and self.may_act(NAMESPACES[slot]))

    def may_act(self, namespace: str) -> bool:
        try:
            self.lead.check(namespace)
        except Exception:  # noqa: BLE001 - whatever it is, it is a no
            return False
        return True

    def begin(self) -> None:
        """Begin what it does every two seconds; or to leave, if that is what it was told."""
        if self.leaving:
            self._doing = self.leadership._lease.give_back() if self.alone else self.sharding.leave()
        else:
            self._doing = self.lead.attempt()
        self._go_on(None)

    def answer(self) -> None:
        """Let its request be answered, if it has arrived by now; else it arrives and is answered."""
        assert self.call is not None
        self.call.arrive()
        self._go_on(None)

    def lose(self) -> None:
        """Let it wait in vain. Its request may arrive later all the same."""
        assert self.call is not None
        self._world.stray(self.call)
        self._go_on(ApiError(0, "lost"))

    def crash(self) -> None:
        """End without a word."""
        if self.call is not None:
            self._world.stray(self.call)
        if self._doing is not None:
            self._doing.close()
        self._doing = self.call = None
        self.over = True

    def _go_on(self, error: Exception | None) -> None:
        assert self._doing is not None
        try:
            self.call = self._doing.send(None) if error is None else self._doing.throw(error)
        except StopIteration:
            self.over = self.leaving
        except ApiError:
            pass
        else:
            return
        self._doing = self.call = None

    def go(self, steps: int) -> None:
        """Go on with what it does, or begin, and have so many requests answered; not more than there are."""
        if self.idle:
            self.begin()
        while self.call is not None and steps > 0:
            self.answer()
            steps -= 1

    def finish(self) -> None:
        """Do all of it at once."""
        self.go(1000)


class World:
    """All members, and what is on its way."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = Store()
        self.members: list[Member] = []
        self.strays: list[Call] = []

    @property
    def running(self) -> list[Member]:
        return [member for member in self.members if not member.over]

    def add(self, *, clock_offset: float = 0, alone: bool = False) -> Member:
        member = Member(self, len(self.members), clock_offset=clock_offset, alone=alone)
        self.members.append(member)
        return member

    def stray(self, call: Call) -> None:
        if not call.arrived:
            self.strays.append(call)

    def go_on(self, seconds: float, *, besides: Member | None = None) -> None:
        """Let everybody, or all but one, do what they do every two seconds, for so long."""
        for _ in range(round(seconds / 2)):
            self.now += 2
            for member in self.running:
                if member is not besides:
                    member.finish()
