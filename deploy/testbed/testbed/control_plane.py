"""etcd, the API server and what makes a cluster of it: controller-manager and scheduler.

All on loopback, on the ports of the instance. The data of tests need not survive a power cut, so etcd
does not wait for the disk.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed import files, probes, processes
from testbed.certificates import Authority, Identity, kubeconfig, service_account_keys

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    from testbed.certificates import Pair
    from testbed.instance import Instance
    from testbed.paths import Layout

NODE_NAME = "127.0.0.1"
"""The kubelet takes its address from it; so exec and logs work over loopback."""

_READY_SECONDS = 90.0

_LESS_COLLECTION = {"GOGC": "400", "GOMEMLIMIT": "4GiB"}
"""There is memory to spare, and a fifth of the processors' time went into collecting garbage. Ten thousand Pods would
make the API server's heap 8 GiB then; beyond the limit it collects more often again."""


AUDITED_NAMESPACE = "sandkeeper-audited"
"""What service accounts of this namespace ask for is written down, and what nobody else asks for."""

_AUDIT_POLICY = json.dumps(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{AUDITED_NAMESPACE}"]},
            {"level": "None"},
        ],
    }
)


@dataclass(frozen=True)
class Component:
    """One process, how to start it, and how to ask whether it is well."""

    name: str
    argv: tuple[str, ...]
    log: Path
    record: Path
    probe: Callable[[], str | None]

    @property
    def pid(self) -> int | None:
        """Its pid, while it runs."""
        found = processes.load(self.record)
        return found.pid if found is not None and found.alive else None

    def check(self) -> str | None:
        """Say what is wrong with it, if anything is."""
        return f"does not run, see {self.log}" if self.pid is None else self.probe()

    def ensure(self) -> None:
        """Start it if it does not run, and wait until it is well."""
        if self.pid is None:
            started = processes.start(self.argv, log=self.log, env=os.environ | _LESS_COLLECTION)
            processes.save(started, self.record)

        def check() -> str | None:
            if self.pid is None:
                tail = self.log.read_text(errors="replace")[-2000:]
                raise probes.NotReadyError(f"{self.name} ended:\n{tail}")
            return self.probe()

        probes.wait(self.name, check, seconds=_READY_SECONDS)


@dataclass(frozen=True)
class Keys:
    """Everything that the components prove themselves with."""

    authority: Authority
    admin: Pair
    server: Pair
    api_to_kubelet: Pair
    controller_manager: Pair
    scheduler: Pair
    kubelet: Pair
    service_accounts: Pair

    @classmethod
    def ensure(cls, layout: Layout, instance: Instance) -> Keys:
        """Make the keys that are not there yet."""
        authority = Authority(layout.pki)
        hosts = (
            "127.0.0.1",
            "localhost",
            instance.api_service,
            instance.pod_gateway,
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        )
        masters = ("system:masters",)
        return cls(
            authority=authority,
            admin=authority.issue("admin", Identity("sandkeeper-admin", masters)),
            server=authority.issue("api-server", Identity("kube-apiserver", hosts=hosts)),
            api_to_kubelet=authority.issue("api-to-kubelet", Identity("kube-apiserver-kubelet", masters)),
            controller_manager=authority.issue(
                "controller-manager",
                Identity("system:kube-controller-manager"),
            ),
            scheduler=authority.issue("scheduler", Identity("system:kube-scheduler")),
            kubelet=authority.issue(
                "kubelet",
                Identity(f"system:node:{NODE_NAME}", ("system:nodes",), (NODE_NAME, "localhost")),
            ),
            service_accounts=service_account_keys(layout.pki),
        )

    def write_kubeconfigs(self, layout: Layout, instance: Instance) -> None:
        """Write one kubeconfig for each client."""
        for path, client, user in (
            (layout.kubeconfig, self.admin, "sandkeeper-admin"),
            (layout.pki / "controller-manager.kubeconfig", self.controller_manager, "controller-manager"),
            (layout.pki / "scheduler.kubeconfig", self.scheduler, "scheduler"),
            (layout.pki / "kubelet.kubeconfig", self.kubelet, "kubelet"),
        ):
            files.ensure(
                path,
                kubeconfig(server=instance.server, authority=self.authority, client=client, user=user),
            )


def etcd_url(instance: Instance) -> str:
    """Say where etcd answers."""
    return f"http://127.0.0.1:{instance.ports.etcd}"


def etcd(layout: Layout, instance: Instance, bin_dir: Path) -> Component:
    """Describe etcd."""
    client = etcd_url(instance)
    peer = f"http://127.0.0.1:{instance.ports.etcd_peer}"
    return component(
        layout,
        "etcd",
        (
            f"{bin_dir}/etcd",
            "--name=testbed",
            f"--data-dir={layout.state}/etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=testbed={peer}",
            "--log-level=warn",
        ),
        lambda: probes.http(f"{client}/health"),
    )


