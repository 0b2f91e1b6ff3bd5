"""kwok: one process plays the kubelets of a group of fake nodes.

Each process is noted with the process that started it. So it is found again when that one was killed and
could not end it: by whoever needs fake nodes next, and by ``down``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import binaries, files, processes
from testbed.binaries import Kit, Program
from testbed.processes import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.paths import Layout

KIT = Kit("kwok", (Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),))

PLAYED_LABEL = "testbed.sandkeeper.dev/kwok"
"""On the nodes whose kubelet is played; the value is the group.

A label, not the annotation that kwok's own documents have: when a label goes, the API server tells kwok
that the node is no longer one of its own, and kwok lets go of it. A changed annotation it never notices.
"""

LEASE_SECONDS = 20
"""A quarter of it is how often a node is heard of; see the controller-manager's grace period."""

_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
)
"""What kwok does, at once, with nodes and Pods. They ship inside its module."""

_POD_DELETE = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-delete-once
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
    - key: '.metadata.deletionTimestamp'
      operator: 'Exists'
    - key: '.metadata.deletionGracePeriodSeconds | tostring'
      operator: 'NotIn'
      values: ['0']
  next:
    delete: true
"""
"""How Pods end. kwok deletes them by name, and its own deletion shows as one more change of a Pod on its way out;
with the stage that ships it would delete once more, and by then that may be the next Pod of the same name."""


@dataclass(frozen=True)
class Run:
    """One process of kwok, and the process that needs it."""

    group: str
    process: Record
    owner: Record
    log: Path


def ensure(layout: Layout) -> Path:
    """Build kwok unless it is there, put its stages next to it, and give their folder."""
    folder = binaries.ensure(layout, KIT)
    missing = [name for name in _STAGES if not _stage(folder, name).exists()]
    if missing:
        shipped = binaries.sources("kwok", "sigs.k8s.io/kwok") / "kustomize" / "stage"
        for name in missing:
            files.ensure(_stage(folder, name), (shipped / name).read_text(encoding="utf-8"))
    files.ensure(_pod_delete(folder), _POD_DELETE)
    return folder


def _pod_delete(folder: Path) -> Path:
    return folder / "stages" / "pod-delete-once.yaml"


def _stage(folder: Path, name: str) -> Path:
    return folder / "stages" / Path(name).name


def start(layout: Layout, *, group: str, kubeconfig: Path) -> Run:
    """Start a process for the nodes of one group."""
    folder = ensure(layout)
    log = layout.logs / f"kwok-{group}.log"
    process = processes.start(
        [
            f"{folder}/kwok",
            f"--kubeconfig={kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-label-selector={PLAYED_LABEL}={group}",
            f"--node-lease-duration-seconds={LEASE_SECONDS}",
            *(f"--config={_stage(folder, name)}" for name in _STAGES),
            f"--config={_pod_delete(folder)}",
        ],
        log=log,
    )
    run = Run(group=group, process=process, owner=processes.myself(), log=log)
    files.ensure(_record(layout, group), json.dumps(asdict(run), default=str))
    return run


def stop(layout: Layout, run: Run) -> None:
    """End a process, and forget it."""
    processes.stop([run.process], grace=2.0)
    run.log.unlink(missing_ok=True)
    _record(layout, run.group).unlink(missing_ok=True)


def runs(layout: Layout) -> Iterator[Run]:
    """List what was started and not stopped."""
    for path in sorted(layout.pids.glob("kwok-*.json")):
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue  # It was stopped this moment.
        yield Run(
            group=read["group"],
            process=Record(**read["process"]),
            owner=Record(**read["owner"]),
            log=Path(read["log"]),
        )


def _record(layout: Layout, group: str) -> Path:
    return layout.pids / f"kwok-{group}.json"
