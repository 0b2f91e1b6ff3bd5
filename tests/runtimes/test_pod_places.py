"""What lies in a directory to which another sandbox writes is not mounted: it could be swapped for a link."""

from typing import Any

import pytest

from runtimes.pod_orders import INSTALLATION, KEY, order, pod_of
from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.api.workspace import Access
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.pod import (
    ClaimTemplate,
    ClaimVolume,
    EmptyDirVolume,
    HostPathVolume,
    PodShape,
    SharedMount,
)
from sandkeeper.config.sources import ClaimSource, ConfigMapSource, HostSource
from sandkeeper.runtimes.pod.pods import Pods
from sandkeeper.runtimes.pod.swapping import refuse_swappable

OTHER = RuntimeKey("team", "0f6c", "default", "agent:other")
ELSEWHERE = RuntimeKey("elsewhere", "1a7d", "default", "agent:other")
OWN = "agent-dev-5rn2m5zp55i6l"


def a_claim(sub_path: str = "", *, at: str = "/workspace/x", read_only: bool = False) -> PodShape:
    source = ClaimSource(name="household", sub_path=sub_path)
    return PodShape(mounts=(SharedMount(path=at, source=source, read_only=read_only),))


def running(*pods: dict[str, Any]) -> Pods:
    found = Pods(installation=INSTALLATION, on_change=lambda _old, _new: None)
    for number, pod in enumerate(pods):
        metadata = {
            "uid": f"uid-{number}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-11-21T14:53:24Z",
        }
        found.cache.put({**pod, "metadata": {**pod["metadata"], **metadata}})
    return found


def made(key: RuntimeKey = OTHER, **changes: Any) -> dict[str, Any]:
    return pod_of(order(key, **changes))


def refusal(beside: Pods, key: RuntimeKey = KEY, **changes: Any) -> str:
    wanted = order(key, **changes)
    try:
        refuse_swappable(key, pod_of(wanted), beside)
    except Permanent as error:
        return f"{error.reason}: {error.message}"
    return ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"workspace": EmptyDirVolume(5), "pod": a_claim("a", read_only=True)}, set()),
        ({"agent": ConfigMapSource("dev"), "access": Access.RO}, set()),
        ({"binds": ("/srv/a:/a:rw", "/srv/b:/b:ro")}, {"/srv/a"}),
        ({"workspace": ClaimVolume("household")}, {f"claim:team/household/{OWN}"}),
        ({"workspace": ClaimTemplate(size=1)}, {f"claim:team/sandkeeper-{OWN}"}),
        ({"workspace": HostPathVolume("/srv/copies")}, {f"/srv/copies/{OWN}"}),
        # The copy that a sandbox may only read was written to all the same, by its own image.
        (
            {
                "workspace": HostPathVolume("/srv/copies"),
                "agent": HostSource("/srv/a"),
                "access": Access.RO,
            },
            {f"/srv/copies/{OWN}"},
        ),
        ({"agent": HostSource("/srv/a"), "access": Access.RW}, {"/srv/a"}),
        (
            {"agent": ClaimSource(name="household", sub_path="a"), "access": Access.RW},
            {"claim:team/household/a"},
        ),
        ({"pod": a_claim()}, {"claim:team/household"}),
    ],
)
def test_what_a_pod_writes_to(changes: dict[str, Any], expected: set[str]) -> None:
    (pod,) = running(made(KEY, **changes)).cache
    assert set(pod.writes) == expected


WRITES: dict[str, Any] = {"binds": ("/srv/a:/a:rw",)}


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({}, False),
        ({"binds": ("/srv/a/b:/b:ro",)}, True),
        ({"binds": ("/srv/a/b/c/d:/b:ro",)}, True),
        ({"workspace": HostPathVolume("/srv/a/copies")}, True),
        # A directory of the key's own, which lies in the one that is named.
        ({"workspace": HostPathVolume("/srv/a")}, True),
        ({"agent": HostSource("/srv/a/dev")}, True),
        ({"agent": HostSource("/srv/a/dev"), "access": Access.RO}, True),
        ({"agent": HostSource("/srv/a/dev"), "access": Access.RW}, True),
        # Shared, as itself.
        ({"binds": ("/srv/a:/b:rw",)}, False),
        # Its skills lie in it.
        ({"agent": HostSource("/srv/a")}, True),
        ({"agent": HostSource("/srv/a"), "access": Access.RW}, True),
        # Beside it, and around it.
        ({"binds": ("/srv/ab:/b:ro", "/srv/b:/c:rw")}, False),
        ({"binds": ("/srv/household:/b:ro", "/srv:/c:ro")}, False),
    ],
)
def test_beside_a_pod_that_writes_to_a_directory(changes: dict[str, Any], *, is_refused: bool) -> None:
    said = refusal(running(made(**WRITES)), **changes)
    assert bool(said) == is_refused
    if is_refused:
        assert said.startswith(f"{Reason.BIND_REFUSED}: '/srv/a/")
        assert " is refused: it lies in /srv/a, to which a sandbox writes" in said


