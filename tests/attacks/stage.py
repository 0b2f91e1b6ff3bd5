"""Where attacks are tried: a household of agents, as containers and as Pods, that stands for all tests of a backend.

Rain and Tio Claude work in their own directories and share one. Reed may only read his, Cora has a copy of hers. What
one test leaves behind in them the next may find; none relies on it. Tests that need a Sandbox of their own make one.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from sandkeeper.api.policy import Backend
from support.waiting import wait_for
from support.worlds import Done, World

__all__ = [
    "AGENTS",
    "CONTAINERS",
    "DONE",
    "ON_CONTAINERS",
    "ON_PODS",
    "PODS",
    "Stage",
    "Standing",
    "secret_of",
]

# One process for each, or it would stand twice.
CONTAINERS: Final = pytest.param(
    Backend.DOCKER, id="docker", marks=[pytest.mark.engine, pytest.mark.xdist_group("attacks-docker")]
)
PODS: Final = pytest.param(Backend.POD, id="pod", marks=pytest.mark.xdist_group("attacks-pod"))

ON_CONTAINERS: Final = pytest.mark.parametrize("stage", [CONTAINERS], indirect=True, scope="session")
"""For what only a container's host can do."""
ON_PODS: Final = pytest.mark.parametrize("stage", [PODS], indirect=True, scope="session")
"""For what only Pods have."""

AGENTS: Final = {"rain": "default", "tio-claude": "default", "reed": "readers", "cora": "copies"}
"""Each with the name of its policy."""

_TRY: Final = """
import ast, os, sys
said = {}
for path in ast.literal_eval(sys.argv[1]):
    try:
        if os.path.isdir(path):
            said[path] = repr(os.listdir(path))
        else:
            with open(path, "rb") as file:
                said[path] = file.read(4096).decode(errors="replace")
    except OSError:
        said[path] = None
print(said)
"""
"""Reads each of the paths, and tells what was in it; None where that could not be had."""

_ATTEMPT: Final = """
import ast, errno, os, signal, socket, stat, subprocess, sys, time
def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"exit code {done.returncode}")
    return done.stdout
def write(path, flags=os.O_WRONLY):
    os.write(os.open(path, flags), b"attacked")
def fd(path):
    return f"/proc/self/fd/{os.open(path, os.O_RDONLY)}"
said = {}
for name, statement in ast.literal_eval(sys.argv[1]).items():
    try:
        exec(statement)
    except OSError as error:
        said[name] = errno.errorcode.get(error.errno, str(error))
    else:
        said[name] = DONE
print(said)
"""
"""Executes each of the statements, and tells which error it ends in. ``fd`` is another name for an open file."""

DONE: Final = "done"


def secret_of(agent: str) -> str:
    """What only this agent is to know."""
    return f"what only {agent} knows"


@dataclass(frozen=True)
class Standing:
    """How a Sandbox fares: as a rule, that it does not come to be, and why."""

    name: str
    runtime: str
    ready: str
    reason: str
    message: str


