"""How sandboxes end: for a while, by accident, and for good."""

from demo.narration import check
from demo.world import World


def idle_is_pruned(world: World) -> None:
    """Leave everything alone until the policy's idleSeconds have passed."""
    stage = world.stage
    before = world.runtimes()
    check(before, f"{world.noun}s that run now: {len(before)}")
    stage.wait("rain", "rain-evening", "tio-claude", until="jsonpath={.status.phase}=Pruned")
    stage.show()
    ready = stage.condition("rain", "Ready")
    check(ready and ready["reason"] == "Idle", ready["message"] if ready else "")
    check(not world.runtimes(), f"there is no {world.noun} left")


def use_brings_back(world: World) -> None:
    """Touch Rain's Sandbox, as a gateway does at the start of each run."""
    stage = world.stage
    touched = stage.sandkeeper("touch", "rain", "--wait", "60")
    check(touched.returncode == 0 and "Ready=True" in touched.stdout, "it is back, and ready")
    check(world.runtimes() == [stage.runtime("rain")], "alone: nobody asked for Tio's")
    stage.show()
    own = stage.sandkeeper("exec", "rain", "--", "cat", "MEMORY.md")
    check("Rain's own thoughts" in own.stdout, f"Rain's memory outlived the {world.noun}")


def death_is_mended(world: World) -> None:
    """Kill what runs for Rain."""
    stage = world.stage
    stage.sandkeeper("touch", "rain", "--wait", "60")
    before, count = stage.runtime("rain"), stage.status("rain").get("recoveries", 0)
    world.kill(before)
    stage.wait("rain", until=f"jsonpath={{.status.recoveries}}={count + 1}")
    stage.wait("rain", until="condition=Ready")
    stage.show()
    after = stage.runtime("rain")
    check(after != before, f"the operator noticed, and made {after[:12]}: recoveries={count + 1}")
    check(world.runtimes("rain") == [after], "the dead one is gone")


def deleted_leaves_nothing(world: World) -> None:
    """Delete both of Rain's Sandboxes, in use or not."""
    stage = world.stage
    stage.sandkeeper("touch", "rain", "--wait", "60")
    memory = stage.places.household / "rain" / "MEMORY.md"
    stage.kubectl("delete", "sbx", "rain", "rain-evening")
    stage.show()
    check(world.is_gone("rain"), f"there is no {world.noun} of Rain's, running or not")
    check(memory.exists(), "her directory is hers, and stays")