@pytest.mark.parametrize(
    ("key", "sub_path", "refused"),
    [
        (OTHER, "", {"agent", "mount"}),
        (OTHER, "agents", {"agent", "mount"}),
        # Shared, as itself; but not the skills in it.
        (OTHER, "agents/dev", {"agent"}),
        (OTHER, "agents/d", set()),
        # Another claim, for all that its name is the same.
        (ELSEWHERE, "agents", set()),
    ],
)
def test_beside_a_pod_that_writes_to_a_claim(key: RuntimeKey, sub_path: str, refused: set[str]) -> None:
    beside = running(made(key, pod=a_claim(sub_path)))
    agent = ClaimSource(name="household", sub_path="agents/dev")
    for access in Access:
        assert bool(refusal(beside, agent=agent, access=access)) == ("agent" in refused)
    assert bool(refusal(beside, pod=a_claim("agents/dev", read_only=True))) == ("mount" in refused)


SKILLS_OVER: list[dict[str, Any]] = [
    {"agent": HostSource("/srv/a"), "access": Access.RW},
    {"agent": ClaimSource(name="household", sub_path="agents/dev"), "access": Access.RW},
]


@pytest.mark.parametrize("config", SKILLS_OVER, ids=["host", "claim"])
def test_sessions_of_one_agent_write_to_one_workspace_and_all_see_its_skills(config: dict[str, Any]) -> None:
    beside = running(made(**config))
    (pod,) = beside.cache
    assert list(pod.writes.values()) == [{"skills"}]
    for access in Access:
        assert refusal(beside, **{**config, "access": access}) == ""
    inner = (
        {"binds": ("/srv/a/other:/b:ro",)}
        if isinstance(config["agent"], HostSource)
        else {"pod": a_claim("agents/dev/other", at="/b", read_only=True)}
    )
    assert refusal(beside, **inner) != ""


def test_what_is_mounted_over_something_else_can_be_swapped() -> None:
    """A place in a directory is taken, but not by what is in that place on the node."""
    binds = ("/srv/a:/a:rw", "/srv/b:/a/b:ro")
    assert refusal(running(made(binds=binds)), binds=("/srv/a/b:/b:ro",)) != ""
    both = ("/srv/a:/a:rw", "/srv/a/b:/a/b:ro", "/srv/a:/other:rw")
    assert refusal(running(), binds=both[:2]) == ""
    assert refusal(running(), binds=both) != ""


def test_what_only_reads_keeps_nobody_away() -> None:
    assert refusal(running(made(binds=("/srv/a:/a:ro",))), binds=("/srv/a/b:/b:rw",)) == ""


def test_a_pod_does_not_write_around_what_it_mounts_itself() -> None:
    assert refusal(running(), binds=("/srv/a:/a:rw", "/srv/a/b:/b:ro")) != ""
    assert refusal(running(), binds=("/srv/a:/a:rw", "/srv/a/b/c:/a/b:ro")) != ""
    assert refusal(running(), pod=a_claim("x"), workspace=ClaimVolume("household")) == ""
    assert refusal(running(), pod=a_claim(), workspace=ClaimVolume("household")) != ""


def test_the_pod_that_it_replaces_does_not_count() -> None:
    assert refusal(running(made(KEY, **WRITES)), binds=("/srv/a/b:/b:ro",)) == ""


def test_it_counts_as_long_as_it_is_there() -> None:
    pods = running(made(**WRITES))
    known = pods.cache.get((OTHER.namespace, made(**WRITES)["metadata"]["name"]))
    assert known is not None
    pods.cache.vanish(known)
    assert refusal(pods, binds=("/srv/a/b:/b:ro",)) == ""


def test_what_is_not_proven_ours_forbids_nobody_anything() -> None:
    stranger = made(**WRITES)
    stranger["metadata"]["annotations"]["sandkeeper.dev/key"] = "agent:somebody"
    (seen,) = (pods := running(stranger)).cache
    assert seen.key is None
    assert seen.writes == {"/srv/a": frozenset()}
    assert refusal(pods, binds=("/srv/a/b:/b:ro",)) == ""
