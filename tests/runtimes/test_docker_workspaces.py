"""Workspaces on a real engine: what a sandbox sees of each, what it may do there, and what outlives it."""

# ruff: noqa: PLR0917 - each of them is a fixture

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
import pytest_asyncio

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient
from sandkeeper.api.workspace import Access
from sandkeeper.config.naming import runtime_name
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.pod import HostPathVolume
from sandkeeper.config.sources import HostSource
from sandkeeper.lifecycle.model import Observed, RuntimeState
from sandkeeper.runtimes.docker import DockerRuntimes, workspaces
from sandkeeper.runtimes.protocol import Notice, Order
from support.engine import Sandboxing, Sh, a_config, an_order

pytestmark = pytest.mark.engine


@pytest.fixture
def srv(tmp_path: Path) -> Path:
    """A bind root with one agent's workspace, and a root for sandboxes; all of it user 1000's."""
    agent = tmp_path / "agents/rain"
    (agent / "skills/mail").mkdir(parents=True)
    (agent / "SOUL.md").write_text("the original")
    (agent / "MEMORY.md").write_text("private")
    (agent / "skills/mail/SKILL.md").write_text("write mails")
    (tmp_path / "sandboxes").mkdir()
    for path in (tmp_path / "sandboxes", agent, *agent.rglob("*")):
        os.chown(path, 1000, 1000)
    return tmp_path


@pytest.fixture
def ceilings(srv: Path) -> Ceilings:
    return Ceilings(bind_roots=[str(srv)])


@pytest_asyncio.fixture
async def backend(sandboxing: Sandboxing, ceilings: Ceilings) -> AsyncIterator[DockerRuntimes]:
    async with sandboxing.running(ceilings=ceilings) as (backend, _):
        yield backend


Ask = Callable[..., Order]


@pytest.fixture
def ask(srv: Path, tiny_image: str) -> Ask:
    """Order a sandbox of the agent's."""

    def ask(access: Access = Access.NONE, *, scope: str = "agent:rain", **changes: Any) -> Order:
        config = a_config(
            tiny_image,
            access=access,
            agent=HostSource(f"{srv}/agents/rain"),
            workspace=HostPathVolume(f"{srv}/sandboxes"),
        )
        return an_order(replace(config, **changes), scope)

    return ask


def own(srv: Path, order: Order, sandboxing: Sandboxing) -> Path:
    return srv / "sandboxes" / runtime_name("", order.key, sandboxing.installation)


async def again(backend: DockerRuntimes, order: Order, made: Observed, **changes: Any) -> Observed:
    """Remove a sandbox, as a prune or a replacement does, and make it again."""
    await backend.remove(made.id, key=order.key)
    return await backend.create(replace(order, **changes))


# --- the three modes --------------------------------------------------------------------------------------------------


async def test_without_access_a_sandbox_has_a_copy_to_write_to(
    backend: DockerRuntimes, sandboxing: Sandboxing, srv: Path, ask: Ask, sh: Sh
) -> None:
    order = ask(Access.NONE)
    made = await backend.create(order)

    assert sh(made, "cat SOUL.md") == (0, "the original")
    assert sh(made, "ls /agent MEMORY.md")[0] != 0
    assert sh(made, "echo grown > SOUL.md; echo new > work")[0] == 0
    assert (own(srv, order, sandboxing) / "workspace/SOUL.md").read_text() == "grown\n"
    assert (srv / "agents/rain/SOUL.md").read_text() == "the original"
    assert not (srv / "agents/rain/work").exists()


