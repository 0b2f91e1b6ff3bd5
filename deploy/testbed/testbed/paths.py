"""Where the test bed keeps things: what may be lost any time, and what runs.

The cache holds what is slow to make and the same for everybody (binaries, the base image). The state
holds one running test bed; two of them live side by side when their state folders differ.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MODULES = Path(__file__).resolve().parent.parent / "modules"
"""The Go modules that the binaries are built from."""

LONGEST_STATE = 60
"""A unix socket's path has at most 107 bytes, and engines put theirs some folders deep."""


class StatePathTooLongError(ValueError):
    """The state folder leaves no room for the sockets below it."""


@dataclass(frozen=True)
class Layout:
    """The folders of one test bed."""

    state: Path
    cache: Path

    def __post_init__(self) -> None:
        if len(os.fsencode(self.state)) > LONGEST_STATE:
            raise StatePathTooLongError(
                f"{self.state} is longer than {LONGEST_STATE} characters, too long for the sockets "
                "below it: name a shorter folder in SANDKEEPER_STATE",
            )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Layout:
        """Find the folders as the XDG base directory specification has it, or where we are told."""
        home = Path(environ.get("HOME") or Path.home())
        cache_home = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
        state_home = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state")
        return cls(
            state=Path(environ.get("SANDKEEPER_STATE") or state_home / "sandkeeper" / "testbed").absolute(),
            cache=Path(environ.get("SANDKEEPER_CACHE") or cache_home / "sandkeeper").absolute(),
        )

    @property
    def identity(self) -> str:
        """Six hex digits that tell this test bed's interfaces and rules from another's."""
        return hashlib.sha256(os.fsencode(self.state)).hexdigest()[:6]

    @property
    def logs(self) -> Path:
        """One file for each process."""
        return self.state / "logs"

    @property
    def pids(self) -> Path:
        """One record for each process, see `processes`."""
        return self.state / "pids"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.state / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "kubeconfig"

    @property
    def audit_policy(self) -> Path:
        """Whose requests to the API server are written down."""
        return self.state / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        """One line for each of these."""
        return self.logs / "audit.log"

    @property
    def engine(self) -> Path:
        """The root of our own Docker engine."""
        return self.state / "docker"

    @property
    def containerd(self) -> Path:
        """The root of the node's container runtime."""
        return self.state / "containerd"

    @property
    def containerd_socket(self) -> Path:
        """Where the node's container runtime listens."""
        return self.containerd / "containerd.sock"

    @property
    def bed(self) -> Path:
        """What ``up`` made, see `bed`."""
        return self.state / "bed.json"
