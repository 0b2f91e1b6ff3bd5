"""What the story is played with: kubectl, the sandkeeper command, and the household's manifests."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any, Final

from demo import narration
from demo.places import MANIFESTS, SOURCE, Places
from sandkeeper.api.policy import Backend

NAMESPACE: Final = "household"

_LONGEST: Final = 300
"""Seconds for one program, waiting included."""


@dataclass(frozen=True)
class Stage:
    """One cluster, as a user's shell sees it."""

    places: Places
    variables: Mapping[str, str]
    """What a shell needs to use the test bed; PATH is what is to be put in front."""
    user: str
    """Who owns the household: ``uid:gid``."""
    backend: Backend
    """What the sandboxes are, unless their policy says otherwise."""

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the programs that we run."""
        path = os.pathsep.join(filter(None, [self.variables.get("PATH"), os.environ.get("PATH", os.defpath)]))
        return os.environ | self.variables | {"PATH": path, "PYTHONPATH": str(SOURCE / "controller")}

    def kubectl(self, *arguments: str, stdin: str | None = None, aloud: bool = True) -> str:
        """Run kubectl in the household's namespace."""
        if aloud:
            narration.command("kubectl", arguments)
        done = subprocess.run(
            ["kubectl", "-n", NAMESPACE, *arguments],
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            timeout=_LONGEST,
        )
        if aloud:
            narration.output(done.stdout)
        return done.stdout

    def sandkeeper(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the sandkeeper command in the household's namespace; its exit code is for the caller to judge."""
        narration.command("sandkeeper", arguments)
        verb, *rest = arguments
        done = subprocess.run(
            [sys.executable, "-m", "sandkeeper.cli", verb, "-n", NAMESPACE, *rest],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST,
        )
        narration.output(done.stdout + done.stderr)
        return done

    def show(self) -> None:
        """Show the Sandboxes as kubectl does."""
        self.kubectl("get", "sbx")

    def apply(self, *manifests: str) -> None:
        """Apply manifests of the household."""
        self._with_manifests("apply", manifests)

    def delete(self, *manifests: str) -> None:
        """Delete what manifests of the household made."""
        self._with_manifests("delete", manifests)

    def _with_manifests(self, verb: str, names: Sequence[str]) -> None:
        """Give manifests to kubectl, with the household's directories and owner filled in."""
        values = {"root": str(self.places.household), "user": self.user}
        texts = [
            Template((MANIFESTS / name).read_text(encoding="utf-8")).substitute(values) for name in names
        ]
        narration.say(f"  $ kubectl {verb} -f {' -f '.join(names)}")
        narration.output(self.kubectl(verb, "-f", "-", stdin="\n---\n".join(texts), aloud=False))

    def status(self, sandbox: str) -> dict[str, Any]:
        """Read a Sandbox's status."""
        read = json.loads(self.kubectl("get", "sbx", sandbox, "-o", "json", aloud=False))
        found: dict[str, Any] = read.get("status", {})
        return found

    def runtime(self, sandbox: str) -> str:
        """Read the id of a Sandbox's runtime."""
        found: str = self.status(sandbox)["runtime"]["id"]
        return found

    def condition(self, sandbox: str, kind: str) -> dict[str, Any] | None:
        """Read one condition; None if it is not there."""
        listed = self.status(sandbox).get("conditions", [])
        return next((each for each in listed if each["type"] == kind), None)

    def wait(self, *sandboxes: str, until: str, seconds: int = 120) -> None:
        """Wait by a watch until something holds of Sandboxes; ``--all`` is all of them."""
        self.kubectl("wait", "sbx", *sandboxes, f"--for={until}", f"--timeout={seconds}s")
