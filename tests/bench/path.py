"""Where the time between apply and Ready goes: the same path again, with an operator that notes its steps."""

import json
import time
from pathlib import Path

from bench.figures import Json, Section, Series, Table, milliseconds
from bench.ready import is_running
from bench.stage import Stage
from testbed import progress

__all__ = ["measure"]

_WARM_UP = 2

STEPS = (
    "POST, until the watch told the operator",
    "until a pass begins",
    "observe and decide",
    "write the finalizer",
    "engine: create",
    "engine: start",
    "engine: inspect",
    "decide, and between the calls",
    "write the status, until the watch told the client",
)


async def measure(stage: Stage, *, count: int) -> Section:
    """Follow ``count`` Sandboxes, one after the other."""
    trace = stage.folder / "trace.jsonl"
    spans: list[tuple[str, float, float]] = []
    async with stage.operator(trace=trace):
        for number in range(-_WARM_UP, count):
            name = f"path-{number + _WARM_UP}"
            began = time.monotonic()
            await stage.create(name)
            seen = await stage.watch.until(name, is_running)
            await stage.delete(name)
            if number >= 0:
                spans.append((name, began, seen.at))
    notes = [json.loads(line) for line in _lines(trace)]
    each = [_steps(notes, *span) for span in spans]
    progress.say(f"The path from apply to Ready: {count} followed")
    series = {step: Series.of([steps[step] for steps in each]) for step in STEPS}
    return _section(series, Series.of([ended - began for _, began, ended in spans]))


def _lines(trace: Path) -> list[str]:
    return trace.read_text(encoding="utf-8").splitlines()


def _steps(notes: list[Json], name: str, began: float, ended: float) -> dict[str, float]:
    within = [note for note in notes if began <= note["began"] <= ended]

    def first(step: str) -> Json:
        return next(n for n in within if n["step"] == step and n.get("about", name) == name)

    put, look, finalizer, create, status = map(first, ("put", "pass", "finalizer", "create", "status"))
    inside = [n for n in within if create["began"] <= n["began"] <= create["ended"]]
    engine = {n["step"]: n["ended"] - n["began"] for n in inside if n["step"].startswith("engine ")}
    known = {
        STEPS[0]: put["began"] - began,
        STEPS[1]: look["began"] - put["began"],
        STEPS[2]: finalizer["began"] - look["began"],
        STEPS[3]: finalizer["ended"] - finalizer["began"],
        STEPS[4]: engine["engine create_container_from_config"],
        STEPS[5]: engine["engine start"],
        STEPS[6]: engine["engine inspect_container"],
        STEPS[8]: ended - status["began"],  # often before the operator has its answer
    }
    return {**known, STEPS[7]: ended - began - sum(known.values())}


def _section(steps: dict[str, Series], whole: Series) -> Section:
    rows = [(step, milliseconds(one.p50), milliseconds(one.p90)) for step, one in steps.items()]
    rows.append(("the whole", milliseconds(whole.p50), milliseconds(whole.p90)))
    return Section(
        name="path",
        title="Where that time goes",
        method="The same path once more, with an operator that notes when its steps begin and end.",
        tables=(Table(("", "p50", "p90"), tuple(rows)),),
        headline=f"Of {milliseconds(whole.p50)} to Ready, the engine's create and start take "
        f"{milliseconds(steps['engine: create'].p50 + steps['engine: start'].p50)}.",
        data={step: series.to_json() for step, series in steps.items()},
    )
