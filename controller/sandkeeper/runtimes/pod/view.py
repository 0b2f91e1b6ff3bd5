"""A Pod as we need to know it, and what it says of itself: pure.

Only a projection is kept of each Pod: there are many, and each is large.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.names import API_VERSION, Label
from sandkeeper.api.policy import Backend
from sandkeeper.cluster.caches import ObjectId
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import key_from_pod, wiped_for
from sandkeeper.lifecycle.model import Observed, RuntimeState
from sandkeeper.runtimes.pod.desired import CONTAINER
from sandkeeper.runtimes.pod.places import Writes, written_in
from sandkeeper.runtimes.pod.preparing import PREPARE, complaints_in, said_in
from sandkeeper.runtimes.protocol import Notice, Owner

__all__ = ["PodView", "sandbox_owners"]

_IMAGE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""Why a container waits for its image, in the words of the kubelet (pkg/kubelet/images)."""

_ON_ITS_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})

_UNSTARTED: Final = frozenset({"StartError", "ContainerCannotRun"})
"""What runtimes say of a container whose main process could not be started at all."""

_KILLED: Final = 137
"""The exit code of a process that SIGKILL ended."""

_BACK_OFF: Final = re.compile(r'^Back-off pulling image "[^"]*": \w+: ')
"""What the kubelet puts before the same message when it pauses; without it a status need not be written twice."""

_SUB_PATH: Final = (
    ". A link in the path of a directory leads out of its volume, or what is there is no directory, or it is not there "
    "and cannot be made"
)
"""What the kubelet does not say of a ``subPath``: why."""

_PREEMPTED: Final = "PreemptionByScheduler"
_SLOW_AFTER: Final = timedelta(seconds=25)
"""After it was made: most Pods run by then. Who waits for one looks again every 30 s."""

_STUCK_AFTER: Final = timedelta(seconds=15)
"""After the end of its grace: a kubelet that works has ended a Pod by then."""


def sandbox_owners(metadata: Mapping[str, Any]) -> tuple[Owner, ...]:
    """Return the Sandboxes among an object's owners, the controller first."""
    references = [
        reference
        for reference in metadata.get("ownerReferences") or ()
        if reference.get("kind") == "Sandbox" and reference.get("apiVersion") == API_VERSION
    ]
    references.sort(key=lambda reference: not reference.get("controller", False))
    return tuple(Owner(name=reference["name"], uid=reference["uid"]) for reference in references)


