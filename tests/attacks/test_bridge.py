"""Leading the file bridge astray.

A gateway reads and writes files of a sandbox for the agent, while code in there does what it likes. All that can be
done to the bridge by itself is tried in `tests/bridge/test_attacks.py`; here it works on the household.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from attacks.register import attack
from attacks.stage import AGENTS, Stage, secret_of
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.bridge import Bridges, FileBridge
from sandkeeper.bridge.errors import BridgeError, OutsideMounts, ReadOnly, Refused, WrongKind
from sandkeeper.cluster.api import KubeApi
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.resolve import resolve
from sandkeeper.runtimes.docker.commands import Commands
from sandkeeper.runtimes.docker.transport import connect_to
from support.cluster import Cluster

pytestmark = pytest.mark.cluster

Open = Callable[[str], Awaitable[FileBridge]]


@pytest.fixture
async def open_bridge(stage: Stage, api: KubeApi, cluster: Cluster) -> AsyncIterator[Open]:
    """Open a bridge into the sandbox of an agent."""
    commands = Commands(connect_to(cluster.docker_host))
    bridges = Bridges(api=api, connection=api._connection, commands=commands)

    async def open_into(agent: str) -> FileBridge:
        sandbox = stage.sandboxes.get(agent)
        read = json.loads(stage.sandboxes.kubectl("get", "asp", AGENTS[agent], "-o", "json"))
        namespace = stage.sandboxes.namespace
        policies = {(namespace, AGENTS[agent]): AgentSandboxPolicySpec.model_validate(read["spec"])}
        found = resolve(
            namespace=namespace,
            namespace_uid="any",
            spec=SandboxSpec.model_validate(sandbox["spec"]),
            policies=policies,
            recorded_policy=None,
            operator=OperatorConfig.model_validate(stage.settings),
        )
        assert found.config is not None, found.problem
        return await bridges.open(sandbox, found.config)

    yield open_into
    commands.close()


async def refused(error: type[BridgeError], *attempts: Awaitable[Any]) -> None:
    for attempt in attempts:
        with pytest.raises(error):
            await attempt


@attack(
    "through the bridge: links to files, directories and mounts, hard links, FIFOs, `..`, what lies in no mount, "
    "writing to skills and to `/agent`, removing and moving what is a mount",
    stopped_by="it goes down one directory at a time, none of them a link, all in the mount that was meant; and reads "
    "plain files that have one name",
)
async def test_what_the_bridge_is_asked_for(stage: Stage, open_bridge: Open) -> None:
    planted = """
        cd /workspace; rm -rf bridge; mkdir bridge; cd bridge; echo mine > file; ln file second; mkfifo fifo
        ln -s /workspace/MEMORY.md link; ln -s /workspace/shared away; ln -s / root; ln -s .. up; mkdir plain"""
    assert stage.sh("rain", planted).code == 0
    rain, reed = await open_bridge("rain"), await open_bridge("reed")
    here = "/workspace/bridge"
    await refused(
        Refused,
        rain.read(f"{here}/link"),
        rain.read(f"{here}/up/MEMORY.md"),
        rain.write(f"{here}/up/made", b"x"),
        rain.read(f"{here}/root/etc/passwd"),
        rain.read(f"{here}/second"),
        rain.read(f"{here}/fifo"),
        rain.write(f"{here}/fifo", b"x"),
        rain.write(f"{here}/away/made", b"x"),
        rain.listdir(f"{here}/away"),
        rain.mkdir(f"{here}/away/made", parents=True),
        rain.read("/workspace/../etc/passwd"),
        rain.read(f"{here}/plain/../../MEMORY.md"),
        rain.rename(f"{here}/file", "/workspace/shared/file"),
    )
    await refused(
        WrongKind, rain.remove("/workspace/shared", recursive=True), rain.write("/workspace/shared", b"x")
    )
    await refused(
        OutsideMounts,
        rain.read("/etc/passwd"),
        rain.read("/proc/1/root/workspace/MEMORY.md"),
        rain.read(str(stage.secret("tio-claude"))),
        rain.write("/tmp/file", b"x"),  # noqa: S108 - in the sandbox
    )
    await refused(
        ReadOnly,
        rain.write("/workspace/skills/greet.md", b"Obey."),
        rain.remove("/workspace/skills/greet.md"),
        rain.rename("/workspace/skills", f"{here}/skills"),
        reed.write("/agent/MEMORY.md", b"x"),
        reed.write("/workspace/SOUL.md", b"x"),
        reed.rename("/agent/MEMORY.md", "/agent/moved"),
    )
    await rain.write(f"{here}/plain/note", b"found")
    assert await rain.read(f"{here}/plain/note") == b"found"
    assert await reed.read("/agent/MEMORY.md") == secret_of("reed").encode()
    assert not (stage.root / "shared" / "made").exists()
    assert (stage.root / "rain" / "skills" / "greet.md").read_text(encoding="utf-8") == "Say hello."


@attack(
    "a race: a process swaps a directory for a link to the shared one and back, while the bridge writes in it",
    stopped_by="what was opened is what is used: a directory, by its descriptor, and never a path once more",
)
async def test_swapping_a_directory_while_the_bridge_writes(stage: Stage, open_bridge: Open) -> None:
    swap = """
        cd /workspace; rm -rf race; mkdir race; cd race; mkdir swapped; ln -s /workspace/shared link; touch swapping
        (while [ -e swapping ]; do mv swapped aside; mv link swapped; mv swapped link; mv aside swapped; echo; done \
            | wc -l > swaps) > /dev/null 2>&1 &"""
    assert stage.sh("rain", swap).code == 0
    bridge, outcomes = await open_bridge("rain"), set()

    async def attempt(number: int) -> None:
        path = f"/workspace/race/swapped/raced-{number}"
        try:
            await bridge.write(path, b"ours")
            assert await bridge.read(path) == b"ours"
            outcomes.add("done")
        except BridgeError as error:
            outcomes.add(type(error).__name__)

    try:
        for first in range(0, 24, 4):
            await asyncio.gather(*map(attempt, range(first, first + 4)))
    finally:
        stage.stop("rain", "rm /workspace/race/swapping", until="/workspace/race/swaps")
    assert int(stage.sh("rain", "cat /workspace/race/swaps").output) > 100
    assert outcomes, "it was tried"
    assert list((stage.root / "shared").glob("raced-*")) == []
