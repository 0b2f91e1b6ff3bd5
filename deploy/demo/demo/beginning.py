"""How sandboxes come to be, and who shares them."""

from demo.narration import check
from demo.world import World


def there_before_anyone_asks(world: World) -> None:
    """Apply the household: the sandboxes are made at once, not when somebody knocks."""
    stage = world.stage
    stage.apply("namespace.yaml", "policy.yaml", "sandboxes.yaml")
    stage.wait("--all", until="condition=Ready")
    stage.show()
    check(len(world.runtimes("rain")) == 1, f"Rain has a {world.noun}")
    check(len(world.runtimes("tio-claude")) == 1, "Tio has another")
    check(
        stage.status("test-local")["phase"] == "NotSandboxed", "test-local, with mode off, is not sandboxed"
    )
    check(len(world.runtimes()) == 2, "there are no others but these two")  # noqa: PLR2004 - these two


def same_one_for_both_sessions(world: World) -> None:
    """Begin another session of Rain: with scope agent, it shares what is there."""
    stage = world.stage
    stage.sandkeeper("touch", "rain", "--wait", "60")
    before = stage.runtime("rain")
    stage.apply("second-session.yaml")
    stage.wait("rain-evening", until="condition=Ready")
    stage.show()
    check(stage.runtime("rain-evening") == before, f"both sessions run in the {world.noun} {before[:12]}")
    check(world.runtimes("rain") == [before], "and Rain has no other")