@dataclass(frozen=True, kw_only=True, slots=True)
class PodView:
    """One Pod that carries our label."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    key: RuntimeKey | None
    """None: its labels and annotations do not prove it ours."""
    owners: tuple[Owner, ...]
    has_controller: bool
    config_hash: str
    has_setup: bool
    wiped_for: frozenset[str]
    network: str
    """Which network policy it is under."""
    image: str
    user: str
    """``uid:gid`` of its containers; empty: their image says."""
    writes: Writes
    """The directories that it may write to and others may mount."""
    node: str
    created_at: datetime
    deleting_at: datetime | None
    """When its grace ends or ended, where it was deleted."""
    state: RuntimeState
    ever_ran: bool
    """The sandbox's container was started at some time."""
    ended: Reason | None
    waits_for: Reason | None
    message: str
    complaints: str
    """What could not be prepared, though the sandbox could start."""
    is_out_of_touch: bool
    """Its container ran when it was last heard of, and the control plane says by now that it is not ready."""

    @property
    def id(self) -> ObjectId:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What its workspace lacks."""
        return (Notice(reason=Reason.SEED_SKIPPED, message=self.complaints),) if self.complaints else ()

    def is_slow(self, now: datetime) -> bool:
        """Whether it should have started by now on the node that it was given, and does not say what it waits for."""
        waits = self.state is RuntimeState.STARTING and self.waits_for is None
        return waits and bool(self.node) and now > self.created_at + _SLOW_AFTER

    def is_stuck(self, now: datetime) -> bool:
        """Whether it should have been gone by now."""
        return self.deleting_at is not None and now > self.deleting_at + _STUCK_AFTER

    def observed(self) -> Observed:
        """Say it in the words of the rules of life."""
        return Observed(
            backend=Backend.POD.value,
            id=self.uid,
            name=self.name,
            node=self.node,
            state=self.state,
            created_at=self.created_at,
            config_hash=self.config_hash,
            image=self.image,
            has_setup=self.has_setup,
            user=self.user,
            wiped_for=self.wiped_for,
            ended=self.ended,
            waits_for=self.waits_for,
            message=self.message,
        )

    @classmethod
    def parse(cls, raw: Mapping[str, Any], *, installation: str) -> "PodView":
        """Read a Pod as it came from the API server."""
        metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        deleted = metadata.get("deletionTimestamp")
        container, prepare = _ours(_containers(status)), _ours(_preparing(status), PREPARE)
        state, ended, waits_for, message = _state(status, container, prepare, deleted=deleted is not None)
        ready = _condition(status, "Ready")
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            key=key_from_pod(metadata, installation),
            owners=sandbox_owners(metadata),
            has_controller=any(one.get("controller") for one in metadata.get("ownerReferences") or ()),
            config_hash=sys.intern(annotations.get(Label.CONFIG_HASH, "")),
            has_setup=annotations.get(Label.SETUP) == "true",
            wiped_for=wiped_for(annotations),
            network=sys.intern(labels.get(Label.NETWORK, "")),
            image=sys.intern(_ours(spec["containers"]).get("image", "")),
            user=sys.intern(_user(spec)),
            writes=written_in(raw),
            node=sys.intern(spec.get("nodeName", "")),
            created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
            deleting_at=datetime.fromisoformat(deleted) if deleted else None,
            state=state,
            ever_ran=_ever_ran(status, container),
            ended=ended,
            waits_for=waits_for,
            message=message,
            complaints=_complaints(prepare),
            is_out_of_touch=bool(container.get("ready")) and ready.get("status") == "False",
        )


_Verdict = tuple[RuntimeState, Reason | None, Reason | None, str]


def _state(
    status: Mapping[str, Any], container: Mapping[str, Any], prepare: Mapping[str, Any], *, deleted: bool
) -> _Verdict:
    """Tell the state, why it ended, what it waits for, and a message."""
    is_preparing = bool(prepare) and not _is_prepared(prepare)
    taken, state = _taken(status), (prepare if is_preparing else container).get("state") or {}
    if deleted:
        # How its container ends is what the deletion does to it, and no news.
        reason, message = taken or (None, "")
        return RuntimeState.TERMINATING, reason, None, message
    ended = status.get("phase") in {"Failed", "Succeeded"}
    if ended or "terminated" in state:
        reason, message = taken or (
            _end_of_preparing(status, prepare) if is_preparing else _end(status, container)
        )
        # A container is never started again. The phase follows it in a second, and then the Pod is deleted without
        # delay, as one that is not known to have ended is not; where others go on beside it, no phase ever follows.
        follows = not ended and (
            is_preparing or all("terminated" in (one.get("state") or {}) for one in _containers(status))
        )
        return RuntimeState.TERMINATING if follows else RuntimeState.FAILED, reason, None, message
    if "running" in state and not is_preparing:
        return RuntimeState.RUNNING, None, None, ""
    waits_for, message = _wait(status, state)
    return RuntimeState.STARTING, None, waits_for, message


def _taken(status: Mapping[str, Any]) -> tuple[Reason, str] | None:
    """Tell who took a Pod away, if somebody did: then the end of its container says nothing more."""
    if status.get("reason") == "Evicted":
        return Reason.EVICTED, f"The node evicted the Pod: {_said(status)}"
    disruption = _condition(status, "DisruptionTarget")
    if disruption.get("status") != "True":
        return None
    why = disruption.get("reason", "")
    reason = Reason.PREEMPTED if why == _PREEMPTED else Reason.EVICTED
    return reason, f"The Pod was taken away ({why}): {_said(disruption)}"


def _end(status: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[Reason, str]:
    """Tell why a Pod ended that nobody took away."""
    terminated = (container.get("state") or {}).get("terminated") or {}
    code, reason = terminated.get("exitCode"), terminated.get("reason", "")
    # The reason stays OOMKilled for good where any process of the container, such as one of an exec, was killed for
    # want of memory at some time. Only the main process itself has this exit code then.
    if reason == "OOMKilled" and code == _KILLED:
        return Reason.OOM_KILLED, "The container ran out of memory and was killed. Raise container.memory."
    if reason in _UNSTARTED:
        return Reason.START_FAILED, f"The container cannot be started ({reason}): {_said(terminated)}"
    if status.get("reason"):
        if not _ever_started(container):
            message = f"The node refused the Pod ({status['reason']}): {_said(status)}"
            return Reason.START_FAILED, message
        return Reason.EXITED, f"The Pod failed ({status['reason']}): {_said(status)}"
    if terminated:
        how = "after one of its processes had run out of memory" if reason == "OOMKilled" else f"({reason})"
        return Reason.EXITED, f"The container ended with exit code {code} {how}."
    return Reason.EXITED, "The Pod ended, and nothing says why."


def _end_of_preparing(status: Mapping[str, Any], prepare: Mapping[str, Any]) -> tuple[Reason, str]:
    """Tell why a Pod ended before its workspace was prepared."""
    terminated = (prepare.get("state") or {}).get("terminated") or {}
    if not terminated or status.get("reason"):
        return _end(status, prepare)
    if terminated.get("reason") == "OOMKilled":
        said = "it ran out of memory; raise container.memory"
    elif terminated.get("reason") in _UNSTARTED:
        said = f"the image needs python3 for it ({said_in(_said(terminated))})"
    else:
        said = said_in(terminated.get("message") or "") or f"exit code {terminated.get('exitCode')}"
    return Reason.SEEDING_FAILED, f"The workspace cannot be prepared: {said}"


def _is_prepared(prepare: Mapping[str, Any]) -> bool:
    terminated = (prepare.get("state") or {}).get("terminated")
    return terminated is not None and terminated.get("exitCode") == 0


def _complaints(prepare: Mapping[str, Any]) -> str:
    if not _is_prepared(prepare):
        return ""
    return complaints_in(prepare["state"]["terminated"].get("message") or "")


def _said(of: Mapping[str, Any]) -> str:
    return str(of.get("message") or "").strip() or "no message was given"


def _wait(status: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[Reason | None, str]:
    """Tell what a Pod that does not run yet waits for, if it is worth telling."""
    waiting = state.get("waiting") or {}
    reason, message = waiting.get("reason", ""), _said(waiting)
    if reason in _IMAGE:
        return (
            Reason.IMAGE_MISSING,
            f"The image cannot be had ({_stem(reason)}): {_BACK_OFF.sub('', message)}",
        )
    if reason not in _ON_ITS_WAY:
        why = _SUB_PATH if "subPath" in message else ""
        return Reason.START_FAILED, f"The container cannot be started ({reason}): {message}{why}"
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        said = scheduled.get("message") or scheduled.get("reason", "")
        return _unschedulable(said), f"No node takes the Pod: {said}"
    return None, ""


def _stem(reason: str) -> str:
    """Name a failing pull and the pause after it alike."""
    return "ErrImagePull" if reason == "ImagePullBackOff" else reason


def _unschedulable(message: str) -> Reason:
    """Tell by the message of the scheduler's volume plugins whether a volume is not there or not free."""
    if "ReadWriteOncePod" in message:
        return Reason.VOLUME_BUSY
    if "persistentvolumeclaim" in message and ("not found" in message or "being deleted" in message):
        return Reason.VOLUME_MISSING
    return Reason.UNSCHEDULABLE


def _containers(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return status.get("containerStatuses") or ()


def _preparing(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return status.get("initContainerStatuses") or ()


def _ours(containers: Sequence[Mapping[str, Any]], name: str = CONTAINER) -> Mapping[str, Any]:
    """Return a container of ours, or what is said of it: others may have put one of theirs beside it."""
    return next((container for container in containers if container.get("name") == name), {})


def _user(spec: Mapping[str, Any]) -> str:
    security = spec.get("securityContext") or {}
    uid, gid = security.get("runAsUser"), security.get("runAsGroup")
    return "" if uid is None or gid is None else f"{uid}:{gid}"


def _ever_ran(status: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    return status.get("phase", "Pending") != "Pending" or _ever_started(container)


def _ever_started(container: Mapping[str, Any]) -> bool:
    states = (container.get("state") or {}, container.get("lastState") or {})
    return any("running" in state or "terminated" in state for state in states)


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            found: Mapping[str, Any] = condition
            return found
    return {}
