"""The household of the requirements: two agents who cannot read each other's files, on either backend.

Every line of its table is tried, and so are the sentences around it: what changes for agents, what does not, how it is
rolled back.
"""

from typing import Any

import pytest

from support.waiting import wait_for
from support.worlds import World

pytestmark = [pytest.mark.cluster]

BOTH_WAYS = (("rain", "tio-claude"), ("tio-claude", "rain"))
TOLD = {"rain": "what-only-rain-thinks", "tio-claude": "what-only-tio-thinks"}


@pytest.fixture
def household(world: World) -> World:
    """The directories as they were before anybody thought of sandboxes, and the policy that was written then."""
    for agent, thoughts in TOLD.items():
        home = world.directory(agent)
        world.file(home / "MEMORY.md", thoughts)
        world.file(home / "SOUL.md", f"I am {agent}.")
    world.directory("shared")
    world.operate()
    world.sandboxes.apply(policy(world), *(world.sandboxes.sandbox(agent) for agent in (*TOLD, "test-local")))
    for agent in TOLD:
        world.sandboxes.wait(agent, "Running")
    return world


def policy(world: World, **changes: Any) -> dict[str, Any]:
    """The household's decision, in so many words: all, by agent, rw, uid 1000, and one directory for both."""
    return world.sandboxes.policy(
        **{
            "mode": "all",
            "scope": "agent",
            "hotWindowSeconds": 1,
            "workspace": {"access": "rw", "agent": {"hostPath": {"path": f"{world.root}/{{agentId}}"}}},
            "container": {
                "user": "1000:1000",
                "binds": [f"{world.root}/shared:/workspace/shared:rw"],
            },
            "agents": [{"id": "test-local", "mode": "off"}],
            **changes,
        }
    )


def test_the_table(household: World) -> None:
    """Every line of it: who is sandboxed, with which access, and who has the shared space."""
    for agent, thoughts in TOLD.items():  # | Rain, Tio Claude | mode all, workspaceAccess rw | shared: yes |
        read = household.run(agent, "cat", "/workspace/MEMORY.md", "/workspace/SOUL.md")
        assert read.output == f"{thoughts}I am {agent}."
        written = household.sh(agent, "echo more >> MEMORY.md && echo new > notes.md && id -u && pwd")
        assert (written.code, written.output) == (0, "1000\n/workspace\n")
        home = household.root / agent
        assert (home / "MEMORY.md").read_text(encoding="utf-8") == f"{thoughts}more\n"
        assert (home / "notes.md").stat().st_uid == 1000
        assert household.run(agent, "ls", "/agent").code != 0, "with rw both mounts are one"
    for agent, other in BOTH_WAYS:
        assert household.sh(agent, f"echo from {agent} > shared/{agent}.md").code == 0
        assert household.run(other, "cat", f"shared/{agent}.md").output == f"from {agent}\n"
        assert household.sh(other, f"echo from {other} >> shared/{agent}.md").code == 0
        shared = household.root / "shared" / f"{agent}.md"
        assert shared.read_text(encoding="utf-8") == f"from {agent}\nfrom {other}\n"
    status = household.sandboxes.wait("test-local", "NotSandboxed")  # | test-local | mode off | shared: no |
    assert household.sandboxes.condition("test-local")[0] == "True"
    assert "runtime" not in status


def test_nobody_reads_the_others_files(household: World) -> None:
    for agent, other in BOTH_WAYS:
        memory = household.root / other / "MEMORY.md"
        links = (
            f"ln -s {memory} peek; ln -s ../{other} next; ln -s / up; ln -s {memory} shared/peek-of-{agent}"
        )
        assert household.sh(agent, links).code == 0
        for path in (
            str(memory),
            f"../{other}/MEMORY.md",
            f"../workspace-{other}/MEMORY.md",
            f"/workspace/../{other}/MEMORY.md",
            f"/proc/1/root{memory}",
            f"/proc/self/root{memory}",
            "peek",
            "next/MEMORY.md",
            f"up{memory}",
            f"shared/peek-of-{agent}",
        ):
            tried = household.run(agent, "cat", path)
            assert tried.code != 0, path
            assert TOLD[other] not in tried.output
        search = "grep -rsl --exclude-dir=proc --exclude-dir=sys {} / || true"
        assert household.sh(agent, search.format(TOLD[other])).output == "", "it is nowhere else either"
        assert household.sh(agent, search.format(TOLD[agent])).output == "/workspace/MEMORY.md\n"
    # A link is text: whoever follows it arrives in a place of his own.
    assert household.sh("rain", "ln -s /workspace/MEMORY.md shared/own").code == 0
    assert household.run("tio-claude", "cat", "shared/own").output == TOLD["tio-claude"]


def test_what_does_not_change_and_how_it_is_rolled_back(household: World) -> None:
    sandboxes, home = household.sandboxes, household.root / "rain"
    # Files outlive the sandbox.
    assert household.sh("rain", "echo kept > kept.md").code == 0
    before = sandboxes.status("rain")["runtime"]["id"]
    sandboxes.annotate("rain", recreate="once")
    before = household.replaced("rain", before)["runtime"]["id"]
    assert household.run("rain", "cat", "kept.md").output == "kept\n"
    # It has to be the owner's number: without capabilities nobody else may write, whatever else they may.
    home.chmod(0o755)
    others = [{"id": "rain", "container": {"user": "1001:1001"}}, {"id": "test-local", "mode": "off"}]
    sandboxes.apply(policy(household, agents=others))
    household.replaced("rain", before)
    assert household.sh("rain", "echo x > /workspace/x").code != 0
    assert not (home / "x").exists()
    # Configuration alone takes it all back, and nothing that was written is lost.
    names = {agent: sorted(path.name for path in (household.root / agent).iterdir()) for agent in TOLD}
    sandboxes.apply(policy(household, mode="off"))
    for agent, thoughts in TOLD.items():
        sandboxes.wait(agent, "NotSandboxed")
        wait_for(
            lambda agent=agent: "runtime" not in sandboxes.status(agent),  # type: ignore[misc]
            what=f"nothing runs for {agent} any more",
        )
        assert sorted(path.name for path in (household.root / agent).iterdir()) == names[agent]
        assert (household.root / agent / "MEMORY.md").read_text(encoding="utf-8") == thoughts
    sandboxes.kubectl("delete", "sandbox", "rain", "--timeout=60s")
    assert (home / "kept.md").read_text(encoding="utf-8") == "kept\n"
