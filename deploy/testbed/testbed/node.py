"""One real node: a kubelet on a containerd of its own, with a bridge for its Pods.

Everything that Pods make on the machine is below the state folder (images, mounts, network namespaces,
logs) or carries a name of this test bed, so that `stop` finds it.
"""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import files, images, mounts, probes, processes
from testbed.control_plane import NODE_NAME, Component, Keys, admin_tls, component
from testbed.packages import CNI_PLUGINS

if TYPE_CHECKING:
    from testbed.instance import Instance
    from testbed.paths import Layout

_CONTAINERD = """\
version = 2
root = "{root}/root"
state = "{root}/state"
oom_score = 0
# What a node of Kubernetes has no use for, and what needs devices that are not here.
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]

[grpc]
  address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  # Where the kernel does not let us lower a score, as inside a container.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_plugins}"
    conf_dir = "{root}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{root}/runc"
"""

_NODE_SECONDS = 90.0


def containerd(layout: Layout, instance: Instance, *, pause: str) -> Component:
    """Describe the container runtime, and write its settings."""
    root = layout.containerd
    config = root / "config.toml"
    files.ensure(
        config,
        _CONTAINERD.format(root=root, socket=layout.containerd_socket, pause=pause, cni_plugins=CNI_PLUGINS),
    )
    network = {
        "cniVersion": "1.0.0",
        "name": instance.pod_bridge,
        "plugins": [
            {
                "type": "bridge",
                "bridge": instance.pod_bridge,
                "isGateway": True,
                # One rule of ours hides all Pods, see `firewall`: quicker than a chain for each.
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(root / "addresses"),
                    "ranges": [[{"subnet": instance.pod_network, "gateway": instance.pod_gateway}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
        ],
    }
    files.ensure(root / "cni" / "10-bridge.conflist", json.dumps(network))
    return component(
        layout,
        "containerd",
        ("containerd", "--config", str(config), "--log-level", "warn"),
        lambda: probes.unix_connect(layout.containerd_socket),
    )


def kubelet(layout: Layout, instance: Instance, bin_dir: Path, keys: Keys) -> Component:
    """Describe the kubelet, and write its settings."""
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": instance.ports.kubelet,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": instance.ports.kubelet_health,
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "podLogsDir": str(layout.state / "pod-logs"),
        "tlsCertFile": str(keys.kubelet.certificate),
        "tlsPrivateKeyFile": str(keys.kubelet.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys.authority.pair.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        # A machine without systemd, perhaps with version 1 of control groups, perhaps with swap.
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        # The machine's disk is not the test bed's: a full one must not evict or collect anything.
        "evictionHard": {
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # No kube-proxy and no node ports: no rules from the kubelet either.
        "makeIPTablesUtilChains": False,
        "maxPods": 500,
        "podPidsLimit": -1,
        "registryPullQPS": 0,
        # Not 0, which is 5 a second, and minutes late where many Pods have something to say.
        "eventRecordQPS": 500,
        "eventBurst": 1000,
        "serializeImagePulls": False,
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
        "syncFrequency": "10s",
        # Renewed after a quarter of it; see the controller-manager's grace period.
        "nodeLeaseDurationSeconds": 20,
        "volumePluginDir": str(layout.state / "volume-plugins"),
        # There is no DNS in the cluster; Pods get the machine's.
        "clusterDomain": "cluster.local",
    }
    config = layout.state / "kubelet.json"
    files.ensure(config, json.dumps(settings, indent=1))
    return component(
        layout,
        "kubelet",
        (
            f"{bin_dir}/kubelet",
            f"--config={config}",
            f"--kubeconfig={layout.pki}/kubelet.kubeconfig",
            f"--root-dir={layout.state}/kubelet",
            f"--cert-dir={layout.pki}/kubelet",
            f"--hostname-override={NODE_NAME}",
        ),
        lambda: probes.http(f"http://127.0.0.1:{instance.ports.kubelet_health}/healthz"),
    )


def load_pause(layout: Layout, program: Path) -> None:
    """Give the node the image that every Pod starts with, if it has none yet."""
    if not images.node_has(images.pause_name(program), layout):
        images.containerd_import([images.pause_archive(program)], layout)


def check_ready(instance: Instance, keys: Keys) -> str | None:
    """Ask the API server whether the node takes Pods."""
    try:
        node = probes.http_json(f"{instance.server}/api/v1/nodes/{NODE_NAME}", context=admin_tls(keys))
    except OSError as error:
        return f"not registered: {error}"
    for condition in node["status"].get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] != "True":
            return str(condition.get("message") or condition.get("reason"))
    # The kubelet is Ready a little before the controller-manager lets Pods in.
    taints = [taint["key"] for taint in node["spec"].get("taints", [])]
    return f"tainted: {', '.join(taints)}" if taints else None


def wait_ready(instance: Instance, keys: Keys) -> None:
    """Wait until Pods may come."""
    probes.wait("the node", lambda: check_ready(instance, keys), seconds=_NODE_SECONDS)


def remove_pods(layout: Layout) -> None:
    """Remove the Pods' containers; the kubelet must not run any more, else it would make them again.

    Removing them properly also removes their control groups and their shims' sockets.
    """
    if probes.unix_connect(layout.containerd_socket) is not None:
        return
    with suppress(RuntimeError):
        for kind, force in (("tasks", ["--force"]), ("containers", [])):
            if found := _ctr(layout, kind, "list", "-q").split():
                _ctr(layout, kind, "remove", *force, *found)


def sweep(layout: Layout) -> None:
    """Remove what is left of Pods when neither the kubelet nor the container runtime is there."""
    # A shim has the socket's path in its arguments, and the containers are its children.
    processes.stop(
        processes.with_descendants(processes.mentioning(f"-address\0{layout.containerd_socket}")),
        first=signal.SIGKILL,
    )
    mounts.unmount_below(layout.containerd)
    mounts.unmount_below(layout.state / "kubelet")
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(layout.state):
            link.unlink()
    # The library that calls the network plugins notes its calls in a place of its own.
    for note in Path("/var/lib/cni/results").glob("*"):
        with suppress(FileNotFoundError):  # another node's goes whenever it likes
            if str(layout.state) in note.read_text(encoding="utf-8", errors="replace"):
                note.unlink()


def _ctr(layout: Layout, *arguments: str) -> str:
    done = subprocess.run(
        ["ctr", "--address", str(layout.containerd_socket), "-n", "k8s.io", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        raise RuntimeError(f"ctr {arguments[0]}: {done.stderr.strip()}")
    return done.stdout
