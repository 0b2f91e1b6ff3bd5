"""What one local test bed calls its own on a machine that others use too: ports, subnets, names.

They are chosen when it first starts and kept in its state, so that a component that is started again
comes back where its clients look for it.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import subprocess
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import files, locks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from testbed.paths import Layout

SHARED = Path("/run/sandkeeper-testbed")
"""What the test beds of one machine must agree on: who has which subnet, and how it was before them."""

_OCTETS = range(200, 250)
"""One 10.X.0.0/16 for each test bed."""


class NoSubnetLeftError(RuntimeError):
    """Every network that a test bed may take is in use."""


@dataclass(frozen=True)
class Ports:
    """Ports on loopback."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int
    kubelet: int
    kubelet_health: int


@dataclass(frozen=True)
class Instance:
    """The names and numbers of one test bed."""

    identity: str
    octet: int
    ports: Ports

    @property
    def network(self) -> str:
        """Everything that has an address in this test bed."""
        return f"10.{self.octet}.0.0/16"

    @property
    def docker_bridge(self) -> str:
        """The default bridge of our own engine."""
        return f"skd-{self.identity}"

    @property
    def docker_gateway(self) -> str:
        """That bridge's address."""
        return f"10.{self.octet}.0.1/24"

    @property
    def docker_pool(self) -> str:
        """Where the engine takes the networks from that its users make."""
        return f"10.{self.octet}.128.0/17"

    @property
    def pod_bridge(self) -> str:
        """The bridge that the Pods of the node are on."""
        return f"skp-{self.identity}"

    @property
    def pod_network(self) -> str:
        """The addresses of Pods."""
        return f"10.{self.octet}.4.0/22"

    @property
    def pod_gateway(self) -> str:
        """The address that Pods see of the machine."""
        return f"10.{self.octet}.4.1"

    @property
    def service_network(self) -> str:
        """The addresses of Services."""
        return f"10.{self.octet}.64.0/20"

    @property
    def api_service(self) -> str:
        """The address of the Service ``kubernetes``: the first one, by convention."""
        return f"10.{self.octet}.64.1"

    @property
    def cgroup(self) -> str:
        """The control group that everything of ours is below."""
        return f"sandkeeper-{self.identity}"

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports.api_server}"


def load(layout: Layout) -> Instance | None:
    """Read what was chosen, if the test bed was started before."""
    try:
        read = json.loads((layout.state / "instance.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Instance(**{**read, "ports": Ports(**read["ports"])})


def ensure(layout: Layout) -> Instance:
    """Choose, or read what was chosen."""
    if (known := load(layout)) is not None:
        return known
    with locks.exclusive(SHARED / "lock"):
        mine = SHARED / f"octet-{layout.identity}"
        taken = {int(file.read_text(encoding="utf-8")) for file in SHARED.glob("octet-*") if file != mine}
        octet = choose_octet(layout.identity, taken=taken, networks=_networks_in_use())
        mine.write_text(str(octet))
    chosen = Instance(layout.identity, octet, Ports(*_free_ports(len(Ports.__dataclass_fields__))))
    files.ensure(layout.state / "instance.json", json.dumps(asdict(chosen), indent=1))
    return chosen


def release(layout: Layout) -> None:
    """Give the subnet back."""
    (SHARED / f"octet-{layout.identity}").unlink(missing_ok=True)


def choose_octet(identity: str, *, taken: Iterable[int], networks: Iterable[ipaddress.IPv4Network]) -> int:
    """Pick a /16 that overlaps with nothing; the search begins somewhere else for every test bed."""
    start = int(identity, 16) % len(_OCTETS)
    used = list(networks)
    refused = set(taken)
    for octet in chain(_OCTETS[start:], _OCTETS[:start]):
        network = ipaddress.IPv4Network(f"10.{octet}.0.0/16")
        if octet not in refused and not any(network.overlaps(other) for other in used):
            return octet
    raise NoSubnetLeftError(f"10.{_OCTETS[0]}.0.0/16 to 10.{_OCTETS[-1]}.0.0/16 are all in use here")


def _networks_in_use() -> list[ipaddress.IPv4Network]:
    routes = subprocess.run(["ip", "-4", "route"], capture_output=True, text=True, check=True).stdout
    addresses = re.findall(r"^(?:\w+ )?(\d+(?:\.\d+){3}(?:/\d+)?)", routes, re.MULTILINE)
    return [ipaddress.IPv4Network(address, strict=False) for address in addresses]


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