async def test_with_ro_it_reads_the_agents_and_writes_nowhere(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    made = await backend.create(ask(Access.RO))

    assert sh(made, "cat SOUL.md /agent/MEMORY.md") == (0, "the originalprivate")
    assert sh(made, "ls MEMORY.md")[0] != 0
    for path in ("/workspace/x", "/workspace/SOUL.md", "/agent/x", "/agent/MEMORY.md", "/agent/skills/x"):
        code, said = sh(made, f"touch {path}")
        assert (code, "Read-only" in said) == (1, True)
    (srv / "agents/rain/SOUL.md").write_text("edited")
    assert sh(made, "cat /agent/SOUL.md SOUL.md") == (0, "editedthe original")


async def test_with_rw_it_works_on_the_agents_own(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    made = await backend.create(ask(Access.RW))

    assert sh(made, "cat SOUL.md MEMORY.md") == (0, "the originalprivate")
    assert sh(made, "ls /agent")[0] != 0
    assert sh(made, "echo learned >> MEMORY.md") == (0, "")
    assert (srv / "agents/rain/MEMORY.md").read_text() == "privatelearned\n"
    assert list((srv / "sandboxes").iterdir()) == []


@pytest.mark.parametrize("access", list(Access))
async def test_skills_are_read_only_whatever_the_access(
    backend: DockerRuntimes, ask: Ask, sh: Sh, access: Access
) -> None:
    made = await backend.create(ask(access))

    assert sh(made, "cat skills/mail/SKILL.md") == (0, "write mails")
    for attempt in (
        "touch skills/x",
        "echo x > skills/mail/SKILL.md",
        "busybox rm skills/mail/SKILL.md",
        "busybox mv skills elsewhere",
        "busybox rmdir skills",
        "busybox chmod 777 skills/mail/SKILL.md",
        "busybox mount -o remount,rw /workspace/skills",
        "busybox umount /workspace/skills",
    ):
        assert sh(made, attempt)[0] != 0, attempt
    assert sh(made, "cat skills/mail/SKILL.md") == (0, "write mails")


@pytest.mark.parametrize("access", list(Access))
async def test_skills_that_come_later_have_their_place(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh, access: Access
) -> None:
    (srv / "agents/rain/skills").rename(srv / "elsewhere")

    made = await backend.create(ask(access))

    assert sh(made, "ls skills; touch skills/x")[0] == 1
    assert (srv / "agents/rain/skills").exists() is (access is Access.RW)


@pytest.mark.parametrize("access", list(Access))
async def test_one_directory_can_be_shared_below_the_workspace(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh, access: Access
) -> None:
    (srv / "shared").mkdir()
    os.chown(srv / "shared", 1000, 1000)
    binds = (f"{srv}/shared:/workspace/shared:rw", f"{srv}/shared:/workspace/deep/er:ro")
    first = await backend.create(ask(access, binds=binds))
    second = await backend.create(ask(Access.NONE, scope="agent:tio", binds=binds))

    assert sh(first, "echo hello > shared/letter") == (0, "")
    assert sh(second, "cat shared/letter deep/er/letter") == (0, "hello\nhello")
    assert sh(second, "touch deep/er/x")[0] != 0


async def test_a_workspace_without_an_agent_begins_empty_and_stays(
    backend: DockerRuntimes, ask: Ask, sh: Sh
) -> None:
    order = ask(agent=None)
    made = await backend.create(order)

    assert sh(made, "ls -A; echo kept > file") == (0, "")
    made = await again(backend, order, made)
    assert sh(made, "cat file") == (0, "kept")


# --- whose it is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", list(Access))
async def test_auto_is_the_owner_of_the_agents_workspace(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh, access: Access
) -> None:
    for path in (srv / "agents/rain", *(srv / "agents/rain").rglob("*")):
        os.chown(path, 4321, 1234)
    order = ask(access, user="auto")

    made = await backend.create(order)

    assert made.user == "4321:1234"
    assert await backend.observe(order.key, node=made.node) == made
    assert sh(made, "id -u; id -g") == (0, "4321\n1234")
    assert sh(made, "touch file")[0] == (1 if access is Access.RO else 0)


async def test_nobody_gets_at_anothers_copy_not_even_with_all_of_them_before_their_eyes(
    backend: DockerRuntimes, sandboxing: Sandboxing, srv: Path, ask: Ask, sh: Sh
) -> None:
    order = ask(Access.NONE)
    await backend.create(order)
    curious = await backend.create(
        ask(agent=None, workspace=HostPathVolume(f"{srv}/sandboxes"), scope="agent:tio", user="1000:1000")
    )
    onlooker = await backend.create(
        ask(agent=None, scope="agent:eve", binds=(f"{srv}/sandboxes:/all:ro",), user="1000:1000")
    )

    for made in (curious, onlooker):
        name = own(srv, order, sandboxing).name
        for path in (
            f"/all/{name}/workspace/SOUL.md",
            f"../{name}/workspace/SOUL.md",
            f"{srv}/agents/rain/SOUL.md",
        ):
            assert sh(made, f"cat {path}")[0] != 0
    assert sh(onlooker, "ls /all")[0] == 0


# --- what outlives it -------------------------------------------------------------------------------------------------


async def test_the_copy_outlives_its_containers_and_later_edits_do_not_reach_it(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    order = ask(Access.NONE)
    made = await backend.create(order)
    sh(made, "echo grown > SOUL.md; echo mine > work")
    (srv / "agents/rain/SOUL.md").write_text("edited")
    (srv / "agents/rain/TOOLS.md").write_text("new")

    made = await again(backend, order, made)

    assert sh(made, "cat SOUL.md work TOOLS.md") == (0, "grown\nmine\nnew")


async def test_wiped_it_begins_afresh(backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh) -> None:
    order = ask(Access.NONE)
    made = await backend.create(order)
    sh(made, "echo grown > SOUL.md; busybox mkdir -p deep/er; echo mine > deep/er/work")
    (srv / "agents/rain/SOUL.md").write_text("edited")

    made = await again(backend, order, made, wipe=True)

    assert sh(made, "cat SOUL.md; ls") == (0, "editedSOUL.md\nskills")
    assert (srv / "agents/rain/MEMORY.md").read_text() == "private"


async def test_a_wipe_takes_nothing_of_the_agents_own(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    order = ask(Access.RW)
    made = await backend.create(order)
    sh(made, "echo learned > MEMORY.md")

    made = await again(backend, order, made, wipe=True)

    assert sh(made, "cat MEMORY.md") == (0, "learned")


async def test_a_wipe_takes_nothing_from_a_sandbox_that_is_there(
    backend: DockerRuntimes, ask: Ask, sh: Sh
) -> None:
    """It was made, and nobody heard of it; by now somebody works in it."""
    order = ask(Access.NONE)
    made = await backend.create(order)
    sh(made, "echo mine > work")

    found = await backend.create(replace(order, wipe=True))

    assert found.id == made.id
    assert sh(found, "cat work") == (0, "mine")


async def test_what_is_stopped_and_started_again_has_what_it_had(
    backend: DockerRuntimes, ask: Ask, sh: Sh
) -> None:
    order = ask(Access.NONE)
    made = await backend.create(order)
    sh(made, "echo mine > work")

    await backend.stop(made.id, key=order.key)
    await backend.start(made.id, key=order.key)

    assert sh(made, "cat work skills/mail/SKILL.md") == (0, "mine\nwrite mails")


# --- what cannot be copied --------------------------------------------------------------------------------------------


async def upheld(backend: DockerRuntimes, order: Order, made: Observed, use: str = "") -> Any:
    return await backend.uphold(order.key, runtime_id=made.id, owners=(), config=order.config, use=use)


async def test_what_is_not_copied_is_told_and_keeps_nobody_from_working(
    backend: DockerRuntimes, sandboxing: Sandboxing, srv: Path, ask: Ask, sh: Sh
) -> None:
    (srv / "agents/rain/USER.md").symlink_to("/etc/passwd")
    (srv / "agents/rain/skills/out").symlink_to("/etc")
    order = ask(Access.NONE)

    made = await backend.create(order)

    assert sh(made, "cat SOUL.md; ls; ls skills") == (0, "the originalSOUL.md\nskills\nmail")
    told = [
        Notice(
            reason=Reason.SEED_SKIPPED,
            message="Of the agent's workspace: USER.md is not copied: it is a link",
        ),
        Notice(
            reason=Reason.SKILLS_SYNC_FAILED,
            message="Of the agent's skills: 'out' is not copied: it is a link",
        ),
    ]
    assert await upheld(backend, order, made) == told
    assert await backend.uphold(order.key, runtime_id=made.id, owners=(), config=None, use="") == told

    async with sandboxing.running(ceilings=Ceilings(bind_roots=[str(srv)])) as (successor, _):
        assert await upheld(successor, order, made) is None, "it has not looked"
        assert await successor.uphold(order.key, runtime_id=None, owners=(), config=None, use="") is None

    (srv / "agents/rain/USER.md").unlink()
    (srv / "agents/rain/skills/out").unlink()
    made = await again(backend, order, made)
    assert await upheld(backend, order, made) == []


async def test_there_is_nothing_to_tell_where_nothing_is_copied(
    sandboxing: Sandboxing, tiny_image: str, ask: Ask, ceilings: Ceilings
) -> None:
    async with sandboxing.running(ceilings=ceilings) as (backend, _):
        for order in (
            ask(Access.RW),
            an_order(a_config(tiny_image), "agent:none"),
            ask(agent=None, scope="agent:x"),
        ):
            made = await backend.create(order)
            async with sandboxing.running(ceilings=ceilings) as (successor, _):
                assert await upheld(successor, order, made) == ()


# --- skills -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let skills be brought up to date as often as they are used."""
    monkeypatch.setattr(workspaces, "_REFRESH_SECONDS", 0.0)


@pytest.mark.usefixtures("often")
async def test_skills_follow_the_agents_with_each_use(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    skills, order = srv / "agents/rain/skills", ask(Access.NONE)
    made = await backend.create(order)
    (skills / "mail/SKILL.md").write_text("write letters")
    (skills / "search").mkdir()

    for _ in range(2):
        assert await upheld(backend, order, made, use="one") == [], "the first that it hears of is none"
    assert sh(made, "cat skills/mail/SKILL.md") == (0, "write mails")

    assert await upheld(backend, order, made, use="two") == []
    assert sh(made, "cat skills/mail/SKILL.md; ls skills") == (0, "write lettersmail\nsearch")

    (skills / "mail/SKILL.md").unlink()
    assert await upheld(backend, order, made, use="two") == []
    assert sh(made, "ls skills/mail") == (0, "SKILL.md")
    assert await upheld(backend, order, made, use="three") == []
    assert sh(made, "ls skills/mail") == (0, "")


@pytest.mark.usefixtures("often")
async def test_a_process_that_was_just_started_waits_for_a_use_and_then_knows_all(
    backend: DockerRuntimes, sandboxing: Sandboxing, srv: Path, ceilings: Ceilings, ask: Ask, sh: Sh
) -> None:
    (srv / "agents/rain/USER.md").symlink_to("/etc/passwd")
    order = ask(Access.NONE)
    made = await backend.create(order)
    (srv / "agents/rain/skills/search").mkdir()
    async with sandboxing.running(ceilings=ceilings) as (successor, _):
        for _ in range(2):
            assert await upheld(successor, order, made, use="one") is None
        assert sh(made, "ls skills") == (0, "mail")

        (notice,) = await upheld(successor, order, made, use="two")

        assert notice.reason is Reason.SEED_SKIPPED
        assert sh(made, "ls skills") == (0, "mail\nsearch")


@pytest.mark.usefixtures("often")
async def test_skills_follow_with_a_start(backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh) -> None:
    order = ask(Access.NONE)
    made = await backend.create(order)
    await backend.stop(made.id, key=order.key)
    (srv / "agents/rain/skills/search").mkdir()
    await backend.start(made.id, key=order.key)

    assert await upheld(backend, order, made, use="one") == []

    assert sh(made, "ls skills") == (0, "mail\nsearch")


async def test_not_every_use_moves_skills(backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh) -> None:
    order = ask(Access.NONE)
    made = await backend.create(order)
    (srv / "agents/rain/skills/search").mkdir()

    for use in ("one", "two", "three"):
        await upheld(backend, order, made, use=use)

    assert sh(made, "ls skills") == (0, "mail")


@pytest.mark.usefixtures("often")
async def test_skills_that_cannot_be_had_are_told_until_they_can(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    agent, order = srv / "agents/rain", ask(Access.NONE)
    made = await backend.create(order)
    await upheld(backend, order, made, use="one")

    agent.rename(srv / "elsewhere")
    (gone,) = await upheld(backend, order, made, use="two")
    agent.symlink_to("/etc")
    (refused,) = await upheld(backend, order, made, use="three")

    assert {gone.reason, refused.reason} == {Reason.SKILLS_SYNC_FAILED}
    assert "no such file" in gone.message
    assert "is refused" in refused.message
    assert sh(made, "cat skills/mail/SKILL.md") == (0, "write mails")
    agent.unlink()
    (srv / "elsewhere").rename(agent)
    assert await upheld(backend, order, made, use="four") == []


@pytest.mark.usefixtures("often")
async def test_skills_of_the_agents_own_are_simply_there(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    made = await backend.create(ask(Access.RW))

    (srv / "agents/rain/skills/search").mkdir()

    assert sh(made, "ls skills") == (0, "mail\nsearch")


# --- what is missing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["agents/rain", "sandboxes"])
async def test_a_directory_that_is_missing_is_waited_for(
    backend: DockerRuntimes, srv: Path, ask: Ask, missing: str
) -> None:
    (srv / missing).rename(srv / "elsewhere")

    for act in (backend.preflight, backend.create):
        with pytest.raises(Transient) as caught:
            await act(ask(Access.NONE))
        assert caught.value.reason is Reason.VOLUME_MISSING
        assert "nothing makes it for you" in caught.value.message
    assert not (srv / missing).exists()
    assert backend.keys() == frozenset()

    (srv / "elsewhere").rename(srv / missing)
    assert (await backend.create(ask(Access.NONE))).state is RuntimeState.RUNNING


# --- attacks ----------------------------------------------------------------------------------------------------------


async def refused(backend: DockerRuntimes, order: Order) -> str:
    for act in (backend.preflight, backend.create):
        with pytest.raises(Permanent) as caught:
            await act(order)
        assert caught.value.reason is Reason.BIND_REFUSED
    assert await backend.observe(order.key, node=None) is None
    return caught.value.message


@pytest.mark.parametrize(
    ("link", "source", "why"),
    [
        ("/etc", "link", "/etc is never bound"),
        ("/var/run", "link/not/there/yet", "is never bound"),
        ("/", "link", "the whole host"),
        ("/proc/1/root", "link/etc", ""),
        ("..", "link", "outside the operator's bind roots"),
        ("agents", "link/rain/../../../../etc", "outside the operator's bind roots"),
        ("link", "link", ""),
    ],
)
async def test_a_source_that_leads_elsewhere(
    backend: DockerRuntimes, srv: Path, ask: Ask, link: str, source: str, why: str
) -> None:
    (srv / "link").symlink_to(link)

    assert why in await refused(backend, ask(binds=(f"{srv}/{source}:/x:ro",)))


@pytest.mark.parametrize("name", ["docker.sock", ".ssh", ".kube"])
async def test_a_source_that_holds_what_is_never_bound(
    backend: DockerRuntimes, srv: Path, ask: Ask, name: str
) -> None:
    (srv / "home").mkdir()
    (srv / "home" / name).touch()

    assert name in await refused(backend, ask(binds=(f"{srv}/home:/x:ro",)))
    assert name in await refused(backend, ask(binds=(f"{srv}/home/{name}:/x:ro",)))


async def test_the_engines_own_files_wherever_they_are(
    sandboxing: Sandboxing, tiny_image: str, docker_client: docker.DockerClient
) -> None:
    data = Path(docker_client.info()["DockerRootDir"])
    socket = Path(sandboxing.url.removeprefix("unix://"))
    async with sandboxing.running(ceilings=Ceilings(bind_roots=["/"])) as (backend, _):
        for path in (data, data / "overlay2", data.parent, socket, socket.parent):
            await refused(backend, an_order(a_config(tiny_image, binds=(f"{path}:/x:ro",))))
        # Neither has a name that gives it away.
        assert {str(data), str(socket)} <= await backend._workspaces._see({"/srv"})


@pytest.mark.parametrize("field", ["agent", "root"])
async def test_a_workspace_that_leads_elsewhere(
    backend: DockerRuntimes, srv: Path, ask: Ask, field: str
) -> None:
    (srv / "link").symlink_to("/etc")
    changes: dict[str, dict[str, Any]] = {
        "agent": {"agent": HostSource(f"{srv}/link")},
        "root": {"workspace": HostPathVolume(f"{srv}/link")},
    }

    assert "/etc is never bound" in await refused(backend, ask(**changes[field]))


async def test_a_link_that_is_put_in_place_of_a_source_while_a_sandbox_is_stopped(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    (srv / "lore").mkdir()
    order = ask(Access.RW, binds=(f"{srv}/lore:/lore:ro",))
    made = await backend.create(order)
    for source in (srv / "lore", srv / "agents/rain/skills", srv / "agents/rain"):
        await backend.stop(made.id, key=order.key)
        source.rename(srv / "aside")
        source.symlink_to("/etc")

        with pytest.raises(Permanent, match=r"leads to /etc by now") as caught:
            await backend.start(made.id, key=order.key)
        assert caught.value.reason is Reason.BIND_REFUSED
        assert getattr(await backend.observe(order.key, node=None), "state", None) is RuntimeState.STOPPED

        source.unlink()
        (srv / "aside").rename(source)
        await backend.start(made.id, key=order.key)
        assert sh(made, "cat SOUL.md") == (0, "the original")


async def test_a_root_that_was_taken_back_while_a_sandbox_is_stopped(
    backend: DockerRuntimes, sandboxing: Sandboxing, srv: Path, ask: Ask
) -> None:
    order = ask(Access.NONE)
    made = await backend.create(order)
    await backend.stop(made.id, key=order.key)
    async with sandboxing.running(ceilings=Ceilings(bind_roots=[f"{srv}/agents"])) as (successor, _):
        with pytest.raises(Permanent, match="outside the operator's bind roots"):
            await successor.start(made.id, key=order.key)


async def test_what_lies_where_a_sandbox_writes(
    backend: DockerRuntimes, sandboxing: Sandboxing, srv: Path, ceilings: Ceilings, ask: Ask
) -> None:
    for name in ("shared/inner", "agents/rain/notes"):
        (srv / name).mkdir(parents=True)
    writer = ask(Access.RW, scope="agent:writer", binds=(f"{srv}/shared:/shared:rw",))
    inner, same = ((f"{srv}/shared/{name}:/x:ro",) for name in ("inner", ""))
    waiting = ask(scope="agent:waiting", binds=inner)
    stopped = await backend.create(waiting)
    await backend.stop(stopped.id, key=waiting.key)

    made = await backend.create(writer)

    # This process knows it, and so does one that is told by a list; and one that is told by an event.
    async with sandboxing.running(ceilings=ceilings) as (successor, _):
        for knowing in (backend, successor):
            message = await refused(knowing, ask(scope="agent:reader", binds=inner))
            assert f"{srv}/shared, to which a sandbox writes" in message
            await refused(knowing, ask(agent=HostSource(f"{srv}/shared/inner"), scope="agent:reader"))
            await refused(knowing, ask(workspace=HostPathVolume(f"{srv}/shared"), scope="agent:reader"))
            await refused(
                knowing, ask(agent=None, binds=(f"{srv}/agents/rain/notes:/x:ro",), scope="agent:reader")
            )
            with pytest.raises(Permanent, match="to which a sandbox writes"):
                await knowing.start(stopped.id, key=waiting.key)
        reader = await successor.create(ask(scope="agent:reader", binds=same))
        assert reader.state is RuntimeState.RUNNING
        # Skills are mounted over themselves in everything that writes to the workspace they are in.
        assert (await successor.create(ask(Access.RW, scope="agent:sharer"))).state is RuntimeState.RUNNING

        late = await backend.create(ask(scope="agent:late", agent=None, binds=(f"{srv}/agents:/x:rw",)))
        await refused(successor, ask(Access.NONE, scope="agent:reader2"))
        await backend.remove(late.id, key=ask(scope="agent:late").key)

    await backend.remove(made.id, key=writer.key)
    await backend.start(stopped.id, key=waiting.key)


async def test_two_at_once_of_which_one_could_swap_what_the_other_mounts(
    backend: DockerRuntimes, srv: Path, ask: Ask
) -> None:
    (srv / "shared/inner").mkdir(parents=True)
    orders = [
        ask(agent=None, scope="agent:writer", binds=(f"{srv}/shared:/x:rw",)),
        ask(agent=None, scope="agent:reader", binds=(f"{srv}/shared/inner:/x:ro",)),
    ]

    results = await asyncio.gather(*map(backend.create, orders), return_exceptions=True)

    assert sorted(isinstance(result, Observed) for result in results) == [False, True]
    assert all(isinstance(result, Observed | SandkeeperError) for result in results)


async def test_a_sandbox_that_plants_links_in_its_copy_harms_nobody_but_itself(
    backend: DockerRuntimes, srv: Path, ask: Ask, sh: Sh
) -> None:
    (srv / "shared").mkdir()
    order = ask(Access.NONE)
    made = await backend.create(order)
    before = (srv / "agents/rain/SOUL.md").stat()
    attempt = (
        f"busybox rm SOUL.md && busybox ln -s {srv}/agents/rain/SOUL.md SOUL.md && busybox ln -s /etc shared"
    )
    assert sh(made, f"{attempt} && busybox ln -s {srv}/agents/TOOLS.md TOOLS.md") == (0, "")
    (srv / "agents/rain/TOOLS.md").write_text("the original")

    made = await again(backend, order, made)

    after = (srv / "agents/rain/SOUL.md").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_uid) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_uid,
    )
    assert not (srv / "agents/TOOLS.md").exists()
    await backend.remove(made.id, key=order.key)
    with pytest.raises(Permanent, match="shared is no directory") as caught:
        await backend.create(ask(Access.NONE, binds=(f"{srv}/shared:/workspace/shared:rw",)))
    assert caught.value.reason is Reason.SEEDING_FAILED
