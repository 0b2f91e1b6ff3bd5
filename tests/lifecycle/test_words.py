"""What people read, word for word: a message is written again as soon as a letter of it changes."""

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.situations import (
    DAY,
    HASH,
    HOUR,
    MINUTE,
    NEWER_HASH,
    NOW,
    OTHER_HASH,
    POLICY_GONE,
    SECOND,
    ago,
    known,
    moved,
    newcomer,
    raw,
    runtime,
    sandbox,
    situation,
    wanted,
)
from sandkeeper.api.conditions import Reason
from sandkeeper.lifecycle import (
    Claimant,
    Observed,
    PreflightCheck,
    Pruned,
    RuntimeState,
    Situation,
    decide,
)

OTHER = wanted(OTHER_HASH)
FINE = PreflightCheck(config_hash=OTHER_HASH)
NO_IMAGE = PreflightCheck(config_hash=OTHER_HASH, problem=Reason.IMAGE_MISSING, message="No such image.")
HOT = sandbox(desire=OTHER, record=known(last_used_at=ago(2 * MINUTE)))
IDLE_FOR_AGES = known(last_used_at=ago(30 * DAY))


def in_state(state: RuntimeState, **changes: Any) -> Observed:
    return runtime(state=state, **changes)


def pruned(reason: Reason, **changes: Any) -> Claimant:
    mark = Pruned(at=ago(HOUR), reason=reason, last_used=None)
    return sandbox(record=known(None, pruned=mark, last_used_at=ago(30 * DAY)), **changes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (situation(sandbox()), "It runs."),
        (situation(sandbox(paused=True), sandbox("b")), "It runs."),
        (situation(sandbox(), observed=in_state(RuntimeState.STOPPED)), "Its runtime is starting again."),
        (situation(newcomer(), observed=None), "Its runtime is being made."),
        (situation(sandbox(), observed=None), "Its runtime is gone; a new one is being made."),
        (situation(newcomer(), observed=in_state(RuntimeState.CREATED)), "Its runtime is starting."),
        (
            situation(newcomer(desire=wanted(setup=True)), observed=runtime(has_setup=True), fresh="r1"),
            "Its setupCommand runs.",
        ),
        (situation(sandbox(), observed=in_state(RuntimeState.FAILED)), "Its runtime died."),
        (
            situation(newcomer(), observed=runtime(has_setup=True)),
            "It cannot be proven that its setupCommand completed; its runtime is made anew.",
        ),
        (
            situation(newcomer(desire=OTHER), observed=in_state(RuntimeState.CREATED)),
            "Its runtime is not wanted any more, and was never ready.",
        ),
        (
            situation(sandbox(), observed=in_state(RuntimeState.TERMINATING)),
            "Its old runtime is on its way out.",
        ),
        (situation(sandbox(desire=OTHER), preflight=FINE), "Its old runtime makes way."),
        (situation(sandbox(stopped=True)), "It is being stopped, as spec.state says."),
        (
            situation(sandbox(stopped=True), observed=in_state(RuntimeState.TERMINATING)),
            "It is being stopped, as spec.state says.",
        ),
        (
            situation(
                sandbox(stopped=True),
                observed=replace(in_state(RuntimeState.TERMINATING), message="Something holds it."),
            ),
            "Something holds it.",
        ),
        (
            situation(sandbox(stopped=True), observed=in_state(RuntimeState.STOPPED)),
            "Stopped, as spec.state says; its volumes are kept.",
        ),
        (
            situation(sandbox(record=IDLE_FOR_AGES)),
            "Its runtime is being removed: nobody used it for idleSeconds.",
        ),
        (
            situation(sandbox(desire=wanted(max_age=HOUR))),
            "Its runtime is being removed: it reached its greatest age.",
        ),
        (
            situation(pruned(Reason.IDLE), observed=None),
            (
                "Its runtime was removed at 2026-01-10T11:00:00Z: nobody used it for idleSeconds. "
                "Set the annotation sandkeeper.dev/last-used to the present time to have a new one."
            ),
        ),
        (
            situation(pruned(Reason.TOO_OLD), observed=None),
            (
                "Its runtime was removed at 2026-01-10T11:00:00Z: it reached its greatest age. "
                "Set the annotation sandkeeper.dev/last-used to the present time to have a new one."
            ),
        ),
        (
            situation(sandbox(desire=moved(None)), observed=None),
            "It is not sandboxed: its policy leaves it out, so nothing is made for it.",
        ),
        (situation(sandbox(desire=moved("a/b/c")), observed=None), "It is moving to a/b/c."),
        (
            situation(sandbox(paused=True), sandbox("b"), observed=None),
            "Sandbox sandbox-a is paused, so nothing is done; it has no runtime.",
        ),
        (
            situation(sandbox(paused=True), sandbox("b"), observed=in_state(RuntimeState.STOPPED)),
            "Sandbox sandbox-a is paused, so nothing is done; its runtime is Stopped.",
        ),
        (
            situation(sandbox(desire=POLICY_GONE, created_at=ago(3 * DAY)), sandbox("b")),
            "The older Sandbox sandbox-a, which rules this runtime, cannot be resolved: The policy is gone.",
        ),
        (
            situation(sandbox(created_at=ago(3 * DAY)), sandbox("b", desire=OTHER)),
            (
                "The older Sandbox sandbox-a has the same key and wants a different runtime; it rules. Make both "
                "agree, give this one a scope or session of its own, or delete sandbox-a."
            ),
        ),
        (
            situation(
                sandbox(desire=replace(wanted(), most_sharers=1), created_at=ago(3 * DAY)),
                sandbox("b", desire=replace(wanted(), most_sharers=1)),
            ),
            (
                "As many older Sandboxes share this runtime as it can belong to. Give this one a scope or session of "
                "its own, or delete some of the others."
            ),
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_how_it_is(given: Situation, message: str) -> None:
    reports = decide(given).reports

    assert reports["b" if "b" in reports else "a"].readiness.message == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            situation(HOT),
            (
                f"{HASH} runs; {OTHER_HASH} is wanted. It is in use or held, and is replaced when it no longer is: "
                "at 2026-01-10T12:03:00Z at the earliest."
            ),
        ),
        (
            situation(replace(HOT, desire=wanted(OTHER_HASH, rollout_paused=True))),
            f"{HASH} runs; {OTHER_HASH} is wanted. The policy holds back replacements (rollout).",
        ),
        (
            situation(sandbox(desire=OTHER), clock_trusted=False),
            (
                f"{HASH} runs; {OTHER_HASH} is wanted. It is replaced when the operator's clock agrees with the API "
                "server's."
            ),
        ),
        (
            situation(sandbox(desire=OTHER), removals_from=NOW + SECOND, preflight=FINE),
            f"{HASH} runs; {OTHER_HASH} is wanted. It is replaced when the rate of replacements allows.",
        ),
        (
            situation(sandbox(desire=OTHER), preflight=NO_IMAGE),
            f"{HASH} runs; {OTHER_HASH} is wanted. It cannot be replaced (ImageMissing): No such image.",
        ),
        (
            situation(replace(HOT, desire=wanted(OTHER_HASH, backend="pod"))),
            (
                f"{HASH} runs on backend docker; {OTHER_HASH} is wanted on pod. It is in use or held, and is replaced "
                "when it no longer is: at 2026-01-10T12:03:00Z at the earliest."
            ),
        ),
        (
            situation(sandbox(), observed=runtime(config_hash=NEWER_HASH)),
            (
                f"{NEWER_HASH} runs, made by a newer operator; this one would make {HASH}. "
                "It is left alone until it is pruned or stopped."
            ),
        ),
        (
            situation(sandbox(desire=moved()), observed=runtime(config_hash=NEWER_HASH)),
            (
                f"{NEWER_HASH} runs, made by a newer operator; this one would make nothing here. "
                "It is left alone until it is pruned or stopped."
            ),
        ),
        (
            situation(sandbox(recreate="1", stopped=True)),
            f"A new runtime of {HASH} was asked for by annotation. It is replaced when it is to run again.",
        ),
        (
            situation(sandbox(wipe="1", stopped=True)),
            (
                f"A new runtime of {HASH} with a fresh copy of the workspace was asked for by annotation. "
                "It is replaced when it is to run again."
            ),
        ),
        (
            situation(sandbox(desire=moved(None), paused=True), sandbox("b", desire=moved(None))),
            "It is no longer to be sandboxed; what it had still runs. Nothing is done about it while it is paused.",
        ),
        (
            situation(sandbox(desire=moved("a/b/c"), stopped=True)),
            "It belongs to a/b/c now, and still uses the runtime that it had. It is replaced when it is to run again.",
        ),
    ],
    ids=lambda value: value[:70] if isinstance(value, str) else "",
)
def test_in_what_it_differs(given: Situation, message: str) -> None:
    reports = decide(given).reports
    drift = reports["b" if "b" in reports else "a"].drift

    assert drift is not None
    assert drift.message == message