class Stage:
    """The household on one backend."""

    def __init__(self, world: World, *, kubeconfig: Path) -> None:
        self.world = world
        self.kubeconfig = kubeconfig
        self.backend = world.backend
        self.root = world.root
        self._count = 0
        for agent in AGENTS:
            self.home(agent)
        world.directory("shared")
        # Who makes a runtime's own directory gives it the mode of its root, and it is the sandbox that writes there.
        copies = world.directory("copies", owner=0, mode=0o1777)
        ceilings = {"bindRoots": [str(self.root), str(copies)]}
        self.settings = {
            "ceilings": ceilings,
            "backends": ["docker", "pod"],
            "defaultBackend": self.backend.value,
        }
        self.log = world.operate(ceilings=ceilings).log
        self.sandboxes = world.sandboxes
        self.sandboxes.apply(*self._policies(), *(self._claim(agent) for agent in AGENTS))
        for agent in AGENTS:
            self.sandboxes.wait(agent, "Running")

    def home(self, agent: str) -> Path:
        """Make the directory of an agent, with what it is made of and what nobody else is to read."""
        home = self.world.directory(agent)
        self.world.file(home / "MEMORY.md", secret_of(agent))
        self.world.file(home / "SOUL.md", f"I am {agent}.")
        skills = self.world.directory(f"{agent}/skills", mode=0o755)
        self.world.file(skills / "greet.md", "Say hello.")
        return home

    def secret(self, agent: str) -> Path:
        """The file that nobody but the agent is to read."""
        return self.root / agent / "MEMORY.md"

    # --- inside -------------------------------------------------------------------------------------------------------

    def sh(self, name: str, script: str) -> Done:
        """Run a script in a sandbox."""
        return self.world.sh(name, script)

    def read(self, name: str, *paths: str) -> dict[str, str | None]:
        """Try to read files and directories in a sandbox, and tell what each of them had to say."""
        done = self.world.python(name, _TRY, repr(list(paths)))
        assert done.code == 0, done.output
        said: dict[str, str | None] = ast.literal_eval(done.output)
        return said

    def attempt(self, name: str, *statements: str) -> dict[str, str]:
        """Execute each of the statements of Python in a sandbox, and tell which error it ends in, or DONE."""
        program = _ATTEMPT.replace("DONE", repr(DONE))
        done = self.world.python(name, program, repr({each: each for each in statements}))
        assert done.code == 0, done.output
        said: dict[str, str] = ast.literal_eval(done.output)
        return said

    def stop(self, name: str, command: str, *, until: str) -> None:
        """Tell a process in a sandbox to stop, and wait until it has written its last words to a file."""
        self.sh(name, f"{command}; for each in $(seq 300); do [ -s {until} ] && exit; sleep 0.1; done")

    # --- more sandboxes -----------------------------------------------------------------------------------------------

    def name(self, prefix: str) -> str:
        """Return a name that no other test uses."""
        self._count += 1
        return f"{prefix}-{self._count}"

    def claim(self, name: str, policy: str, **spec: Any) -> dict[str, Any]:
        """Return a Sandbox as a manifest, under one of the policies."""
        return self.sandboxes.sandbox(name, **{"policyRef": {"name": policy}, **spec})

    def make(self, name: str, spec: Mapping[str, Any], **claim: Any) -> str:
        """Make a policy, and a Sandbox under it that comes to run; both have the name."""
        self.apply(name, spec, **claim)
        self.sandboxes.wait(name, "Running", timeout=90)
        return name

    def apply(self, name: str, spec: Mapping[str, Any], **claim: Any) -> None:
        """Make a policy, and a Sandbox under it, whatever becomes of it."""
        self.sandboxes.apply(self.sandboxes.policy(name, **spec), self.claim(name, name, **claim))

    def refuse(self, specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Standing]:
        """Make a policy and a Sandbox of each, all at once; return why each does not come to be."""
        names = {key: self.name("refused") for key in specs}
        objects = []
        for key, spec in specs.items():
            objects += [
                self.sandboxes.policy(names[key], **spec),
                self.claim(names[key], names[key]),
            ]
        self.sandboxes.apply(*objects)
        return dict(zip(specs, self.refusals(*names.values()), strict=True))

    def refusals(self, *names: str) -> list[Standing]:
        """Wait until each of the Sandboxes is said not to come to be, and tell why."""
        found = self.settled(*names)
        assert not [one for one in found if one.ready != "False"], found
        return found

    def settled(self, *names: str, besides: Mapping[str, str] = MappingProxyType({})) -> list[Standing]:
        """Wait until it is told how each fares for good. ``besides``: runtimes that are to be replaced first."""
        # The policy may be seen a moment after its Sandbox.
        passing = {"", "Creating", "Pending", "PolicyNotFound", "Replacing", "Stopping", "Terminating"}
        found: list[Standing] = []

        def is_settled(one: Standing) -> bool:
            is_old = one.ready == "True" and one.runtime == besides.get(one.name)
            return one.reason not in passing and not is_old

        def are_settled() -> bool:
            found[:] = self._readiness(*names)
            return all(map(is_settled, found))

        wait_for(
            are_settled,
            what=f"{', '.join(names)} are settled",
            timeout=120,
            pause=0.3,
            tell=lambda: "\n".join(map(str, found)),
        )
        return found

    def _readiness(self, *names: str) -> list[Standing]:
        listed = json.loads(self.sandboxes.kubectl("get", "sandboxes", "-o", "json"))["items"]
        sandboxes = {each["metadata"]["name"]: each for each in listed}
        found = []
        for name in names:
            metadata, status = sandboxes[name]["metadata"], sandboxes[name].get("status", {})
            conditions = [
                each
                for each in status.get("conditions", [])
                if each["type"] == "Ready" and each["observedGeneration"] == metadata["generation"]
            ]
            ready: dict[str, str] = next(iter(conditions), {})
            runtime = (status.get("runtime") or {}).get("id", "")
            found.append(
                Standing(name, runtime, *(ready.get(part, "") for part in ("status", "reason", "message")))
            )
        return found

    def ran(self, name: str, *, since: str = "0002") -> bool:
        """Whether there is a runtime in which the sandbox's own program was started, ever or since a moment."""
        if self.is_docker:
            # Of one that never was the engine says that it was in the year 1.
            return any(each.attrs["State"]["StartedAt"] > since for each in self.world.containers(name))
        pods = json.loads(self.sandboxes.kubectl("get", "pods", "-o", "json"))["items"]
        return any(
            {"running", "terminated"} & set(state)
            for pod in pods
            if name in {owner["name"] for owner in pod["metadata"].get("ownerReferences", [])}
            for status in pod["status"].get("containerStatuses", [])
            for state in (status["state"], status["lastState"])
        )

    # --- what stands --------------------------------------------------------------------------------------------------

    @property
    def copies(self) -> dict[str, Any]:
        """Where copies are kept."""
        return {"hostPath": {"path": f"{self.root}/copies"}}

    @property
    def agent(self) -> dict[str, Any]:
        """Where agents' own workspaces are."""
        return {"hostPath": {"path": f"{self.root}/{{agentId}}"}}

    def _policies(self) -> list[dict[str, Any]]:
        shared = {"binds": [f"{self.root}/shared:/workspace/shared:rw"]}
        common: dict[str, Any] = {"scope": "agent", "hotWindowSeconds": 1}
        policy = self.sandboxes.policy
        return [
            policy(**common, workspace={"access": "rw", "agent": self.agent}, container=dict(shared)),
            policy(
                "readers",
                **common,
                workspace={"access": "ro", "agent": self.agent, "volume": self.copies},
            ),
            policy(
                "copies",
                **common,
                workspace={"access": "none", "agent": self.agent, "volume": self.copies},
                container=dict(shared),
            ),
        ]

    def _claim(self, agent: str) -> dict[str, Any]:
        return self.claim(agent, AGENTS[agent])

    @property
    def is_docker(self) -> bool:
        """Whether its sandboxes are containers."""
        return self.backend is Backend.DOCKER
