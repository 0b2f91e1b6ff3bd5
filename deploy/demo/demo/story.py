"""The life of sandboxes, told in order. Each chapter does something and checks what came of it."""

from collections.abc import Callable
from typing import Final

from demo import beginning, changes, endings, narration, privacy
from demo.narration import say
from demo.places import SOURCE
from demo.stage import NAMESPACE
from demo.world import World

CHAPTERS: Final[tuple[tuple[str, Callable[[World], None]], ...]] = (
    ("1. The sandboxes are there before anyone asks", beginning.there_before_anyone_asks),
    ("2. What is private stays private, what is shared is shared", privacy.private_and_shared),
    ("3. No policy leads out of the household", privacy.no_way_out_by_policy),
    ("4. A second session of an agent finds the same sandbox", beginning.same_one_for_both_sessions),
    ("5. A change waits until nobody works there", changes.change_waits),
    ("6. What nobody uses is removed", endings.idle_is_pruned),
    ("7. A use brings it back", endings.use_brings_back),
    ("8. What dies is made again", endings.death_is_mended),
    ("9. What is deleted leaves nothing behind", endings.deleted_leaves_nothing),
)


def tell(world: World) -> None:
    """Tell the whole story, and leave the household up."""
    stage = world.stage
    for title, chapter in CHAPTERS:
        with narration.chapter(title):
            chapter(world)
    with narration.chapter("The household stays"):
        stage.apply("policy.yaml", "sandboxes.yaml")
        # Nobody has used Tio's for a while: it was pruned, and applying what is there already is no use.
        stage.sandkeeper("touch", "tio-claude", "--wait", "60")
        stage.wait("--all", until="condition=Ready")
        stage.show()
    say(_farewell(world))


def _farewell(world: World) -> str:
    stage = world.stage
    exports = [
        f"  export {name}={value}" + (":$PATH" if name == "PATH" else "")
        for name, value in stage.variables.items()
    ]
    return "\n".join(
        [
            "\nEverything above happened, and everything is still up. To go on alone:",
            *exports,
            f"  cd {SOURCE} && . .venv/bin/activate",
            f"  kubectl -n {NAMESPACE} get sbx -w",
            f"  kubectl -n {NAMESPACE} describe sbx rain",
            f"  kubectl -n {NAMESPACE} edit asp default",
            *(f"  {hint}" for hint in world.hints()),
            f"  sandkeeper touch -n {NAMESPACE} rain --wait 30   # it is pruned after 40 s without use",
            f"  sandkeeper exec -n {NAMESPACE} -it rain -- bash",
            f"  tail -f {stage.places.log}",
            f"Everybody's directories: {stage.places.household}",
            "To remove all of it: make demo-down",
        ]
    )
