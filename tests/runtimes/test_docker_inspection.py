"""What an inspection of a container means."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sandkeeper.api.conditions import Reason
from sandkeeper.config.naming import labels
from sandkeeper.lifecycle.model import Observed, RuntimeState
from sandkeeper.runtimes.docker.inspection import is_ours, observed, preference, state_of
from support.engine import a_config, an_order

ORDER = an_order(a_config("tools:1"))
LABELS = labels(
    ORDER.key, installation="here", config_hash="v1-0123456789abcdef", has_setup=True, wiped_for=("0f", "a1")
)


def state(
    status: str, *, code: int = 0, oom: bool = False, started: bool = True, error: str = ""
) -> dict[str, Any]:
    return {
        "Status": status,
        "Running": status in {"running", "paused", "restarting"},
        "ExitCode": code,
        "OOMKilled": oom,
        "Error": error,
        "StartedAt": "2026-01-02T03:04:06.5Z" if started else "0001-01-01T00:00:00Z",
    }


def container(**changes: Any) -> dict[str, Any]:
    return {
        "Id": "abc",
        "Name": "/sk-main-x",
        "Created": "2026-01-02T03:04:05.123456789Z",
        "State": state("running"),
        "Config": {"Image": "tools:1", "Labels": dict(LABELS)},
        **changes,
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (state("created", started=False), (RuntimeState.CREATED, None)),
        (state("created", started=False, code=127, error="no such file"), (RuntimeState.CREATED, None)),
        (state("running"), (RuntimeState.RUNNING, None)),
        (state("running", oom=True), (RuntimeState.RUNNING, None)),
        (state("paused"), (RuntimeState.RUNNING, None)),
        (state("restarting"), (RuntimeState.STARTING, None)),
        (state("removing"), (RuntimeState.TERMINATING, None)),
        (state("dead"), (RuntimeState.FAILED, Reason.EXITED)),
        (state("exited", code=143), (RuntimeState.STOPPED, None)),
        (state("exited", code=143, oom=True), (RuntimeState.STOPPED, None)),
        (state("exited", code=0), (RuntimeState.FAILED, Reason.EXITED)),
        (state("exited", code=1), (RuntimeState.FAILED, Reason.EXITED)),
        (state("exited", code=137), (RuntimeState.FAILED, Reason.EXITED)),
        (state("exited", code=255), (RuntimeState.FAILED, Reason.EXITED)),
        (state("exited", code=137, oom=True), (RuntimeState.FAILED, Reason.OOM_KILLED)),
        (state("hibernating"), (RuntimeState.FAILED, Reason.EXITED)),
    ],
)
def test_states(given: dict[str, Any], expected: tuple[RuntimeState, Reason | None]) -> None:
    assert state_of({"State": given})[:2] == expected


def test_a_kill_at_the_end_of_our_own_grace_is_no_failure() -> None:
    assert state_of({"State": state("exited", code=137)}, stopped_by_us=True)[0] is RuntimeState.STOPPED
    out_of_memory = {"State": state("exited", code=137, oom=True)}
    assert state_of(out_of_memory, stopped_by_us=True)[1] is Reason.OOM_KILLED


@pytest.mark.parametrize(
    ("init", "given", "expected"),
    [
        (False, state("exited", code=137), RuntimeState.STOPPED),
        (False, state("exited", code=137, oom=True), RuntimeState.FAILED),
        (False, state("exited", code=1), RuntimeState.FAILED),
        (True, state("exited", code=137), RuntimeState.FAILED),
        (None, state("exited", code=137), RuntimeState.FAILED),
    ],
)
def test_without_an_init_a_stop_is_a_kill(
    init: bool | None,  # noqa: FBT001 - as the engine writes it
    given: dict[str, Any],
    expected: RuntimeState,
) -> None:
    assert state_of({"State": given, "HostConfig": {"Init": init}})[0] is expected


def test_the_message_says_how_it_ended() -> None:
    assert "exit code 137" in state_of({"State": state("exited", code=137)})[2]
    assert "out of memory" in state_of({"State": state("exited", code=137, oom=True)})[2]
    assert "docker unpause" in state_of({"State": state("paused")})[2]


def test_all_that_is_seen() -> None:
    assert observed(container(), node="ENGINE", in_use=True) == Observed(
        backend="docker",
        id="abc",
        name="sk-main-x",
        node="ENGINE",
        state=RuntimeState.RUNNING,
        created_at=datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
        config_hash="v1-0123456789abcdef",
        image="tools:1",
        has_setup=True,
        wiped_for=frozenset({"0f", "a1"}),
        in_use=True,
    )


@pytest.mark.parametrize(
    "text", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.100000000Z"]
)
def test_times_with_any_number_of_digits(text: str) -> None:
    seen = observed(container(Created=text), node="E", in_use=False)

    assert seen.created_at.replace(microsecond=0) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert seen.created_at.microsecond in {0, 100_000}


@pytest.mark.parametrize(
    "name",
    sorted(
        LABELS.keys() - {"sandkeeper.dev/config-hash", "sandkeeper.dev/setup", "sandkeeper.dev/wiped-for"}
    ),
)
def test_what_lacks_a_label_or_has_another_is_not_ours(name: str) -> None:
    without = {label: value for label, value in LABELS.items() if label != name}

    assert is_ours(container(), ORDER.key, "here")
    assert not is_ours(container(), ORDER.key, "elsewhere")
    assert not is_ours(container(), an_order(a_config("x"), "agent:other").key, "here")
    assert not is_ours(container(Config={"Labels": without}), ORDER.key, "here")
    assert not is_ours(container(Config={"Labels": LABELS | {name: "forged"}}), ORDER.key, "here")
    assert not is_ours(container(Config={"Labels": None}), ORDER.key, "here")


def test_what_runs_goes_before_what_is_newer_and_what_ever_ran_before_what_did_not() -> None:
    runs = container(Id="runs")
    stopped = container(Id="stopped", Created="2026-02-01T00:00:00Z", State=state("exited", code=143))
    never = container(Id="never", Created="2026-03-01T00:00:00Z", State=state("created", started=False))
    newer = container(Id="newer", Created="2026-04-01T00:00:00Z", State=state("created", started=False))

    ranked = sorted([never, stopped, newer, runs], key=preference, reverse=True)

    assert [one["Id"] for one in ranked] == ["runs", "stopped", "newer", "never"]
