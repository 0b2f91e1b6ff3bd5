"""What a failed setupCommand is told about its sandbox: by what it printed, and only where the sandbox is so.

What programs print is what they printed in hardened containers of Debian 12, with one thing taken away at a time; what
apk prints is from reports of its users.
"""

from typing import Any

import pytest

from sandkeeper.api.policy import Backend
from sandkeeper.api.workspace import Access
from sandkeeper.config.pod import Egress, EgressRule, PodShape
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.config.sources import HostSource
from sandkeeper.runtimes.pitfalls import pitfalls
from support.engine import a_config

SOFT = {"network": "bridge", "read_only_root": False, "user": "0:0", "cap_drop": ()}
"""A sandbox that lacks nothing."""
LACKING: dict[str, dict[str, Any]] = {
    "container.network": {"network": "none"},
    "container.readOnlyRoot": {"read_only_root": True},
    "container.user": {"user": "1000:1000"},
    "container.capDrop": {"cap_drop": ("ALL",)},
}
"""By the field that would have to be changed."""

NETWORK, ROOT, USER, CAPABILITIES = LACKING
EVERYTHING = tuple(LACKING)

LINES: dict[tuple[str, ...], str] = {
    (NETWORK,): """
        W: Failed to fetch http://packages.example/InRelease  Temporary failure resolving 'packages.example'
        Cannot initiate the connection to 192.0.2.1:80 (192.0.2.1). - connect (101: Network is unreachable)
        Could not connect to 192.0.2.1:80 (192.0.2.1). - connect (110: Connection timed out)
        WARNING: Retrying ... [Errno -3] Temporary failure in name resolution')': /simple/six/
        npm ERR! request to https://packages.example/left-pad failed, reason: getaddrinfo EAI_AGAIN registry
        curl: (6) Could not resolve host: packages.example
        curl: (7) Failed to connect to 192.0.2.1 port 443 after 0 ms: Couldn't connect to server
        curl: (28) Failed to connect to 192.0.2.1 port 80 after 3000 ms: Timeout was reached
        curl: (28) Resolving timed out after 8000 milliseconds
        wget: unable to resolve host address 'packages.example'
        wget: bad address 'packages.example'
        wget: can't connect to remote host (192.0.2.1): Network is unreachable
        fatal: unable to access 'https://packages.example/x/': Could not resolve host: packages.example
        urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>
        bash: line 1: /dev/tcp/1.1.1.1/80: Network is unreachable
        cause: Error: getaddrinfo EAI_AGAIN packages.example
        WARNING: updating and opening http://packages.example/main: temporary error (try again later)
    """,
    (ROOT,): """
        /bin/sh: 1: cannot create /etc/x: Read-only file system
        sh: can't create /etc/x: Read-only file system
        OSError: [Errno 30] Read-only file system: '/opt/x'
        code: 'EROFS',
        ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: '/root/.local'
        fatal: could not create work tree dir '/opt/x': Read-only file system
        ldconfig: Can't create temporary cache file /etc/ld.so.cache~: Read-only file system
    """,
    (USER, CAPABILITIES): """
        touch: cannot touch '/opt/x': Permission denied
        /bin/sh: 1: cannot create /etc/x: Permission denied
        cp: can't create '/usr/bin/x': Permission denied
        PermissionError: [Errno 13] Permission denied: '/usr/lib/python3/x'
        npm ERR!   [Error: EACCES: permission denied, mkdir '/usr/local/lib/node_modules'] {
        chown: changing ownership of '/home': Operation not permitted
        chown: /home: Operation not permitted
        chmod: changing permissions of '/etc/passwd': Operation not permitted
    """,
    (CAPABILITIES,): """
        useradd: failure while writing changes to /etc/shadow
        E: setgroups 65534 failed - setgroups (1: Operation not permitted)
    """,
    (ROOT, USER): """
        useradd: cannot lock /etc/passwd; try again later.
        curl: (23) Failure writing output to destination
    """,
    (ROOT, USER, CAPABILITIES): """
        dpkg: error: requested operation requires superuser privilege
        dpkg: error: unable to access the dpkg database directory /var/lib/dpkg: Read-only file system
    """,
    EVERYTHING: """
        E: Could not open lock file /var/lib/apt/lists/lock - open (13: Permission denied)
        E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?
        W: chown to _apt:root of directory /var/lib/apt/lists/partial failed (30: Read-only file system)
        ERROR: Unable to lock database: Permission denied
        ERROR: Failed to open apk database: Permission denied
    """,
}
"""Telling lines, and the fields that could be to blame for each."""

PRINTED = [(line.strip(), fields) for fields, lines in LINES.items() for line in lines.strip().splitlines()]

UNSUSPICIOUS = [
    "",
    "make: *** [Makefile:1: all] Error 2",
    "no such thing",
    "curl: (22) The requested URL returned error: 404",
    "curl: (60) SSL certificate problem: self-signed certificate in certificate chain",
    "socket.gaierror: [Errno -2] Name or service not known",
    "bash: connect: Connection refused",
    "E: Unable to locate package jq",
    "git@example.org: Permission denied (publickey).",
    "/bin/sh: 1: /tmp/v/bin/pip: Permission denied",
    "/bin/sh: 1: ./install.sh: Permission denied",
    "touch: cannot touch '/var/tmp/x': Permission denied",
    "touch: cannot touch '/tmp/usr/x': Permission denied",
    "/bin/sh: 1: locale-gen: not found",
    "mkdir: cannot create directory 'x': Permission denied",
    "npm ERR! code ENOTFOUND",
]


