"""Bounded strings, numbers and lists: the formats that admission checks by pattern.

Every pattern is written in the common part of Python's, Rust's and RE2's syntax, because pydantic and the API
server both check it. Every string has a longest length and every list a largest size, so that rules have a
bounded cost.
"""

import ipaddress
from typing import Annotated, Final

from pydantic import Field, StringConstraints, WithJsonSchema

from sandkeeper.api.rules import Rule

__all__ = [
    "AGENT_ID",
    "ULIMIT_NAMES",
    "AgentId",
    "AmountOrShare",
    "AppArmorProfile",
    "Bind",
    "Capability",
    "ContainerPrefix",
    "Cpus",
    "DnsServer",
    "EnvName",
    "EnvValue",
    "Environment",
    "ExtraHost",
    "Gpus",
    "HostPath",
    "HostPathTemplate",
    "Image",
    "ImagePattern",
    "ListedUser",
    "Memory",
    "MemorySwap",
    "MountPath",
    "Network",
    "ObjectName",
    "ObjectNameTemplate",
    "PolicyName",
    "SeccompProfile",
    "Seconds",
    "SessionKey",
    "SetupCommand",
    "SubPath",
    "SubPathTemplate",
    "Tmpfs",
    "UlimitName",
    "User",
    "Workdir",
]

_UNIT: Final = r"([bBkKmMgGtT]|[KMGT]i)?"
_SIZE: Final = r"([1-9][0-9]{0,14}(\.[0-9]{1,3})?|0\.[0-9]{1,3})" + _UNIT
_PATH: Final = r"/[^:\x00-\x1f\x7f]*"
"""An absolute path. Colons part the fields of a mount, and control characters have no business in a name."""
_DNS_LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_ENV_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
_LONGEST_ENV_NAME: Final = 256
_ENV_NAME_FORM: Final = (
    "begin with a letter or underscore, go on with letters, digits and underscores, "
    f"and have at most {_LONGEST_ENV_NAME} characters"
)
_FEWEST_CPUS: Final = 0.01
_LARGEST_ID: Final = 2**31 - 1
"""The largest user or group id that container engines take."""

_HOST: Final = r"([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/)?"
_REPOSITORY: Final = r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
_TAG: Final = r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
_DIGEST: Final = r"(@sha256:[0-9a-f]{64})?"

AgentId = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]
SessionKey = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Free text on one line."""
ObjectName = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$")
]
"""What most objects of Kubernetes may be called: a DNS-1123 subdomain."""
PolicyName = ObjectName
Image = Annotated[
    str,
    StringConstraints(min_length=1, max_length=512, pattern=f"^{_HOST}{_REPOSITORY}{_TAG}{_DIGEST}$"),
]
"""``[host[:port]/]path[:tag][@sha256:digest]``."""
ImagePattern = Annotated[
    str,
    StringConstraints(min_length=1, max_length=512, pattern=r"^([A-Za-z0-9][A-Za-z0-9._:/@-]*)?\*?$"),
]
"""A full name, or the beginning of names, then ``*``."""
ContainerPrefix = Annotated[
    str, StringConstraints(min_length=1, max_length=20, pattern=r"^[a-z0-9][a-z0-9-]*$")
]
Workdir = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=f"^{_PATH}$")]
Tmpfs = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=512,
        pattern=r"^/[^:,\x00-\x1f\x7f]*(:[A-Za-z0-9=%_-]+(,[A-Za-z0-9=%_-]+)*)?$",
    ),
]
"""``path[:option,option...]``, as after ``docker run --tmpfs``."""
Network = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=r"^(container:)?[A-Za-z0-9][A-Za-z0-9_.-]*$"),
    Rule(
        cel="self.lowerAscii() != 'host'",
        holds=lambda network: network.lower() != "host",
        message="network must not be host, which would share the node's own network: "
        "use none, or a network that the operator allows",
        reason="FieldValueForbidden",
    ),
]
User = Annotated[
    str,
    StringConstraints(min_length=1, max_length=21, pattern=r"^(auto|[0-9]{1,10}(:[0-9]{1,10})?)$"),
    Rule(
        # What the pattern refuses anyway must not fail in int() as well: that would hide the message.
        cel="!self.matches('^[0-9]{1,10}(:[0-9]{1,10})?$') || "
        f"self.split(':').all(id, int(id) <= {_LARGEST_ID})",
        holds=lambda user: user == "auto" or all(int(part) <= _LARGEST_ID for part in user.split(":")),
        message=f"user must be auto, uid or uid:gid in numbers of at most {_LARGEST_ID}",
    ),
]
"""``auto``, ``uid`` or ``uid:gid``. Numbers only: a name says nothing about who it is in an unknown image."""
ListedUser = Annotated[str, StringConstraints(min_length=1, max_length=10, pattern=r"^(auto|[0-9]{1,10})$")]
"""The id of a user or a group that may be named; or ``auto``."""
Capability = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^[A-Z][A-Z0-9_]*$")]
EnvName = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_ENV_NAME, pattern=_ENV_NAME)]
EnvValue = Annotated[str, StringConstraints(max_length=32768, pattern=r"^[^\x00]*$")]
Environment = Annotated[
    dict[EnvName, EnvValue],
    Field(max_length=128),
    # A structural schema says nothing about the keys of a map. EnvName checks them in the models.
    Rule(
        cel=f"self.all(name, size(name) <= {_LONGEST_ENV_NAME} && name.matches('{_ENV_NAME}'))",
        message=f"names in env must {_ENV_NAME_FORM}",
        message_cel=f"'env has the name ' + self.filter(name, size(name) > {_LONGEST_ENV_NAME} || "
        f"!name.matches('{_ENV_NAME}'))[0] + ', but names must {_ENV_NAME_FORM}'",
    ),
]
SetupCommand = Annotated[str, StringConstraints(min_length=1, max_length=32768, pattern=r"^[^\x00]*$")]
Memory = Annotated[str, StringConstraints(min_length=1, max_length=24, pattern=f"^{_SIZE}$")]
"""Bytes, with ``b k m g t`` or ``Ki Mi Gi Ti``, all powers of 1024: ``512m`` is 512 MiB."""
MemorySwap = Annotated[str, StringConstraints(min_length=1, max_length=24, pattern=f"^(-1|{_SIZE})$")]
"""Memory and swap together; ``-1`` is without a limit."""
Cpus = Annotated[
    float,
    Field(ge=_FEWEST_CPUS, le=1024),
    # The API server cuts a minimum to a whole number when the value is one, and would let 0 pass.
    Rule(
        cel=f"self >= {_FEWEST_CPUS}",
        holds=lambda cpus: cpus >= _FEWEST_CPUS,
        message=f"cpus must be at least {_FEWEST_CPUS}",
    ),
]
Gpus = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=512,
        pattern=r"^(all|[1-9][0-9]{0,2}|device=[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*)$",
    ),
]
"""``all``, a count, or ``device=ID[,ID...]``, as after ``docker run --gpus``."""
ULIMIT_NAMES: Final = (
    "core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack"
)
"""The names that ``docker run --ulimit`` knows."""
UlimitName = Annotated[
    str, StringConstraints(min_length=1, max_length=10, pattern=f"^({ULIMIT_NAMES.replace(' ', '|')})$")
]
SeccompProfile = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]
"""The name of a file in the operator's directory of profiles, or ``unconfined``."""
AppArmorProfile = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # an address with a zone means something on one machine only


