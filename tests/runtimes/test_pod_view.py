"""What a Pod says of itself.

The statuses are as Kubernetes 1.34 wrote them on the test bed, but for what nobody reads.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtimes.pod_orders import INSTALLATION, KEY, order, pod_of
from sandkeeper.api.conditions import Reason
from sandkeeper.config.naming import pod_annotations
from sandkeeper.lifecycle.model import Observed, RuntimeState
from sandkeeper.runtimes.pod.pods import Pods
from sandkeeper.runtimes.pod.view import PodView
from sandkeeper.runtimes.protocol import Notice, Owner

Json = dict[str, Any]
Verdict = tuple[RuntimeState, Reason | None, Reason | None, str]

RAIN = Owner(name="rain", uid="0e8e")
UNREADY: Json = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
FAILED: Json = {"type": "Ready", "status": "False", "reason": "PodFailed"}
READY: Json = {"type": "Ready", "status": "True"}
RAN: Json = {"running": {"startedAt": "2026-11-21T14:53:25Z"}}
LOST = {
    "exitCode": 137,
    "finishedAt": None,
    "message": "The container could not be located when the pod was deleted.  The container used to be Running",
    "reason": "ContainerStatusUnknown",
    "startedAt": None,
}
NO_PULL = (
    'failed to pull and unpack image "docker.io/library/nope:1": failed to resolve reference '
    '"docker.io/library/nope:1": failed to do request: Head '
    '"https://registry-1.docker.io/v2/library/nope/manifests/1": dial tcp: lookup registry-1.docker.io on '
    "10.255.255.53:53: no such host"
)


def container(state: Json, name: str = "sandbox", **more: Any) -> Json:
    return {"name": name, "ready": "running" in state, "state": state, "lastState": {}, **more}


def waiting(reason: str, message: str | None = None) -> Json:
    said = {} if message is None else {"message": message}
    return {"waiting": {"reason": reason, **said}}


def ended(code: int, reason: str = "Error", message: str | None = None) -> Json:
    times = {"startedAt": "2026-11-21T14:53:25Z", "finishedAt": "2026-11-21T14:53:27Z"}
    said = {} if message is None else {"message": message}
    return {"terminated": {"exitCode": code, "reason": reason, **times, **said}}


def status(
    phase: str, *containers: Json, ready: Json | None = None, also: Json | None = None, **more: Any
) -> Json:
    conditions = [condition for condition in (ready, also) if condition is not None]
    return {"phase": phase, "conditions": conditions, "containerStatuses": list(containers), **more}


def unscheduled(message: str, reason: str = "Unschedulable") -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def taken(reason: str, message: str, value: str = "True") -> Json:
    return {"type": "DisruptionTarget", "status": value, "reason": reason, "message": message}


def raw(of: Json | None = None, *, deleted: bool = False, **metadata: Any) -> Json:
    """Return a Pod as the API server has it: ours, and with a status."""
    body = pod_of(order(owners=(RAIN,), setup_command="make"))
    more = {"deletionTimestamp": "2026-11-21T14:53:31Z", "deletionGracePeriodSeconds": 5} if deleted else {}
    body["metadata"] |= {
        "uid": "6fe4",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-21T14:53:24Z",
        **more,
        **metadata,
    }
    body["spec"]["nodeName"] = "one"
    return body if of is None else {**body, "status": of}


def view(of: Json | None = None, *, deleted: bool = False, **metadata: Any) -> PodView:
    return PodView.parse(raw(of, deleted=deleted, **metadata), installation=INSTALLATION)


def verdict(of: Json | None, *, deleted: bool = False) -> Verdict:
    seen = view(of, deleted=deleted)
    return seen.state, seen.ended, seen.waits_for, seen.message


RUNS: Verdict = (RuntimeState.RUNNING, None, None, "")
STARTS: Verdict = (RuntimeState.STARTING, None, None, "")
GOES: Verdict = (RuntimeState.TERMINATING, None, None, "")


def waits(reason: Reason, message: str) -> Verdict:
    return RuntimeState.STARTING, None, reason, message


def died(reason: Reason, message: str) -> Verdict:
    return RuntimeState.FAILED, reason, None, message


def goes(reason: Reason, message: str) -> Verdict:
    return RuntimeState.TERMINATING, reason, None, message


# --- it begins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, STARTS),
        ({"phase": "Pending"}, STARTS),
        (status("Pending", container(waiting("ContainerCreating")), ready=UNREADY), STARTS),
        (status("Pending", container(waiting("PodInitializing")), ready=UNREADY), STARTS),
        (status("Pending", container({}), ready=UNREADY), STARTS),
        (status("Running", container(RAN), ready=READY), RUNS),
        # No probe of ours makes it unready; whose fault it is, its node says.
        (status("Running", container(RAN), ready={**READY, "status": "False"}), RUNS),
    ],
)
def test_it_starts_and_runs(given: Json | None, expected: Verdict) -> None:
    assert verdict(given) == expected


NOWHERE = (
    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
NO_CLAIM = '0/21 nodes are available: persistentvolumeclaim "none" not found. not found'
CLAIM_GOES = '0/1 nodes are available: persistentvolumeclaim "data" is being deleted.'
ONE_POD = (
    "0/1 nodes are available: 1 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod "
    "access mode."
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (unscheduled(NOWHERE), waits(Reason.UNSCHEDULABLE, f"No node takes the Pod: {NOWHERE}")),
        (unscheduled(NO_CLAIM), waits(Reason.VOLUME_MISSING, f"No node takes the Pod: {NO_CLAIM}")),
        (unscheduled(CLAIM_GOES), waits(Reason.VOLUME_MISSING, f"No node takes the Pod: {CLAIM_GOES}")),
        (unscheduled(ONE_POD), waits(Reason.VOLUME_BUSY, f"No node takes the Pod: {ONE_POD}")),
        (
            unscheduled("", "SchedulerError"),
            waits(Reason.UNSCHEDULABLE, "No node takes the Pod: SchedulerError"),
        ),
    ],
)
def test_no_node_takes_it(given: Json, expected: Verdict) -> None:
    assert verdict(given) == expected


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", NO_PULL),
        (
            "ErrImageNeverPull",
            'Container image "docker.io/library/nope:1" is not present with pull policy of Never',
        ),
        ("InvalidImageName", 'couldn\'t parse image name "Nope:::1": invalid reference format'),
        ("RegistryUnavailable", "docker.io is not available"),
        ("SignatureValidationFailed", "no signature"),
        ("ImageInspectError", "no such thing"),
    ],
)
def test_its_image_cannot_be_had(reason: str, message: str) -> None:
    expected = waits(Reason.IMAGE_MISSING, f"The image cannot be had ({reason}): {message}")
    assert verdict(status("Pending", container(waiting(reason, message)))) == expected


def test_a_pull_that_pauses_says_the_same_as_the_pull_that_failed() -> None:
    paused = f'Back-off pulling image "docker.io/library/nope:1": ErrImagePull: {NO_PULL}'
    failed = verdict(status("Pending", container(waiting("ErrImagePull", NO_PULL))))
    assert verdict(status("Pending", container(waiting("ImagePullBackOff", paused)))) == failed


def test_its_container_cannot_be_made() -> None:
    said = (
        'container has runAsNonRoot and image will run as root (pod: "config_labw(9c5b)", container: sandbox)'
    )
    given = status("Pending", container(waiting("CreateContainerConfigError", said)), ready=UNREADY)
    message = f"The container cannot be started (CreateContainerConfigError): {said}"
    assert verdict(given) == waits(Reason.START_FAILED, message)


# --- it ends ----------------------------------------------------------------------------------------------------------

OUT_OF_MEMORY = "The container ran out of memory and was killed. Raise container.memory."
NO_SLEEP = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    'unable to start container process: exec: "sleep": executable file not found in $PATH: unknown'
)
NOT_THAT_NODE = (
    "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            status("Failed", container(ended(137)), ready=FAILED),
            died(Reason.EXITED, "The container ended with exit code 137 (Error)."),
        ),
        (
            status("Failed", container(ended(143)), ready=FAILED),
            died(Reason.EXITED, "The container ended with exit code 143 (Error)."),
        ),
        (
            status("Succeeded", container(ended(0, "Completed")), ready=FAILED),
            died(Reason.EXITED, "The container ended with exit code 0 (Completed)."),
        ),
        (
            status("Failed", container(ended(137, "OOMKilled")), ready=FAILED),
            died(Reason.OOM_KILLED, OUT_OF_MEMORY),
        ),
        # Another process had lacked memory, some time before: the container keeps the word.
        (
            status("Failed", container(ended(143, "OOMKilled")), ready=FAILED),
            died(
                Reason.EXITED,
                "The container ended with exit code 143 after one of its processes had run out of memory.",
            ),
        ),
        (
            status("Failed", container(ended(128, "StartError", NO_SLEEP)), ready=FAILED),
            died(Reason.START_FAILED, f"The container cannot be started (StartError): {NO_SLEEP}"),
        ),
        (
            {"phase": "Failed", "reason": "NodeAffinity", "message": NOT_THAT_NODE},
            died(Reason.START_FAILED, f"The node refused the Pod (NodeAffinity): {NOT_THAT_NODE}"),
        ),
        (
            status(
                "Failed", container(ended(137)), reason="DeadlineExceeded", message="Pod was active too long"
            ),
            died(Reason.EXITED, "The Pod failed (DeadlineExceeded): Pod was active too long"),
        ),
        ({"phase": "Failed"}, died(Reason.EXITED, "The Pod ended, and nothing says why.")),
    ],
)
def test_it_ends_by_itself(given: Json, expected: Verdict) -> None:
    assert verdict(given) == expected


USAGE = 'Usage of EmptyDir volume "workspace" exceeds the limit "1048576". '
EVICTED = died(
    Reason.EVICTED,
    'The node evicted the Pod: Usage of EmptyDir volume "workspace" exceeds the limit "1048576".',
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            status(
                "Failed",
                container(waiting("ContainerCreating"), lastState={"terminated": LOST}),
                ready=FAILED,
                reason="Evicted",
                message=USAGE,
            ),
            EVICTED,
        ),
        (status("Failed", container(ended(143)), ready=FAILED, reason="Evicted", message=USAGE), EVICTED),
        # Evicted once a process of its had lacked memory: the newer of the two is the reason.
        (status("Failed", container(ended(137, "OOMKilled")), reason="Evicted", message=USAGE), EVICTED),
        (
            status("Failed", container(ended(143)), reason="Evicted"),
            died(Reason.EVICTED, "The node evicted the Pod: no message was given"),
        ),
        (
            status("Failed", container(RAN), also=taken("DeletionByPodGC", "PodGC: node no longer exists")),
            died(Reason.EVICTED, "The Pod was taken away (DeletionByPodGC): PodGC: node no longer exists"),
        ),
        (
            status(
                "Failed",
                container(ended(137, "OOMKilled")),
                also=taken("TerminationByKubelet", "node low on memory"),
            ),
            died(Reason.EVICTED, "The Pod was taken away (TerminationByKubelet): node low on memory"),
        ),
        (
            status("Failed", container(ended(137)), also=taken("EvictionByEvictionAPI", "", "False")),
            died(Reason.EXITED, "The container ended with exit code 137 (Error)."),
        ),
    ],
)
def test_somebody_ends_it(given: Json, expected: Verdict) -> None:
    assert verdict(given) == expected


PREEMPTED = taken(
    "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"
)
API = taken("EvictionByEvictionAPI", "Eviction API: evicting")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (status("Running", container(RAN), ready=READY), GOES),
        (status("Pending", container(waiting("ErrImagePull", NO_PULL))), GOES),
        (unscheduled(NOWHERE), GOES),
        # What ended is what the deletion ended: `kubectl delete pod` is no failure.
        (status("Running", container(ended(143))), GOES),
        (status("Failed", container(ended(143)), ready=FAILED), GOES),
        (status("Failed", container(ended(137, "OOMKilled")), ready=FAILED), GOES),
        (
            status("Running", container(RAN), also=PREEMPTED),
            goes(
                Reason.PREEMPTED,
                "The Pod was taken away (PreemptionByScheduler): default-scheduler: preempting to accommodate a higher "
                "priority pod",
            ),
        ),
        (
            status("Failed", container(ended(143)), also=API),
            goes(Reason.EVICTED, "The Pod was taken away (EvictionByEvictionAPI): Eviction API: evicting"),
        ),
        (
            status("Failed", container(ended(143)), reason="Evicted", message=USAGE),
            goes(Reason.EVICTED, EVICTED[3]),
        ),
    ],
)
def test_it_is_deleted(given: Json, expected: Verdict) -> None:
    assert verdict(given, deleted=True) == expected


def test_that_its_container_ended_is_known_before_its_phase_says_so() -> None:
    seen = view(status("Running", container(ended(137)), ready=FAILED))
    message = "The container ended with exit code 137 (Error)."
    assert (seen.state, seen.ended, seen.message) == (RuntimeState.TERMINATING, Reason.EXITED, message)
    assert seen.deleting_at is None
    assert not seen.is_stuck(datetime.max.replace(tzinfo=UTC))


def test_of_several_containers_only_ours_counts() -> None:
    """Somebody's admission may put others in, and their statuses are in the order of the names."""
    beside = container(RAN, "beside")
    assert verdict(status("Running", beside, container(RAN))) == RUNS
    assert verdict(status("Running", beside, container(waiting("ContainerCreating")))) == STARTS
    # The Pod lives on with the other, and would for ever.
    dead = died(Reason.EXITED, "The container ended with exit code 1 (Error).")
    assert verdict(status("Running", beside, container(ended(1)))) == dead
    assert verdict(status("Running", container(ended(0), "beside"), container(RAN))) == RUNS
    pod = raw()
    pod["spec"]["containers"].insert(0, {"name": "beside", "image": "other:1"})
    assert PodView.parse(pod, installation=INSTALLATION).image == "tools:1"


