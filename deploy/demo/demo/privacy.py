"""Privacy: from each other, and from those who write policies."""

from typing import Final

from demo.narration import check
from demo.stage import Stage

_REASON: Final = '{.status.conditions[?(@.type=="Ready")].reason}'


def private_and_shared(stage: Stage) -> None:
    """Let Rain read her own notes, try to read Tio's, and leave something for both."""
    root = stage.places.household
    own = stage.sandkeeper("exec", "rain", "--", "cat", "MEMORY.md")
    check("Rain's own thoughts" in own.stdout, "Rain reads her own memory")
    foreign = f"{root}/tio-claude/MEMORY.md"
    for path in ("../tio-claude/MEMORY.md", foreign):
        tried = stage.sandkeeper("exec", "rain", "--", "cat", path)
        check(tried.returncode != 0 and "Tio" not in tried.stdout, "and not Tio's")
    script = f"ln -sfn {foreign} peek && cat peek"
    tried = stage.sandkeeper("exec", "rain", "--", "sh", "-c", script)
    check(tried.returncode != 0 and "Tio" not in tried.stdout, "not even through a link")
    stage.sandkeeper("exec", "rain", "--", "sh", "-c", "echo 'Notes for both of us.' > shared/notes.md")
    shared = stage.sandkeeper("exec", "tio-claude", "--", "cat", "shared/notes.md")
    check("Notes for both of us." in shared.stdout, "what Rain shares, Tio reads")


def no_way_out_by_policy(stage: Stage) -> None:
    """Try to bind what lies outside the operator's bind roots, by dots and by a link that an agent made."""
    linked = stage.sandkeeper("exec", "rain", "--", "ln", "-sfn", "/etc", "way-out")
    check(linked.returncode == 0, "Rain has a link to /etc in her directory, which the host would follow")
    stage.apply("trespass.yaml")
    for name in ("trespasser-by-dots", "trespasser-by-link"):
        stage.wait(name, until=f"jsonpath={_REASON}=BindRefused")
        ready = stage.condition(name, "Ready")
        check(ready, f"{name}: {ready['message'] if ready else ''}")
    check(not stage.containers(KEY="agent:trespasser"), "nothing was made for either")
    stage.delete("trespass.yaml")