def named(config: RuntimeConfig, output: str) -> tuple[str, ...]:
    """The fields that are named, in order."""
    told = pitfalls(config, output)
    assert len(set(told)) == len(told)
    return tuple(field for field in LACKING if any(f"set {field} " in sentence for sentence in told))


def a_pod(**changes: Any) -> RuntimeConfig:
    return a_config("x", backend=Backend.POD, **{**SOFT, "network": "none", **changes})


@pytest.mark.parametrize(("output", "fields"), PRINTED)
def test_what_the_output_points_to_is_told_where_the_sandbox_lacks_it(
    output: str, fields: tuple[str, ...]
) -> None:
    for field, lacking in LACKING.items():
        expected = (field,) if field in fields else ()
        assert named(a_config("x", **{**SOFT, **lacking}), output) == expected
    assert pitfalls(a_config("x", **SOFT), output) == []


@pytest.mark.parametrize(("output", "fields"), PRINTED)
def test_a_sandbox_that_lacks_everything_is_told_what_comes_first(
    output: str, fields: tuple[str, ...]
) -> None:
    # Which capabilities root would have is of interest to root, and to whoever installs packages.
    first = tuple(field for field in fields if field != CAPABILITIES or ROOT in fields)

    assert named(a_config("x"), f"begun\n{output}\nthe end") == first


@pytest.mark.parametrize("output", UNSUSPICIOUS)
def test_nothing_is_guessed(output: str) -> None:
    assert pitfalls(a_config("x"), output) == []
    assert pitfalls(a_pod(read_only_root=True, user="1000:1000", cap_drop=("ALL",)), output) == []


def test_each_names_field_value_and_who_may() -> None:
    network, root, user, capabilities, image = pitfalls(a_config("x"), "are you root?")

    assert network == (
        "The sandbox has no network: to give it one, set container.network in the policy to a network that the "
        "operator's ceilings.networks lists, such as bridge."
    )
    assert root == (
        "The root file system is read-only: to write to it, set container.readOnlyRoot to false in the policy."
    )
    assert user == (
        'container.user is 1000:1000, not root: to run as root, set container.user to "0:0" in the policy; the '
        'operator\'s ceilings.users has to list "0".'
    )
    assert capabilities == (
        "Even root lacks CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID: to keep them, set container.capDrop to "
        "[AUDIT_WRITE, FSETID, KILL, MKNOD, NET_BIND_SERVICE, NET_RAW, SETFCAP, SETPCAP, SYS_CHROOT] in the policy; "
        "the operator's ceilings.capabilities has to list them."
    )
    assert image == "An image that brings what is to be installed needs none of this."


def test_an_event_has_room_for_all_of_it() -> None:
    assert len(" ".join(pitfalls(a_config("x", user="2147483647:2147483647"), "are you root?"))) < 900


@pytest.mark.parametrize(
    ("egress", "missing"),
    [
        (Egress(), "pod.egress.dns and pod.egress.internet to true"),
        (Egress(dns=True), "set pod.egress.internet to true"),
        (Egress(internet=True), "set pod.egress.dns to true"),
        (Egress(to=(EgressRule("192.0.2.0/24"),)), "set pod.egress.dns to true"),
    ],
)
def test_a_pod_is_told_what_it_may_not_reach(egress: Egress, missing: str) -> None:
    (told, _) = pitfalls(a_pod(pod=PodShape(egress=egress)), "curl: (6) Could not resolve host: example.org")

    assert missing in told
    assert "in the policy, within the operator's ceilings.egress" in told


@pytest.mark.parametrize("reached", [{"internet": True}, {"to": (EgressRule("192.0.2.0/24"),)}])
def test_a_pod_that_may_reach_something_is_told_nothing(reached: dict[str, Any]) -> None:
    assert pitfalls(a_pod(pod=PodShape(egress=Egress(dns=True, **reached))), "network is unreachable") == []


@pytest.mark.parametrize("user", ["1000", "1000:1000", "1000:0", "auto"])
def test_whoever_is_not_certainly_root(user: str) -> None:
    config = a_config("x", **{**SOFT, "user": user})

    assert named(config, "touch: cannot touch '/opt/x': Permission denied") == (USER,)


@pytest.mark.parametrize("dropped", [("ALL",), ("CHOWN",), ("SETUID", "MKNOD")])
def test_capabilities_that_were_dropped(dropped: tuple[str, ...]) -> None:
    assert named(a_config("x", **{**SOFT, "cap_drop": dropped}), "are you root?") == (CAPABILITIES,)


def test_capabilities_that_nobody_needs() -> None:
    assert pitfalls(a_config("x", **{**SOFT, "cap_drop": ("MKNOD", "NET_RAW")}), "are you root?") == []


@pytest.mark.parametrize(
    "output",
    [
        "/bin/sh: 1: cannot create /agent/x: Read-only file system",
        "touch: cannot touch '/workspace/x': Read-only file system",
        "touch: cannot touch '/opt/shared/x': Permission denied",
        "OSError: [Errno 30] Read-only file system: '/opt/shared'",
    ],
)
def test_what_is_mounted_is_no_matter_of_the_root_file_system(output: str) -> None:
    mounted = {
        "agent": HostSource("/srv/rain"),
        "access": Access.RO,
        "binds": ("/srv/shared:/opt/shared:ro",),
    }

    assert pitfalls(a_config("x", **mounted), output) == []
    assert pitfalls(
        a_config("x", **mounted), f"{output}\ntouch: cannot touch '/opt/shared2': Read-only file system"
    )