def test_a_stranger_with_our_labels_breaks_nothing() -> None:
    pod = raw(status("Running", container(RAN, "main")))
    pod["spec"]["containers"] = [{"name": "main", "image": "other:1"}]
    pod["metadata"]["annotations"] = None
    seen = PodView.parse(pod, installation=INSTALLATION)
    assert (seen.key, seen.state, seen.image) == (None, RuntimeState.STARTING, "")


# --- it is prepared ---------------------------------------------------------------------------------------------------

MADE = '["AGENTS.md is not copied: it has more than 2097152 bytes", "USER.md is not copied: it is a link"]'
LINKED = '["skills in the agent\'s workspace is a link or a file; make it a directory"]'
NO_PYTHON = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    'unable to start container process: exec: "python3": executable file not found in $PATH: unknown'
)
INITIALIZING = waiting("PodInitializing")


def preparing(state: Json, phase: str = "Pending", main: Json = INITIALIZING, **more: Any) -> Json:
    prepare = {**container(state, "prepare"), "ready": state.get("terminated", {}).get("exitCode") == 0}
    return {**status(phase, container(main), **more), "initContainerStatuses": [prepare]}


def unprepared(why: str) -> Verdict:
    return died(Reason.SEEDING_FAILED, f"The workspace cannot be prepared: {why}")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (preparing(INITIALIZING), STARTS),
        (preparing({}), STARTS),
        (preparing(RAN), STARTS),
        (preparing(ended(0, "Completed", MADE)), STARTS),
        (preparing(ended(0, "Completed", MADE), "Running", RAN, ready=READY), RUNS),
        (preparing(ended(0, "Completed", "[]"), main=waiting("ContainerCreating")), STARTS),
        (
            preparing(waiting("ErrImagePull", NO_PULL)),
            waits(Reason.IMAGE_MISSING, f"The image cannot be had (ErrImagePull): {NO_PULL}"),
        ),
        (
            preparing(
                waiting(
                    "CreateContainerConfigError",
                    'failed to prepare subPath for volumeMount "agent" of container "prepare"',
                )
            ),
            waits(
                Reason.START_FAILED,
                "The container cannot be started (CreateContainerConfigError): failed to prepare subPath for "
                'volumeMount "agent" of container "prepare". A link in the path of a directory leads out of its '
                "volume, or what is there is no directory, or it is not there and cannot be made",
            ),
        ),
        (
            preparing(ended(0, "Completed"), main=waiting("CreateContainerConfigError", "no such thing")),
            waits(
                Reason.START_FAILED,
                "The container cannot be started (CreateContainerConfigError): no such thing",
            ),
        ),
    ],
)
def test_it_is_being_prepared(given: Json, expected: Verdict) -> None:
    assert verdict(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            preparing(ended(1, "Error", LINKED), "Failed", ready=FAILED),
            unprepared("skills in the agent's workspace is a link or a file; make it a directory"),
        ),
        (
            preparing(
                ended(1, "Error", 'Traceback:\n  File "<string>", line 1\n\x1b[31mError\x00'), "Failed"
            ),
            unprepared('Traceback: File "<string>", line 1 [31mError'),
        ),
        (preparing(ended(3), "Failed", ready=FAILED), unprepared("exit code 3")),
        (
            preparing(ended(137, "OOMKilled"), "Failed"),
            unprepared("it ran out of memory; raise container.memory"),
        ),
        (
            preparing(ended(128, "StartError", NO_PYTHON), "Failed"),
            unprepared(f"the image needs python3 for it ({NO_PYTHON})"),
        ),
        (
            preparing(ended(137), "Failed", reason="Evicted", message=USAGE),
            EVICTED,
        ),
        (
            preparing(ended(143), "Failed", also=taken("EvictionByEvictionAPI", "Eviction API: evicting")),
            died(Reason.EVICTED, "The Pod was taken away (EvictionByEvictionAPI): Eviction API: evicting"),
        ),
        (
            preparing(INITIALIZING, "Failed", reason="NodeAffinity", message=NOT_THAT_NODE),
            died(Reason.START_FAILED, f"The node refused the Pod (NodeAffinity): {NOT_THAT_NODE}"),
        ),
        # Once it is prepared, that is over.
        (
            preparing(ended(0, "Completed", MADE), "Failed", ended(137), ready=FAILED),
            died(Reason.EXITED, "The container ended with exit code 137 (Error)."),
        ),
    ],
)
def test_it_cannot_be_prepared(given: Json, expected: Verdict) -> None:
    assert verdict(given) == expected


