"""The local cluster: which parts it has, in which order they start side by side, and how they go.

The API server comes first, because most tests need nothing else. The engine with its base image and
the node's container runtime start next to it; the kubelet waits for both sides. A cluster may also be
without a node: then it is a control plane and nothing else, and leaves the machine's network alone.
"""

from __future__ import annotations

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testbed import (
    binaries,
    control_plane,
    etcd,
    files,
    firewall,
    host,
    images,
    network,
    node,
    packages,
    progress,
)
from testbed import (
    instance as instances,
)
from testbed.control_plane import Component, Keys
from testbed.engine import Engine, EngineOptions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future
    from pathlib import Path

    from testbed.instance import Instance
    from testbed.paths import Layout


@dataclass(frozen=True)
class ControlPlane:
    """The processes that keep the records and act on them."""

    etcd: Component
    api_server: Component
    controller_manager: Component
    scheduler: Component

    def all(self) -> tuple[Component, ...]:
        """List them in the order of starting."""
        return (self.etcd, self.api_server, self.controller_manager, self.scheduler)


@dataclass(frozen=True)
class Node:
    """The processes of the one node."""

    containerd: Component
    kubelet: Component

    def all(self) -> tuple[Component, ...]:
        """List them in the order of starting."""
        return (self.containerd, self.kubelet)


def engine(layout: Layout, instance: Instance) -> Engine:
    """Describe the test bed's own engine."""
    options = EngineOptions(
        bridge=instance.docker_bridge,
        filters=engine_filters(layout),
        address_pool=instance.docker_pool,
        control_group=instance.cgroup,
    )
    return Engine(layout.engine, options)


def engine_filters(layout: Layout) -> bool:
    """Tell whether our engine writes packet filter rules; decided once, by `prepare_network`.

    Every engine that starts removes the chains of that name and makes its own. So where an engine is at
    work already, ours keeps off, and rules of ours do for it.
    """
    return (layout.state / "engine-filters").exists()


def prepare_network(layout: Layout, instance: Instance) -> None:
    """Note how the packet filter was, and put our bridges and rules in place."""
    before = layout.state / "iptables-before"
    if not before.exists():
        listing = firewall.save()
        if "DOCKER" not in firewall.parse(listing).get("filter", firewall.Table()).policies:
            (layout.state / "engine-filters").touch()
        files.ensure(before, listing)
    network.ensure_pod_bridge(instance)
    network.ensure_bridge(instance.docker_bridge, instance.docker_gateway)
    firewall.ensure_own_rules(instance, engine_filters=engine_filters(layout))


def _ensure_keys(layout: Layout, instance: Instance) -> Keys:
    keys = Keys.ensure(layout, instance)
    keys.write_kubeconfigs(layout, instance)
    return keys


def _control_plane(layout: Layout, instance: Instance, bin_dir: Path, keys: Keys) -> ControlPlane:
    """Describe these processes, and write what they read."""
    return ControlPlane(
        etcd=control_plane.etcd(layout, instance, bin_dir),
        api_server=control_plane.api_server(layout, instance, bin_dir, keys),
        controller_manager=control_plane.controller_manager(layout, instance, bin_dir, keys),
        scheduler=control_plane.scheduler(layout, instance, bin_dir),
    )


def _node(layout: Layout, instance: Instance, bin_dir: Path, keys: Keys) -> Node:
    """Describe these processes, and write what they read."""
    return Node(
        containerd=node.containerd(layout, instance, pause=images.pause_name(bin_dir / "pause")),
        kubelet=node.kubelet(layout, instance, bin_dir, keys),
    )


def ensure_host(layout: Layout) -> Instance:
    """Make the machine ready for any process of ours; cheap when it is."""
    packages.ensure()
    host.note()
    instance = instances.ensure(layout)
    prepare_network(layout, instance)
    return instance


def ensure_engine(layout: Layout, instance: Instance) -> Engine:
    """Start our own engine."""
    own = engine(layout, instance)
    if own.check() is not None:
        with progress.step("Starting a Docker engine", aloud=False):
            own.start()
            own.wait_ready()
    return own


def up(layout: Layout, instance: Instance, *, engine_url: str, base: Future[bool]) -> None:
    """Start every part of the cluster that is not well.

    Once the engine has the base image, the node gets it too, so that Pods have one to start.
    """
    bin_dir = binaries.ensure(layout)
    keys = _ensure_keys(layout, instance)
    plane = _control_plane(layout, instance, bin_dir, keys)
    described = _node(layout, instance, bin_dir, keys)
    with ThreadPoolExecutor(max_workers=4) as pool:
        runtime = pool.submit(_start_runtime, described, layout, bin_dir)
        loaded = pool.submit(_ensure_base_on_node, engine_url, layout, after=(runtime, base))
        others = _start_control_plane(plane, pool)
        runtime.result()
        _start(described.kubelet)
        for started in (*others, loaded):
            started.result()
    if node.check_ready(instance, keys) is not None:
        with progress.step("Waiting for the node", aloud=False):
            node.wait_ready(instance, keys)


