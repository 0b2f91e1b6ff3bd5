"""What a Pod may reach. Nobody may reach the Pod."""

import ipaddress
import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field, StringConstraints

from sandkeeper.api.base import Spec
from sandkeeper.api.rules import Rule

__all__ = ["Cidr", "EgressTarget", "PodEgress", "PortRange", "Protocol", "is_cidr"]

_CIDR: Final = r"^[0-9A-Fa-f.:]{2,45}/(0|[1-9][0-9]{0,2})$"


def is_cidr(text: str) -> bool:
    """Say whether the text is a network in CIDR notation: with a length, no bits to the right of it, no zone.

    Only the shortest form is; and IPv4 in the clothes of IPv6 is not, as the API server does not take it for one.
    """
    if re.search(_CIDR, text) is None:
        return False
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return False
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None:
        return False
    return str(network) == text.lower()


Cidr = Annotated[
    str,
    StringConstraints(min_length=4, max_length=49, pattern=_CIDR),
    Rule(
        # Compared as text, which has a longest length: to Kubernetes 1.31 the cost of comparing two CIDRs is unbounded.
        cel="isCIDR(self) && string(cidr(self).masked()) == self.lowerAscii()",
        holds=is_cidr,
        message="cidr must be a network such as 192.0.2.0/24 or 2001:db8::/32, in its shortest form and with nothing "
        "to the right of its length; a single address ends in /32 or /128",
    ),
]
Port = Annotated[int, Field(ge=1, le=65535)]


class Protocol(StrEnum):
    """What speaks at a port."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class PortRange(Spec):
    """A port, or several in a row."""

    rules: ClassVar = (
        Rule(
            cel="!has(self.endPort) || self.endPort >= self.port",
            holds=lambda ports: ports.end_port is None or ports.end_port >= ports.port,
            message="endPort must not be below port: raise endPort, or leave it out for a single port",
            field="endPort",
        ),
    )

    protocol: Protocol | None = None
    """What speaks there. Absent: TCP."""
    port: Port
    """The port, or the first of them."""
    end_port: Port | None = None
    """The last of them. Absent: there is one."""


class EgressTarget(Spec):
    """A network that may be reached."""

    cidr: Cidr
    """The network. A single address ends in `/32` or `/128`."""
    # No empty list: to Kubernetes it is every port, to a reader it is none.
    ports: Annotated[list[PortRange], Field(min_length=1, max_length=16)] | None = None
    """At which ports. Absent: at all of them."""


class PodEgress(Spec):
    """What a Pod may reach, below the operator's ceilings. Built in: nothing. A network policy enforces it."""

    dns: bool | None = None
    """The cluster's DNS, and the servers in container.dns."""
    internet: bool | None = None
    """Everything but private, link-local and other special ranges."""
    to: Annotated[list[EgressTarget], Field(max_length=32)] | None = None
    """Networks that may be reached besides."""
