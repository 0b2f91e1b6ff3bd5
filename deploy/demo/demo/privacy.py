"""Privacy: from each other, and from those who write policies."""

from typing import Final

from demo.narration import check
from demo.world import World
from sandkeeper.api.conditions import Reason

_REASON: Final = '{.status.conditions[?(@.type=="Ready")].reason}'


def private_and_shared(world: World) -> None:
    """Let both write down their thoughts, let Rain try to read Tio's, and see what she can reach and share."""
    stage = world.stage
    for sandbox, whose in (("rain", "Rain's"), ("tio-claude", "Tio's")):
        script = f'echo "{whose} own thoughts." > MEMORY.md'
        written = stage.sandkeeper("exec", sandbox, "--", "sh", "-c", script)
        check(written.returncode == 0, f"{whose} memory is written")
    foreign = stage.places.household / "tio-claude" / "MEMORY.md"
    own = stage.sandkeeper("exec", "rain", "--", "cat", "MEMORY.md")
    check("Rain's own thoughts" in own.stdout, "Rain reads her own")
    for path in (f"../{foreign.parent.name}/MEMORY.md", str(foreign)):
        tried = stage.sandkeeper("exec", "rain", "--", "cat", path)
        check(tried.returncode != 0 and "Tio" not in tried.stdout, "and not Tio's")
    script = f"ln -sfn {foreign} peek && cat peek"
    tried = stage.sandkeeper("exec", "rain", "--", "sh", "-c", script)
    check(tried.returncode != 0 and "Tio" not in tried.stdout, "not even through a link")
    world.isolate()
    script = "echo 'Notes for both of us.' > shared/notes.md"
    stage.sandkeeper("exec", "rain", "--", "sh", "-c", script)
    shared = stage.sandkeeper("exec", "tio-claude", "--", "cat", "shared/notes.md")
    check("Notes for both of us." in shared.stdout, "what Rain shares, Tio reads")


def no_way_out_by_policy(world: World) -> None:
    """Try by policy what the operator's own configuration does not allow to anybody."""
    stage = world.stage
    linked = stage.sandkeeper("exec", "rain", "--", "ln", "-sfn", "/etc", "way-out")
    check(linked.returncode == 0, "Rain has a link to /etc in her directory, which a host would follow")
    stage.apply("trespass.yaml")
    for name in ("trespasser-by-dots", "trespasser-by-link"):
        stage.wait(name, until=f"jsonpath={_REASON}={Reason.BIND_REFUSED}")
        ready = stage.condition(name, "Ready")
        check(ready, f"{name}: {ready['message'] if ready else ''}")
    check(not world.runtimes("trespasser"), "nothing was made for either")
    stage.delete("trespass.yaml")
