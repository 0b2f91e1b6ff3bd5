"""From applying a Sandbox to Ready, in turns with creating the same Pod by hand, both on a real node."""

import time
from dataclasses import dataclass, field

from bench.figures import Section, Series, Table, milliseconds, ratio
from bench.kube import Watch, pods
from bench.pod_bare import BarePods, is_gone, is_ready
from bench.ready import is_running
from bench.stage import POD_POLICY, PODS, Stage
from support.pods import POD_IMAGE
from testbed import progress

__all__ = ["measure"]

TARGET = 1.2
_WARM_UP = 2


@dataclass
class _Found:
    ours: list[float] = field(default_factory=list)
    posts: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    """From the Pod's Ready to the Sandbox's, both as the client's watches tell."""
    theirs: list[float] = field(default_factory=list)


async def measure(stage: Stage, *, count: int) -> Section:
    """Take ``count`` samples of each."""
    found, warm = _Found(), _Found()
    policy = {"backend": "pod", "container": {"image": POD_IMAGE}}
    async with stage.operator(**PODS), Watch(stage.kube, stage.namespace, pods) as watch:
        bare = BarePods(stage.kube, watch, namespace=stage.namespace, policy=policy)
        for number in range(-_WARM_UP, count):
            into = warm if number < 0 else found
            # Each goes first every other time: what was just removed may still keep the node busy.
            if number % 2 == 0:
                await _by_hand(bare, f"bare-{number + _WARM_UP}", into)
            await _sandbox(stage, watch, bare, f"pod-ready-{number + _WARM_UP}", into)
            if number % 2:
                await _by_hand(bare, f"bare-{number + _WARM_UP}", into)
            if number % 10 == 9:
                progress.say(f"Apply to Ready, with Pods: {number + 1} of {count}")
    return _section(found)


async def _sandbox(stage: Stage, watch: Watch, bare: BarePods, name: str, into: _Found) -> None:
    began = time.monotonic()
    await stage.create(name, policyRef={"name": POD_POLICY})
    posted = time.monotonic()
    seen = await stage.watch.until(name, is_running)
    runtime = seen.object["status"]["runtime"]
    pod = await watch.until(runtime["name"], is_ready)
    assert pod.object["metadata"]["uid"] == runtime["id"], f"{name} is Ready with another Pod"
    into.ours.append(seen.at - began)
    into.posts.append(posted - began)
    into.lags.append(seen.at - pod.at)
    if len(into.ours) == 1:
        await _compare(watch, bare, f"like-{name}", runtime["name"])
    await stage.delete(name)
    await watch.until(runtime["name"], is_gone)


async def _by_hand(bare: BarePods, name: str, into: _Found) -> None:
    began = time.monotonic()
    await bare.make(name)
    into.theirs.append((await bare.ready(name)).at - began)
    await bare.remove(name)


async def _compare(watch: Watch, bare: BarePods, name: str, pod: str) -> None:
    """See to it that the baseline is the same Pod."""
    await bare.make(name)
    one, other = await bare.ready(name), await watch.until(pod, is_ready)
    assert bare.is_like(one.object, other.object), "the Pods of the baseline are made otherwise"
    await bare.remove(name)


def _section(found: _Found) -> Section:
    ours, theirs, posts, lags = map(Series.of, (found.ours, found.theirs, found.posts, found.lags))
    times = ratio(ours.p50, theirs.p50)

    def row(what: str, series: Series) -> tuple[str, ...]:
        return what, milliseconds(series.p50), milliseconds(series.p90), str(len(series.samples))

    rows = (
        row("Sandbox: POST to Ready", ours),
        row("of which the POST itself", posts),
        row("of which after its Pod was Ready", lags),
        row("the same Pod by hand: POST to Ready", theirs),
        ("ratio", f"{times:.2f}", f"{ratio(ours.p90, theirs.p90):.2f}", ""),
    )
    return Section(
        name="podApplyToReady",
        title="From apply to Ready, with a Pod",
        method="As with containers, on a node with a real kubelet and containerd. The clock starts before the client's "
        "POST, of a Sandbox or of a Pod with exactly the spec that the operator gives, and stops when the client's "
        "watch shows the condition Ready of that very object. The two take turns, and each is gone before the next.",
        tables=(Table(("", "p50", "p90", "n"), rows),),
        headline=f"From apply to Ready with a Pod: {times:.2f} times as long as the same Pod by hand "
        f"(p50; target {TARGET}).",
        verdict=f"Target: p50 at most {TARGET} times the baseline. "
        + ("Reached." if times <= TARGET else "Not reached.")
        + f" Sandkeeper adds {milliseconds(ours.p50 - theirs.p50)}.",
        data={
            "sandbox": ours.to_json(),
            "post": posts.to_json(),
            "afterPodReady": lags.to_json(),
            "byHand": theirs.to_json(),
            "ratio": round(times, 3),
            "target": TARGET,
        },
    )
