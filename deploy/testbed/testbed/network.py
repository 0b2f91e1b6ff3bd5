"""The bridges of one test bed, made before anybody needs them so that their names are ours."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.instance import Instance


def ensure_bridge(name: str, address: str) -> None:
    """Make a bridge with an address, if it is not there."""
    if name not in _links():
        _ip("link", "add", name, "type", "bridge")
    _ip("address", "replace", address, "dev", name)
    _ip("link", "set", name, "up")


def ensure_pod_bridge(instance: Instance) -> None:
    """Make the Pods' bridge, from which loopback may be reached where a rule of ours sends one there."""
    ensure_bridge(instance.pod_bridge, f"{instance.pod_gateway}/22")
    Path(f"/proc/sys/net/ipv4/conf/{instance.pod_bridge}/route_localnet").write_text("1", encoding="utf-8")


def bridges(instance: Instance) -> list[str]:
    """List our bridges and those of networks that users of our engine made."""
    network = ipaddress.IPv4Network(instance.network)
    found = [name for name in (instance.docker_bridge, instance.pod_bridge) if name in _links()]
    for link in json.loads(_ip("-json", "-4", "address", "show", "type", "bridge") or "[]"):
        # iproute2 of Debian 12 lists the links that its filter leaves out as empty objects.
        addresses = [info["local"] for info in link.get("addr_info", [])]
        if any(ipaddress.IPv4Address(address) in network for address in addresses):
            found.append(link["ifname"])
    return sorted(set(found))


def remove(names: list[str]) -> None:
    """Remove bridges; the pairs that were plugged into them went with their other ends."""
    for name in names:
        subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)


def _links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