def test_who_has_not_asked_for_a_fresh_copy() -> None:
    asking = sandbox(wipe="1", created_at=ago(3 * DAY))
    others = [sandbox(f"b{number:02}") for number in range(12)]

    few = decide(situation(asking, *others[:10])).reports["a"].wipe_pending
    many = decide(situation(asking, *others)).reports["a"].wipe_pending

    begin = (
        "A fresh copy of the workspace was asked for. It is made when all who share the workspace have set the "
        "annotation sandkeeper.dev/wipe; these have not: "
    )
    named = ", ".join(f"sandbox-b{number:02}" for number in range(10))
    assert few == f"{begin}{named}."
    assert many == f"{begin}{named} and 2 more."


def test_who_has_not_asked_is_told_while_nothing_can_be_done() -> None:
    asking, paused = sandbox(wipe="1"), sandbox("b", paused=True)

    pending = decide(situation(asking, paused, observed=None)).reports["a"].wipe_pending

    assert pending is not None
    assert pending.endswith("these have not: sandbox-b.")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (
            {"last_used": "yesterday"},
            (
                "sandkeeper.dev/last-used='yesterday' is ignored: it is not a time with an offset (RFC 3339); "
                "write it like 2026-01-02T03:04:05Z."
            ),
        ),
        (
            {"hold_until": "x" * 41},
            (
                f"sandkeeper.dev/hold-until='{'x' * 39}…' is ignored: it is not a time with an offset (RFC 3339); "
                "write it like 2026-01-02T03:04:05Z."
            ),
        ),
        (
            {"last_used": raw(NOW + HOUR)},
            (
                "sandkeeper.dev/last-used='2026-01-10T13:00:00+00:00' is ignored: it is more than 60 s ahead of the "
                "operator's clock; write the present time."
            ),
        ),
    ],
)
def test_what_is_wrong_with_an_annotation(said: dict[str, str], complaint: str) -> None:
    assert decide(situation(sandbox(**said))).reports["a"].invalid_annotations == (complaint,)


def test_a_bad_value_of_just_that_length_is_repeated_as_it_is() -> None:
    (complaint,) = decide(situation(sandbox(hold_until="x" * 40))).reports["a"].invalid_annotations

    assert f"='{'x' * 40}' is ignored" in complaint