def up_without_node(layout: Layout) -> None:
    """Start every part of a control plane that is not well, and nothing else."""
    bin_dir = binaries.ensure(layout)
    instance = instances.ensure(layout)
    plane = _control_plane(layout, instance, bin_dir, _ensure_keys(layout, instance))
    with ThreadPoolExecutor(max_workers=2) as pool:
        for started in _start_control_plane(plane, pool):
            started.result()


def _start_control_plane(plane: ControlPlane, pool: ThreadPoolExecutor) -> list[Future[None]]:
    """Start it; when this returns, the API server is ready and the others are on their way."""
    _start(plane.etcd)
    _start(plane.api_server)
    return [pool.submit(_start, each) for each in (plane.controller_manager, plane.scheduler)]


def stop_api_server(layout: Layout, *, crash: bool) -> None:
    """Stop the API server and nothing else, in order or as if it crashed."""
    # In an orderly end it waits for its watchers, who do not go.
    first = signal.SIGKILL if crash else signal.SIGTERM
    control_plane.stop(layout, "kube-apiserver", grace=1.0, first=first)


def start_api_server(layout: Layout, instance: Instance, bin_dir: Path) -> None:
    """Start the API server where it was, and wait until it is ready."""
    _start(_control_plane(layout, instance, bin_dir, _ensure_keys(layout, instance)).api_server)


def compact_etcd(instance: Instance) -> int:
    """Let etcd forget all revisions before the present one, which is returned."""
    return etcd.compact(control_plane.etcd_url(instance))


def _ensure_base_on_node(engine_url: str, layout: Layout, *, after: Iterable[Future[Any]]) -> None:
    for step in after:
        step.result()
    if not images.node_has(f"docker.io/library/{images.BASE}", layout):
        with progress.step(f"Loading {images.BASE} into the node", aloud=False):
            images.load_into_node(engine_url, images.BASE, layout)


def _start(component: Component) -> None:
    if component.check() is not None:
        with progress.step(f"Starting {component.name}", aloud=False):
            component.ensure()


def _start_runtime(described: Node, layout: Layout, bin_dir: Path) -> None:
    _start(described.containerd)
    node.load_pause(layout, bin_dir / "pause")


def checks(
    layout: Layout, instance: Instance, bin_dir: Path, *, with_node: bool = True
) -> Iterable[tuple[str, int | None, str | None]]:
    """Name every part with its pid and what is wrong with it, without starting anything."""
    keys = _ensure_keys(layout, instance)
    components = _control_plane(layout, instance, bin_dir, keys).all()
    if with_node:
        components += _node(layout, instance, bin_dir, keys).all()
    for component in components:
        yield component.name, component.pid, component.check()
    if with_node:
        yield "node", None, node.check_ready(instance, keys)


def down(layout: Layout, instance: Instance, *, engine_answers_elsewhere: bool) -> None:
    """Take everything away that `up` and its users made on this machine."""
    own = engine(layout, instance)
    with ThreadPoolExecutor(max_workers=1) as pool:
        stopping = pool.submit(own.stop)
        # The scheduler, then whoever makes Pods, then the Pods, and at last what keeps the records.
        control_plane.stop(layout, "kube-scheduler", grace=0.5)
        control_plane.stop(layout, "kube-controller-manager", grace=0.5)
        control_plane.stop(layout, "kubelet", grace=2.0)
        node.remove_pods(layout)
        control_plane.stop(layout, "containerd", grace=5.0)
        node.sweep(layout)
        control_plane.stop(layout, "kube-apiserver", grace=0.5)
        control_plane.stop(layout, "etcd", grace=0.5)
        stopping.result()
    bridges = network.bridges(instance)
    before = layout.state / "iptables-before"
    if before.exists():
        is_ours = firewall.of_instance(
            instance,
            bridges=[*bridges, instance.docker_bridge, instance.pod_bridge],
            engine=engine_filters(layout) and not engine_answers_elsewhere,
        )
        firewall.restore(
            firewall.removal(firewall.save(), before=before.read_text(encoding="utf-8"), is_ours=is_ours)
        )
    network.remove(bridges)
    host.remove_control_groups(instance.cgroup)
    shutil.rmtree(layout.state)
    instances.release(layout)
    host.restore()
