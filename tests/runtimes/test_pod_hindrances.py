"""What Events say of a Pod that does not come up, in the words of the kubelet and of the attacher."""

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.runtimes.pod.hindrances import find_hindrance, read_hindrance

MULTI_ATTACH = (
    'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node and '
    "can't be attached to another"
)


@pytest.mark.parametrize(
    ("reason", "message", "wanted"),
    [
        ("FailedAttachVolume", MULTI_ATTACH, Reason.VOLUME_BUSY),
        ("FailedAttachVolume", "rpc error: no such disk", Reason.VOLUME_MISSING),
        ("FailedMount", "hostPath type check failed: /x is not a directory", Reason.VOLUME_MISSING),
        ("FailedCreatePodSandBox", "no runtime for gvisor is configured", Reason.START_FAILED),
    ],
)
def test_what_keeps_a_pod_from_starting(reason: str, message: str, wanted: Reason) -> None:
    found = read_hindrance({"reason": reason, "message": message})
    assert found is not None
    assert found[0] is wanted
    assert found[1].endswith(message)


@pytest.mark.parametrize("reason", ["MissingClusterDNS", "Unhealthy", "BackOff", ""])
def test_what_does_not(reason: str) -> None:
    assert read_hindrance({"reason": reason, "message": "whatever"}) is None


def event(reason: str, message: str, minute: int) -> dict[str, str]:
    return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-01T10:{minute:02}:00Z"}


def test_the_latest_that_means_something_is_told() -> None:
    found = find_hindrance(
        [
            event("FailedMount", "the first disk", 1),
            event("FailedMount", "the second disk", 3),
            event("FailedCreatePodSandBox", "no address", 2),
            event("MissingClusterDNS", "as after every attempt in some clusters", 4),
        ]
    )
    assert found == (Reason.VOLUME_MISSING, "Its volume cannot be mounted: the second disk")


def test_where_none_means_anything_nothing_is_told() -> None:
    assert find_hindrance([event("MissingClusterDNS", "whatever", 1)]) is None
    assert find_hindrance([]) is None