def test_that_it_cannot_be_prepared_is_known_before_its_phase_says_so() -> None:
    seen = view(preparing(ended(1, "Error", LINKED)))
    assert (seen.state, seen.ended) == (RuntimeState.TERMINATING, Reason.SEEDING_FAILED)
    # Nothing of the user's ran in it.
    assert not seen.ever_ran


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[]", ""),
        (None, ""),
        ("", ""),
        (
            MADE,
            "AGENTS.md is not copied: it has more than 2097152 bytes; USER.md is not copied: it is a link",
        ),
        # The sandbox's image has the last word on what it says.
        ("nonsense", ""),
        ('{"a": 1}', ""),
        ('["a", 1, null, ["b"], "c"]', "a; c"),
        ('["\\u001b[2J\\u202egone\\u0000\\nnext\\ud800"]', "[2J gone next"),
        ("[" * 100_000, ""),
        ('["' + "x" * 5000 + '"]', "x" * 1024),
    ],
)
def test_what_could_not_be_prepared(message: str | None, expected: str) -> None:
    said = view(preparing(ended(0, "Completed", message), "Running", RAN)).notices
    assert said == ((Notice(reason=Reason.SEED_SKIPPED, message=expected),) if expected else ())


def test_what_others_prepare_is_theirs() -> None:
    given = preparing(ended(0, "Completed"), "Running", RAN)
    given["initContainerStatuses"].insert(0, container(ended(0, "Completed", MADE), "beside"))
    assert verdict(given) == RUNS
    assert view(given).notices == ()


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ({"runAsUser": 1000, "runAsGroup": 2000}, "1000:2000"),
        ({"runAsUser": 0, "runAsGroup": 0}, "0:0"),
        ({"runAsNonRoot": True}, ""),
        (None, ""),
    ],
)
def test_whom_it_runs_as(security: Json | None, expected: str) -> None:
    pod = raw()
    pod["spec"]["securityContext"] = security
    assert PodView.parse(pod, installation=INSTALLATION).user == expected