DnsServer = Annotated[
    str,
    StringConstraints(min_length=2, max_length=45),
    Rule(
        cel="isIP(self)",
        holds=_is_address,
        message="dns must list IP addresses, for example 192.0.2.53 or 2001:db8::53",
    ),
]
ExtraHost = Annotated[
    str,
    StringConstraints(
        min_length=3, max_length=320, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?:[a-z0-9A-F:.-]+$"
    ),
    Rule(
        cel="self.endsWith(':host-gateway') || isIP(self.substring(self.indexOf(':') + 1))",
        holds=lambda line: line.endswith(":host-gateway") or _is_address(line.partition(":")[2]),
        message="extraHosts must list name:address, with an IP address or host-gateway after the first colon",
    ),
]
Bind = Annotated[
    str, StringConstraints(min_length=3, max_length=1024, pattern=f"^{_PATH}:{_PATH}(:(ro|rw))?$")
]
"""``/host/path:/container/path[:ro|rw]``; ``ro`` where neither is said."""
MountPath = Annotated[str, StringConstraints(min_length=2, max_length=512, pattern=f"^{_PATH}$")]
"""Where something is mounted in a sandbox."""
HostPath = Annotated[str, StringConstraints(min_length=2, max_length=1024, pattern=f"^{_PATH}$")]

AGENT_ID: Final = "{agentId}"
"""What stands for the agentId of the Sandbox in a template; no other braces may."""
_AGENT_ID: Final = "[{]agentId[}]"
HostPathTemplate = Annotated[
    str,
    StringConstraints(min_length=2, max_length=1024, pattern=rf"^/([^:{{}}\x00-\x1f\x7f]|{_AGENT_ID})*$"),
]


def _names_below(character: str, *, placeholder: str = "") -> str:
    """Return a pattern of a path of names, none of which is ``.`` or ``..``."""
    name = rf"([^/.{character}]|[.][^/.{character}]|[.][.][^/{character}]{placeholder})([^/{character}]{placeholder})*"
    return f"^{name}(/{name})*$"


_NEVER: Final = r":\x00-\x1f\x7f"
SubPath = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=_names_below(_NEVER))]
"""A path below a volume: names between slashes, without ``.`` and ``..``."""
SubPathTemplate = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=512, pattern=_names_below(_NEVER + "{}", placeholder=f"|{_AGENT_ID}")
    ),
]
ObjectNameTemplate = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=rf"^([a-z0-9.-]|{_AGENT_ID})+$")
]
"""The name of an object, in which ``{agentId}`` may stand."""
Seconds = Annotated[int, Field(ge=0, le=315_360_000)]
"""A length of time, at most ten years."""
_MOST: Final = 100_000
_SHARE: Final = "^(100|[1-9][0-9]?)%$"
AmountOrShare = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=_MOST)] | Annotated[str, StringConstraints(pattern=_SHARE)],
    # As Kubernetes says it of the same field of a Deployment; a bound counts for numbers, a pattern for texts.
    WithJsonSchema({"x-kubernetes-int-or-string": True, "minimum": 1, "maximum": _MOST, "pattern": _SHARE}),
]
"""A number, or a share of all in percent; never nothing."""
