"""From applying a Sandbox to Ready, in turns with creating and starting the same container by hand."""

import asyncio
import time

from bench.figures import Json, Section, Series, Table, milliseconds, ratio
from bench.kube import Seen
from bench.stage import Stage
from testbed import progress

__all__ = ["is_running", "measure"]

TARGET = 1.3
_WARM_UP = 2


def is_running(seen: Seen) -> bool:
    """Whether a client may rely on it: Ready is True, and of the generation that is there."""
    status: Json = seen.object.get("status") or {}
    ready = [c for c in status.get("conditions", ()) if c["type"] == "Ready"]
    return (
        seen.kind != "DELETED"
        and status.get("observedGeneration") == seen.object["metadata"]["generation"]
        and [(c["status"], c["reason"]) for c in ready] == [("True", "Running")]
    )


async def measure(stage: Stage, *, count: int) -> Section:
    """Take ``count`` samples of each."""
    ours: list[float] = []
    theirs: list[float] = []
    posts: list[float] = []
    async with stage.operator():
        for number in range(-_WARM_UP, count):
            by_hand, ready, post = await _sample(stage, f"ready-{number + _WARM_UP}", first=number % 2 == 0)
            if number >= 0:
                theirs.append(by_hand)
                ours.append(ready)
                posts.append(post)
            if number % 10 == 9:
                progress.say(f"Apply to Ready: {number + 1} of {count}")
    return _section(Series.of(ours), Series.of(theirs), Series.of(posts))


async def _sample(stage: Stage, name: str, *, first: bool) -> tuple[float, float, float]:
    by_hand = await _make_bare(stage) if first else None
    began = time.monotonic()
    await stage.create(name)
    posted = time.monotonic()
    seen = await stage.watch.until(name, is_running)
    runtime_id = seen.object["status"]["runtime"]["id"]
    state = (await asyncio.to_thread(stage.engine.inspect_container, runtime_id))["State"]
    assert state["Running"], f"{name} is Ready, and its container is not running: {state}"
    if first:
        await asyncio.to_thread(_compare, stage, runtime_id)
    await stage.delete(name)
    if by_hand is None:
        by_hand = await _make_bare(stage)
    return by_hand, seen.at - began, posted - began


async def _make_bare(stage: Stage) -> float:
    # Directly, without a thread: nothing else happens meanwhile, and the baseline is to have every advantage.
    began = time.monotonic()
    container_id = stage.bare.make()
    took = time.monotonic() - began
    await asyncio.to_thread(stage.bare.remove, container_id)
    return took


def _compare(stage: Stage, runtime_id: str) -> None:
    """See to it that the baseline is the same container."""
    bare = stage.bare.make()
    try:
        assert stage.bare.is_like(bare, runtime_id), "the containers of the baseline are made otherwise"
    finally:
        stage.bare.remove(bare)


def _section(ours: Series, theirs: Series, posts: Series) -> Section:
    times = ratio(ours.p50, theirs.p50)
    added = ours.p50 - theirs.p50
    rows = (
        ("Sandbox: POST to Ready", milliseconds(ours.p50), milliseconds(ours.p90), str(len(ours.samples))),
        (
            "of which the POST itself",
            milliseconds(posts.p50),
            milliseconds(posts.p90),
            str(len(posts.samples)),
        ),
        (
            "the same container by hand",
            milliseconds(theirs.p50),
            milliseconds(theirs.p90),
            str(len(theirs.samples)),
        ),
        ("ratio", f"{times:.2f}", f"{ratio(ours.p90, theirs.p90):.2f}", ""),
    )
    return Section(
        name="applyToReady",
        title="From apply to Ready",
        method="The clock starts before the client's POST, and stops when its watch shows `Ready=True` of the "
        "generation that is there. By hand: the engine's calls to create and to start, with the same body, over a "
        "connection that is open already. The two take turns, and each is removed before the next.",
        tables=(Table(("", "p50", "p90", "n"), rows),),
        headline=f"From apply to Ready: {times:.2f} times as long as making the same container by hand "
        f"(p50; target {TARGET}).",
        verdict=f"Target: p50 at most {TARGET} times the baseline. "
        + ("Reached." if times <= TARGET else "Not reached.")
        + f" Sandkeeper adds {milliseconds(added)}.",
        data={
            "sandbox": ours.to_json(),
            "post": posts.to_json(),
            "byHand": theirs.to_json(),
            "ratio": round(times, 3),
            "target": TARGET,
        },
    )