# --- all else ---------------------------------------------------------------------------------------------------------


def test_all_that_is_seen() -> None:
    seen = view(status("Running", container(RAN), ready=READY))
    assert (seen.key, seen.owners, seen.has_controller) == (KEY, (RAIN,), True)
    assert seen.observed() == Observed(
        backend="pod",
        id="6fe4",
        name=raw()["metadata"]["name"],
        node="one",
        state=RuntimeState.RUNNING,
        created_at=datetime(2026, 11, 21, 14, 53, 24, tzinfo=UTC),
        config_hash="v1-0123456789abcdef",
        image="tools:1",
        has_setup=True,
        user="1000:1000",
    )


def test_the_wipes_that_are_done_with_are_seen() -> None:
    seen = view(annotations=pod_annotations(KEY, config_hash="v1-0", wiped_for=("0f", "a1")))
    assert seen.observed().wiped_for == {"0f", "a1"}
    assert view().observed().wiped_for == frozenset()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, False),
        (status("Pending", container(waiting("ContainerCreating"))), False),
        (status("Pending", container(waiting("ImagePullBackOff"))), False),
        (status("Pending", container(RAN)), True),
        (status("Pending", container(waiting("ContainerCreating"), lastState={"terminated": LOST})), True),
        (status("Running", container(RAN)), True),
        (status("Failed", container(ended(1))), True),
        ({"phase": "Unknown"}, True),
    ],
)
def test_whether_it_ever_ran(given: Json | None, *, expected: bool) -> None:
    assert view(given).ever_ran is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # So the control plane says of every Pod of a silent node. Nobody else does while the container is ready.
        (status("Running", container(RAN), ready={**READY, "status": "False"}), True),
        (status("Running", container(RAN), ready=READY), False),
        (status("Running", container(RAN)), False),
        (status("Pending", container(waiting("ContainerCreating")), ready=UNREADY), False),
        (status("Failed", container(ended(1)), ready=FAILED), False),
    ],
)
def test_whether_its_node_may_be_lost(given: Json, *, expected: bool) -> None:
    assert view(given).is_out_of_touch is expected


