"""How sandboxes come to be, and who shares them."""

from demo.narration import check
from demo.stage import Stage


def there_before_anyone_asks(stage: Stage) -> None:
    """Apply the household: the containers are made at once, not when somebody knocks."""
    stage.apply("namespace.yaml", "policy.yaml", "sandboxes.yaml")
    stage.wait("--all", until="condition=Ready")
    stage.show()
    check(len(stage.containers(KEY="agent:rain")) == 1, "Rain has a container")
    check(len(stage.containers(KEY="agent:tio-claude")) == 1, "Tio has another")
    check(
        stage.status("test-local")["phase"] == "NotSandboxed", "test-local, with mode off, is not sandboxed"
    )
    check(len(stage.containers()) == 2, "there are no containers but these two")  # noqa: PLR2004 - these two


def same_container_for_both_sessions(stage: Stage) -> None:
    """Begin another session of Rain: with scope agent, it shares what is there."""
    stage.sandkeeper("touch", "rain", "--wait", "60")
    before = stage.runtime("rain")
    stage.apply("second-session.yaml")
    stage.wait("rain-evening", until="condition=Ready")
    stage.show()
    check(stage.runtime("rain-evening") == before, f"both sessions run in {before[:12]}")
    check(stage.containers(KEY="agent:rain") == [before], "and the engine has no other for Rain")
