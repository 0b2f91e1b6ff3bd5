"""A thousand at once, side by side: bare Pods, a kopf sketch, Sandkeeper."""

from bench import targets
from bench.compared import compare
from bench.contenders import BARE, OURS, SKETCH, field_of
from bench.figures import Section, milliseconds
from bench.stage import Stage
from bench.targets import Target

__all__ = ["ABOUT", "measure"]

ABOUT = """\
On nodes whose kubelets are played by kwok ({nodes} of them), so that Pods are Ready at once; scheduler, controllers and
API server are real. Bare Pods have exactly the spec that Sandkeeper gives, and nobody looks after them: that is the
ceiling of this machine. The sketch (`tests/bench/sketch.py`) is what anybody would write first with kopf: a Pod for
each Sandbox and a status, and nothing else. Each works in its own namespace, they take turns, and each is cleared
before the next begins. Ready is what a watch of the client's sees. The figures are medians of {rounds} rounds. Writes
are counted by the API server (the difference of `apiserver_request_total`, without the client's), by the client's
watch, and by the operator itself; the API server's counters tell nobody apart, so they count only where nobody else
wrote."""


async def measure(stage: Stage, *, count: int, rounds: int, nodes: int) -> Section:
    """Have ``count`` at once of each, ``rounds`` times in turns."""
    async with field_of(stage, nodes=nodes, names=(BARE, SKETCH, OURS)) as field:
        found = await compare(field, count=count, rounds=rounds, rate=0)

    def speed(name: str) -> float:
        return found.median(name, lambda each: each.throughput)

    share = found.times(speed)
    promised = (
        Target(what="part of the bare Pods' rate", bound=0.7, measured=share, at_least=True),
        *found.cost_targets(),
    )
    bare, sketch, ours = (sum(found.shares(name).values()) for name in (BARE, SKETCH, OURS))
    itself = found.shares(OURS)[OURS]
    reading = (
        f"The processors are busy throughout. A bare Pod takes {milliseconds(bare)} of them, a Sandbox of the sketch "
        f"{milliseconds(sketch)} and one of Sandkeeper {milliseconds(ours)}, of which {milliseconds(itself)} are its "
        "own: a Sandbox is one more object for the API server, with a status. An operator that took no time at all "
        f"would reach {bare / (ours - itself):.2f} of the ceiling."
    )
    return Section(
        name="burst",
        title=f"{count} at once, beside bare Pods and a sketch",
        method=f"{ABOUT.format(nodes=nodes, rounds=rounds)} All arrive at once.",
        tables=(*found.tables(), targets.table(promised)),
        headline=f"{count} at once: {speed(OURS):.0f} a second Ready, which is {share:.2f} of what bare Pods reach "
        f"({speed(BARE):.0f}); a kopf sketch reaches {speed(SKETCH) / speed(BARE):.2f}.",
        verdict=f"{targets.verdict(promised)} {reading}",
        data={
            "count": count,
            "nodes": nodes,
            "rounds": rounds,
            "ofTheCeiling": round(share, 3),
            "sketchOfTheCeiling": round(speed(SKETCH) / speed(BARE), 3),
            "contenders": found.to_json(),
            "targets": targets.to_json(promised),
        },
    )