def test_it_is_stuck_some_time_after_the_end_of_its_grace() -> None:
    seen = view(status("Running", container(RAN)), deleted=True)
    assert seen.deleting_at == datetime(2026, 11, 21, 14, 53, 31, tzinfo=UTC)
    assert not seen.is_stuck(seen.deleting_at + timedelta(seconds=15))
    assert seen.is_stuck(seen.deleting_at + timedelta(seconds=16))
    assert not view(status("Running", container(RAN))).is_stuck(seen.deleting_at + timedelta(days=1))


# --- before and after -------------------------------------------------------------------------------------------------


def seen_one_after_another(*pods: Json) -> PodView:
    found = Pods(installation=INSTALLATION, on_change=lambda _old, _new: None)
    for number, pod in enumerate(pods):
        last = found.cache.put({**pod, "metadata": {**pod["metadata"], "resourceVersion": str(number + 1)}})
    return last


def test_what_died_before_it_was_deleted_keeps_its_reason() -> None:
    dead = status("Failed", container(ended(137, "OOMKilled")), ready=FAILED)
    last = seen_one_after_another(
        raw(status("Running", container(RAN), ready=READY)),
        raw(dead),
        raw(dead, deleted=True),
        raw(dead, deleted=True),
    )
    assert (last.state, last.ended, None, last.message) == goes(Reason.OOM_KILLED, OUT_OF_MEMORY)


def test_what_died_of_its_deletion_has_none() -> None:
    alive, dead = status("Running", container(RAN), ready=READY), status("Failed", container(ended(143)))
    last = seen_one_after_another(raw(alive), raw(alive, deleted=True), raw(dead, deleted=True))
    assert (last.state, last.ended, last.message) == (RuntimeState.TERMINATING, None, "")


def test_what_waited_for_its_image_when_it_was_deleted_has_none() -> None:
    missing = status("Pending", container(waiting("ErrImagePull", NO_PULL)))
    last = seen_one_after_another(raw(missing), raw(missing, deleted=True))
    assert (last.state, last.ended, last.message) == (RuntimeState.TERMINATING, None, "")


def test_another_of_the_same_name_inherits_nothing() -> None:
    dead = status("Failed", container(ended(137)), ready=FAILED)
    alive = status("Running", container(RAN), ready=READY)
    last = seen_one_after_another(raw(dead), raw(alive, uid="9a00", deleted=True))
    assert (last.uid, last.ended) == ("9a00", None)
    assert replace(last, ended=None) == last
