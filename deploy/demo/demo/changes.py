"""How a change of configuration reaches what runs."""

import json

from demo.narration import check
from demo.world import World


def change_waits(world: World) -> None:
    """Change the policy while Rain works: what runs is kept until it is cold, then replaced."""
    stage = world.stage
    stage.sandkeeper("touch", "rain", "--wait", "60")
    before = stage.runtime("rain")
    patch = json.dumps({"spec": {"container": {"env": {"HOUSE": "tidy"}}}})
    stage.kubectl("patch", "asp", "default", "--type=merge", "-p", patch)
    stage.wait("rain", until="condition=Drifted")
    drifted, ready = stage.condition("rain", "Drifted"), stage.condition("rain", "Ready")
    check(drifted, f"Drifted: {drifted['message'] if drifted else ''}")
    check(ready and ready["status"] == "True", "Rain's sandbox is still ready")
    check(stage.runtime("rain") == before, f"and still {before[:12]}")

    wanted = stage.status("rain")["desiredConfigHash"]
    stage.wait("rain", until=f"jsonpath={{.status.configHash}}={wanted}")
    stage.wait("rain", until="condition=Ready")
    stage.show()
    after = stage.runtime("rain")
    check(after != before, f"cold, it was replaced: {after[:12]}")
    check(before not in world.runtimes(), "the old one is gone")
    check(stage.condition("rain", "Drifted") is None, "and nothing has drifted any more")
    said = stage.sandkeeper("exec", "rain", "--", "sh", "-c", "echo The house is $HOUSE.")
    check("The house is tidy." in said.stdout, "the change arrived")
