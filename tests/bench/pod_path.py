"""Where the time between apply and Ready goes with a Pod: with an operator that notes its steps."""

import json
import time

from bench.figures import Json, Section, Series, Table, milliseconds
from bench.kube import Watch, pods
from bench.pod_bare import is_gone
from bench.ready import is_running
from bench.stage import POD_POLICY, PODS, Stage
from testbed import progress

__all__ = ["measure"]

_WARM_UP = 2

STEPS = (
    "POST, until the watch told the operator",
    "until a pass begins",
    "observe, decide, and see to the NetworkPolicy",
    "POST of the Pod",
    "scheduler and kubelet, until the watch told the operator that it runs",
    "until the pass that sees it",
    "observe and decide",
    "write the status, until the watch told the client",
)


async def measure(stage: Stage, *, count: int) -> Section:
    """Follow ``count`` Sandboxes, one after the other."""
    trace = stage.folder / "pod-trace.jsonl"
    spans: list[tuple[str, str, float, float]] = []
    async with (
        stage.operator(trace=trace, **PODS),
        Watch(stage.kube, stage.namespace, pods) as watch,
    ):
        for number in range(-_WARM_UP, count):
            name = f"pod-path-{number + _WARM_UP}"
            began = time.monotonic()
            await stage.create(name, policyRef={"name": POD_POLICY})
            seen = await stage.watch.until(name, is_running)
            pod = seen.object["status"]["runtime"]["name"]
            await stage.delete(name)
            await watch.until(pod, is_gone)
            if number >= 0:
                spans.append((name, pod, began, seen.at))
    notes = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    each = [_steps(notes, *span) for span in spans]
    passes = Series.of([sum(_is_pass(note, *span) for note in notes) for span in spans])
    progress.say(f"The path from apply to Ready, with Pods: {count} followed")
    series = {step: Series.of([steps[step] for steps in each]) for step in STEPS}
    return _section(series, Series.of([ended - began for _, _, began, ended in spans]), passes)


def _is_pass(note: Json, name: str, _pod: str, began: float, ended: float) -> bool:
    return (note["step"], note.get("about")) == ("pass", name) and bool(began <= note["began"] <= ended)


def _steps(notes: list[Json], name: str, pod: str, began: float, ended: float) -> dict[str, float]:
    within = [note for note in notes if began <= note["began"] <= ended]

    def first(step: str, **facts: str) -> Json:
        return next(
            note
            for note in within
            if note["step"] == step and all(note.get(fact) == value for fact, value in facts.items())
        )

    put, look = first("put", about=name), first("pass", about=name)
    create = first("api create", resource="pods")
    runs = first("put", about=pod, runs="True")
    # The pass that was told may have begun before, for another reason.
    sees = next(note for note in within if note["step"] == "pass" and note["ended"] > runs["ended"])
    status = first("status", about=name)
    seen_at = max(sees["began"], runs["ended"])
    return dict(
        zip(
            STEPS,
            (
                put["began"] - began,
                look["began"] - put["began"],
                create["began"] - look["began"],
                create["ended"] - create["began"],
                runs["began"] - create["ended"],
                seen_at - runs["began"],
                status["began"] - seen_at,
                ended - status["began"],
            ),
            strict=True,
        )
    )


def _section(steps: dict[str, Series], whole: Series, passes: Series) -> Section:
    rows = [(step, milliseconds(one.p50), milliseconds(one.p90)) for step, one in steps.items()]
    rows.append(("the whole", milliseconds(whole.p50), milliseconds(whole.p90)))
    kubelet = steps[STEPS[4]].p50
    return Section(
        name="podPath",
        title="Where that time goes, with a Pod",
        method="The same path once more, with an operator that notes when its steps begin and end.",
        tables=(Table(("", "p50", "p90"), tuple(rows)),),
        headline=f"Of {milliseconds(whole.p50)} to Ready with a Pod, scheduler and kubelet take "
        f"{milliseconds(kubelet)}.",
        verdict=f"The operator makes {passes.p50:g} passes over the Sandbox in that time: one when it comes, and one "
        "for each thing that the Pod says of itself.",
        data={
            **{step: series.to_json() for step, series in steps.items()},
            "passes": passes.to_json(),
        },
    )