def api_server(layout: Layout, instance: Instance, bin_dir: Path, keys: Keys) -> Component:
    """Describe the API server; it is well when its own poststart hooks are through."""
    pki = layout.pki
    files.ensure(layout.audit_policy, _AUDIT_POLICY)
    return component(
        layout,
        "kube-apiserver",
        (
            f"{bin_dir}/kube-apiserver",
            f"--etcd-servers={etcd_url(instance)}",
            "--bind-address=127.0.0.1",
            f"--secure-port={instance.ports.api_server}",
            # The endpoint of the Service "kubernetes" may not be on loopback. Pods are led there by a
            # rule of ours (see firewall), so that nobody but this machine reaches the API server.
            f"--advertise-address={instance.pod_gateway}",
            f"--service-cluster-ip-range={instance.service_network}",
            f"--tls-cert-file={keys.server.certificate}",
            f"--tls-private-key-file={keys.server.key}",
            f"--client-ca-file={keys.authority.pair.certificate}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            f"--service-account-key-file={keys.service_accounts.certificate}",
            f"--service-account-signing-key-file={keys.service_accounts.key}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--kubelet-certificate-authority={keys.authority.pair.certificate}",
            f"--kubelet-client-certificate={keys.api_to_kubelet.certificate}",
            f"--kubelet-client-key={keys.api_to_kubelet.key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--cert-dir={pki}/api-server",
            # Tests load it on purpose, and one user does all of it.
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            f"--audit-policy-file={layout.audit_policy}",
            f"--audit-log-path={layout.audit_log}",
            # Megabytes. A run of all tests makes a few dozen.
            "--audit-log-maxsize=200",
            "--audit-log-maxbackup=2",
            # Deleted kinds and namespaces are to be gone soon.
            "--delete-collection-workers=4",
        ),
        lambda: probes.http(f"{instance.server}/readyz", context=admin_tls(keys)),
    )


def controller_manager(layout: Layout, instance: Instance, bin_dir: Path, keys: Keys) -> Component:
    """Describe the controller-manager; the default rates cap a test's load at 50 Pods a second."""
    config = f"{layout.pki}/controller-manager.kubeconfig"
    return component(
        layout,
        "kube-controller-manager",
        (
            f"{bin_dir}/kube-controller-manager",
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={instance.ports.controller_manager}",
            f"--cert-dir={layout.pki}/controller-manager",
            # Each of its parts as the user that the built-in roles know; it may do little itself.
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--kube-api-qps=5000",
            "--kube-api-burst=10000",
            f"--root-ca-file={keys.authority.pair.certificate}",
            f"--client-ca-file={keys.authority.pair.certificate}",
            f"--cluster-signing-cert-file={keys.authority.pair.certificate}",
            f"--cluster-signing-key-file={keys.authority.pair.key}",
            f"--service-account-private-key-file={keys.service_accounts.key}",
            f"--service-cluster-ip-range={instance.service_network}",
            "--concurrent-namespace-syncs=20",
            # Tests wait for a node that fell silent, by default 50 s. All nodes here are heard of every 5 s
            # (the length of their leases says so), so that even on a busy machine 20 s are no accident.
            "--node-monitor-grace-period=20s",
            # Plugins are looked for in a folder that would be made elsewhere.
            f"--flex-volume-plugin-dir={layout.state}/volume-plugins",
        ),
        _own_health_page(instance.ports.controller_manager),
    )


def scheduler(layout: Layout, instance: Instance, bin_dir: Path) -> Component:
    """Describe the scheduler."""
    config = f"{layout.pki}/scheduler.kubeconfig"
    return component(
        layout,
        "kube-scheduler",
        (
            f"{bin_dir}/kube-scheduler",
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={instance.ports.scheduler}",
            f"--cert-dir={layout.pki}/scheduler",
            "--leader-elect=false",
            "--kube-api-qps=5000",
            "--kube-api-burst=10000",
        ),
        _own_health_page(instance.ports.scheduler),
    )


def stop(layout: Layout, name: str, *, grace: float, first: signal.Signals = signal.SIGTERM) -> None:
    """Stop a component, if it runs. Its record is all that is needed for it."""
    record = _record(layout, name)
    if (found := processes.load(record)) is not None:
        processes.stop([found], first=first, grace=grace)
        record.unlink()


def admin_tls(keys: Keys) -> ssl.SSLContext:
    """Make the administrator's TLS context."""
    return probes.tls(
        authority=keys.authority.pair.certificate,
        certificate=keys.admin.certificate,
        key=keys.admin.key,
    )


def _own_health_page(port: int) -> Callable[[], str | None]:
    # These two sign their pages themselves; the pages are open to anybody and tell nothing.
    return lambda: probes.http(f"https://127.0.0.1:{port}/healthz", context=probes.unverified())


def component(
    layout: Layout,
    name: str,
    argv: tuple[str, ...],
    probe: Callable[[], str | None],
) -> Component:
    """Describe a component by its name, which its log and its record have too."""
    return Component(
        name=name,
        argv=argv,
        log=layout.logs / f"{name}.log",
        record=_record(layout, name),
        probe=probe,
    )


def _record(layout: Layout, name: str) -> Path:
    return layout.pids / f"{name}.json"
