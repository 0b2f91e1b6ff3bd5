"""Runtimes as Pods.

A Pod is ours by its labels and annotations, which have to agree, and by its owners, of which one has to be a Sandbox
that lives; before anything is done to one, both are looked at. When the last of its Sandboxes is gone it is the garbage
collector's; :mod:`orphans` sees to what it leaves.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.api.names import Label
from sandkeeper.api.policy import Backend
from sandkeeper.cluster.api import ApiError, Conflict, KubeApi, NotFound, Object
from sandkeeper.cluster.caches import Cache
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.resources import NETWORK_POLICIES, PODS, VOLUME_CLAIMS, Resource
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import Ceilings, PodSettings
from sandkeeper.config.pod import ClaimTemplate
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.lifecycle.model import Observed, RuntimeState, Unreachable
from sandkeeper.runtimes.pod import failures
from sandkeeper.runtimes.pod.claims import owner_references
from sandkeeper.runtimes.pod.desired import pod_body
from sandkeeper.runtimes.pod.hindrances import Hindrances
from sandkeeper.runtimes.pod.networks import Networks
from sandkeeper.runtimes.pod.nodes import Nodes
from sandkeeper.runtimes.pod.orphans import Orphans
from sandkeeper.runtimes.pod.pods import Pods
from sandkeeper.runtimes.pod.setup import run_setup
from sandkeeper.runtimes.pod.swapping import refuse_swappable
from sandkeeper.runtimes.pod.view import PodView
from sandkeeper.runtimes.pod.volumes import Volumes
from sandkeeper.runtimes.protocol import Notice, OnChange, Order, Owner

__all__ = ["IsLive", "PodRuntimes"]

IsLive = Callable[[str, Owner], bool]
"""Whether the Sandbox with this name and UID is there in the namespace."""

_SWEEP_SECONDS: Final = 30.0

_ORPHANED: Final = "The Sandboxes that it belonged to are gone; the garbage collector removes it."


class PodRuntimes:
    """The runtimes of one installation in the cluster that its Sandboxes are in."""

    backend = Backend.POD

    def __init__(
        self,
        settings: PodSettings,
        ceilings: Ceilings,
        installation: str,
        *,
        api: KubeApi,
        connection: Connection,
        is_live: IsLive,
        removals_forbidden: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.may_act: Callable[[str], None] = _always
        """See the protocol."""
        self._ceilings = ceilings
        self._installation = installation
        self._api = api
        self._connection = connection
        self._is_live = is_live
        self._removals_forbidden = removals_forbidden
        self._on_change: OnChange = _nobody
        self._pods = Pods(installation=installation, on_change=self._pod_changed)
        self._networks = Networks(
            api,
            pods=self._pods,
            installation=installation,
            may_act=self._may_act_now,
            on_change=self._network_changed,
        )
        self._orphans = Orphans(api, pods=self._pods, may_act=self._may_act_now, clock=clock)
        self._volumes = Volumes(api, installation=installation, may_act=self._may_act_now)
        self._nodes = Nodes(api)
        self._hindrances = Hindrances(api)
        self._setups = asyncio.Semaphore(settings.setup_workers)
        self._unbegun: set[str] = set()
        """UIDs of Pods that were made here, or taken before they ever ran, and in which no setupCommand began since."""

    @property
    def watched(self) -> tuple[tuple[Resource, Cache[Any]], ...]:
        """What has to be watched for this backend, by :attr:`selector`."""
        return (
            (NETWORK_POLICIES, self._networks.cache),
            (VOLUME_CLAIMS, self._volumes.cache),
            (PODS, self._pods.cache),
        )

    @property
    def selector(self) -> str:
        """The labels by which everything that is made here is found."""
        return f"{Label.INSTALLATION}={self._installation}"

    # --- what is there ------------------------------------------------------------------------------------------------

    async def run(self, on_change: OnChange) -> None:
        """Tell of changes and sweep until cancelled; what is watched, whoever reads :attr:`watched` brings."""
        self._on_change = on_change
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self._networks.remove_spare()
            if self._removals_forbidden:
                continue
            for pod in await self._orphans.remove_left():
                self._tell_of(pod)

    @property
    def missing(self) -> str | None:
        """Nothing besides what is watched, for which its watcher answers."""
        return None

    @property
    def is_certain(self) -> bool:
        """Nothing is decided before the Pods were listed; and whoever makes one of a name that is taken is told."""
        return True

    def knows(self, key: RuntimeKey) -> bool:
        """Whether a Pod of the key is there."""
        return bool(self._pods.of(key))

    def keys(self) -> frozenset[RuntimeKey]:
        """Every key of this installation that has a Pod."""
        return self._pods.keys()

    async def observe(
        self, key: RuntimeKey, *, node: str | None, name: str | None = None
    ) -> Observed | Unreachable | None:
        """Look at the key's Pod.

        One that is recorded and not in the cache is asked for before it is called missing; and one that is there long
        after it should have gone before it is waited for any longer.
        """
        del node  # a Pod never changes its node
        if name is not None and not self._pods.of(key):
            await self._read(key.namespace, name)
        pod = self._best(key, name)
        if pod is not None and pod.is_stuck(datetime.now(UTC)):
            await self._read(pod.namespace, pod.name)
            pod = self._best(key, name)
        if pod is None:
            return None
        if self._is_owned(pod):
            seen = await self._nodes.judge(pod)
            return await self._hindrances.judge(pod, seen) if isinstance(seen, Observed) else seen
        if pod.owners or pod.deleting_at is not None:
            self._orphans.meet(pod)
            return replace(pod.observed(), state=RuntimeState.TERMINATING, ended=None, message=_ORPHANED)
        message = (
            f"There is a Pod {pod.name} with the labels of this sandbox, and it belongs to no Sandbox. It is left "
            "alone, and nothing is put beside it: remove it."
        )
        return Unreachable(reason=Reason.NAME_CONFLICT, message=message)

    # --- what is done -------------------------------------------------------------------------------------------------

    async def preflight(self, order: Order) -> None:
        """Find out whether :meth:`create` could make the Pod: admission is asked, which keeps nothing."""
        await self._volumes.look(order)
        body = self._body(order)
        try:
            await self._api.create(PODS, body, namespace=order.key.namespace, dry_run=True)
        except Conflict as error:
            if not error.is_name_taken:
                raise
            return  # which is found last of all
        except ApiError as error:
            # A quota counts what is about to go.
            if failures.is_refusal(error) and not failures.is_quota(error):
                raise failures.of_refusal(error, "Pod") from error
            if not failures.is_refusal(error):
                raise

    async def create(self, order: Order) -> Observed:
        """Make the Pod, or take the one that was made for the same order before. It is not waited for."""
        await self._networks.ensure(order.key, order.config)
        await self._volumes.ensure(order)
        body = self._body(order)
        self.may_act(order.key.namespace)
        try:
            pod = self._pods.cache.take_in(await self._api.create(PODS, body, namespace=order.key.namespace))
        except Conflict as error:
            if not error.is_name_taken:
                raise
            return await self._adopt(order, str(body["metadata"]["name"]))
        except ApiError as error:
            if failures.is_refusal(error):
                raise failures.of_refusal(error, "Pod") from error
            raise
        self._unbegun.add(pod.uid)
        return pod.observed()

    def _body(self, order: Order) -> Object:
        body = pod_body(order, installation=self._installation, ceilings=self._ceilings)
        refuse_swappable(order.key, body, self._pods)
        return body

    def began(self, runtime_id: str) -> bool:
        """Whether a setupCommand may have begun in it."""
        return runtime_id not in self._unbegun

    async def start(self, runtime_id: str, *, key: RuntimeKey) -> None:
        """Pods are never started again; nothing that is observed asks for it."""
        raise Transient(Reason.START_FAILED, f"The Pod of {key} cannot be started again ({runtime_id}).")

    async def stop(self, runtime_id: str, *, key: RuntimeKey) -> None:
        """Delete the Pod; what lasts of it is in its volumes."""
        await self.remove(runtime_id, key=key)

    async def setup(self, runtime_id: str, order: Order) -> None:
        """Run the setupCommand."""
        async with self._setups:
            pod = self._proven(runtime_id, order.key)
            if pod is None or runtime_id not in self._unbegun:
                raise Transient(Reason.SETUP_FAILED, "The Pod is gone, or somebody else may have set it up.")
            self.may_act(order.key.namespace)
            self._unbegun.discard(runtime_id)
            await run_setup(self._connection, pod, order.config)

    async def uphold(
        self,
        key: RuntimeKey,
        *,
        runtime_id: str | None,
        owners: Sequence[Owner],
        config: RuntimeConfig | None,
        use: str,
    ) -> Sequence[Notice] | None:
        """Keep owners, claim and network policy as they should be; nothing is asked where they are.

        Skills are not brought up to date: what is mounted is the agent's own directory.
        """
        del use
        await self._volumes.uphold(key, owners, config)
        pod = self._pods.by_uid(runtime_id) if runtime_id is not None else None
        if pod is not None and pod.deleting_at is None and self._is_owned(pod):
            await self._uphold(pod, key, owners=owners, config=config)
        return pod.notices if pod is not None else ()

    async def _uphold(
        self, pod: PodView, key: RuntimeKey, *, owners: Sequence[Owner], config: RuntimeConfig | None
    ) -> None:
        await self._own_by(pod, owners)
        if config is None:
            await self._networks.restore(key, pod.network)
            return
        await self._networks.ensure(key, config)
        if pod.state is RuntimeState.STARTING and isinstance(config.workspace, ClaimTemplate):
            # Until it is scheduled nothing keeps its claim from being deleted.
            order = Order(key=key, config=config, config_hash=pod.config_hash, owners=tuple(owners))
            await self._volumes.ensure(order)

    async def remove(self, runtime_id: str, *, key: RuntimeKey, unused: bool = False) -> None:
        """Delete it; it is on its way then, and observed to be. Whether a command runs in a Pod nobody can tell."""
        del unused
        pod = self._proven(runtime_id, key)
        if pod is None or pod.deleting_at is not None:
            return
        self.may_act(pod.namespace)
        try:
            left = await self._api.delete(PODS, name=pod.name, namespace=pod.namespace, uid=pod.uid)
        except Conflict:
            await self._read(pod.namespace, pod.name)  # another has its name by now
            return
        except ApiError as error:
            if failures.is_refusal(error):
                message = f"The API server refuses to delete the Pod {pod.name}: {error.message}"
                raise Permanent(Reason.TERMINATING, message) from error
            raise
        if left is None:
            self._pods.cache.vanish(pod)
        else:
            self._pods.cache.take_in(left)

    # --- Pods ---------------------------------------------------------------------------------------------------------

    async def _adopt(self, order: Order, name: str) -> Observed:
        """Take the Pod that has our name, if it is what we would have made."""
        pod = await self._read(order.key.namespace, name)
        if pod is None:
            raise Transient(Reason.CREATING, f"The name {name} was taken, and is free again.")
        if pod.key != order.key:
            fix = "rename or remove it, or give the policy another container.containerPrefix"
            raise failures.foreign("Pod", name, fix)
        if not self._is_owned(pod) and not pod.owners:
            raise failures.foreign("Pod", name, "remove it")
        if pod.state not in _ALIVE or pod.config_hash != order.config_hash or not self._is_owned(pod):
            message = f"There is a Pod {name} already ({pod.state}); it is looked at first."
            raise Transient(Reason.CREATING, message)
        if pod.ever_ran:
            self._unbegun.discard(pod.uid)
        else:
            self._unbegun.add(pod.uid)
        return pod.observed()

    async def _own_by(self, pod: PodView, owners: Sequence[Owner]) -> None:
        """Make these its owners, one of them the controller: for what has none, `kubectl drain` stops."""
        wanted = sorted(owners, key=lambda owner: pod.has_controller and owner != pod.owners[0])
        if set(wanted) == set(pod.owners) and pod.has_controller:
            return
        self.may_act(pod.namespace)
        metadata = {
            "uid": pod.uid,
            "resourceVersion": pod.resource_version,
            "ownerReferences": owner_references(wanted),
        }
        try:
            self._pods.cache.take_in(
                await self._api.patch(PODS, {"metadata": metadata}, name=pod.name, namespace=pod.namespace)
            )
        except NotFound:
            # That it is gone is not told to anybody, for it is known here; so whoever looks at it has to look again.
            self._pods.cache.vanish(pod)
            raise
        except Conflict:
            await self._read(pod.namespace, pod.name)
            raise

    def _proven(self, uid: str, key: RuntimeKey) -> PodView | None:
        """Return the Pod with this UID, which is certainly the key's and ours; None: it is gone."""
        pod = self._pods.by_uid(uid)
        if pod is not None and not (pod.key == key and self._is_owned(pod)):
            message = f"The Pod {pod.name} is not proven to be this sandbox's, and is left alone."
            raise Permanent(Reason.NAME_CONFLICT, message)
        return pod

    def _best(self, key: RuntimeKey, recorded: str | None) -> PodView | None:
        return max(self._pods.of(key), key=lambda pod: self._preference(pod, recorded), default=None)

    def _preference(self, pod: PodView, recorded: str | None) -> tuple[bool, bool, bool, bool, str]:
        """Of several Pods of one key go by the real one: nobody makes two, but somebody may copy one."""
        return (
            self._is_owned(pod),
            pod.name == recorded,
            pod.state in _ALIVE,
            pod.deleting_at is None,
            pod.uid,
        )

    def _is_owned(self, pod: PodView) -> bool:
        return any(self._is_live(pod.namespace, owner) for owner in pod.owners)

    async def _read(self, namespace: str, name: str) -> PodView | None:
        """Read one Pod into the cache, if it carries our label."""
        known = self._pods.cache.get((namespace, name))
        try:
            raw = await self._api.get(PODS, name=name, namespace=namespace)
        except NotFound:
            if known is not None:
                self._pods.cache.vanish(known)
            return None
        pod = PodView.parse(raw, installation=self._installation)
        return self._pods.cache.take_in(raw) if pod.key is not None else pod

    # --- changes ------------------------------------------------------------------------------------------------------

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._unbegun.discard(old.uid)
        if self._pods.cache.by_us or (old is not None and new is not None and _says_the_same(old, new)):
            return
        for pod in (old, new):
            if pod is not None:
                self._tell_of(pod)

    def _network_changed(self, namespace: str, network: str) -> None:
        for pod in self._pods.under(namespace, network):
            self._tell_of(pod)

    def _tell_of(self, pod: PodView) -> None:
        if pod.key is not None:
            self._on_change(pod.key)

    def _may_act_now(self, namespace: str) -> None:
        self.may_act(namespace)


_ALIVE: Final = (RuntimeState.STARTING, RuntimeState.RUNNING)


def _says_the_same(old: PodView, new: PodView) -> bool:
    """Whether there is nothing to decide anew; on which node a Pod is to start is told when it runs."""
    node = new.node if new.state is RuntimeState.STARTING else old.node
    return replace(old, resource_version=new.resource_version, node=node) == new


def _always(_namespace: str) -> None:
    """Let everything happen."""


def _nobody(_key: RuntimeKey) -> None:
    """Nobody listens yet."""
