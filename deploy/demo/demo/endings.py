"""How sandboxes end: for a while, by accident, and for good."""

from demo.narration import check
from demo.stage import Stage


def idle_is_pruned(stage: Stage) -> None:
    """Leave everything alone until the policy's idleSeconds have passed."""
    before = stage.containers()
    check(before, f"containers that run now: {len(before)}")
    stage.wait("rain", "rain-evening", "tio-claude", until="jsonpath={.status.phase}=Pruned")
    stage.show()
    ready = stage.condition("rain", "Ready")
    check(ready and ready["reason"] == "Idle", ready["message"] if ready else "")
    check(not stage.containers(), "the engine has no container left")


def use_brings_back(stage: Stage) -> None:
    """Touch Rain's Sandbox, as a gateway does at the start of each run."""
    touched = stage.sandkeeper("touch", "rain", "--wait", "60")
    check(touched.returncode == 0 and "Ready=True" in touched.stdout, "it is back, and ready")
    check(stage.containers() == [stage.runtime("rain")], "alone: nobody asked for Tio's")
    stage.show()
    own = stage.sandkeeper("exec", "rain", "--", "cat", "MEMORY.md")
    check("Rain's own thoughts" in own.stdout, "Rain's memory outlived the container")


def death_is_mended(stage: Stage) -> None:
    """Kill the container."""
    stage.sandkeeper("touch", "rain", "--wait", "60")
    before, count = stage.runtime("rain"), stage.status("rain").get("recoveries", 0)
    stage.kill(before)
    stage.wait("rain", until=f"jsonpath={{.status.recoveries}}={count + 1}")
    stage.wait("rain", until="condition=Ready")
    stage.show()
    after = stage.runtime("rain")
    check(after != before, f"the operator noticed, and made {after[:12]}: recoveries={count + 1}")
    check(stage.containers(KEY="agent:rain") == [after], "the dead one is gone")


def deleted_leaves_nothing(stage: Stage) -> None:
    """Delete both of Rain's Sandboxes."""
    stage.kubectl("delete", "sbx", "rain", "rain-evening")
    stage.show()
    check(not stage.containers(KEY="agent:rain"), "the engine has no container of Rain's, running or not")
    memory = stage.places.household / "rain" / "MEMORY.md"
    check(memory.exists(), "her directory is hers, and stays")
