"""What has to be refused, and in which words: one table for the API server and for the models."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandkeeper.api.container import SandboxContainer
from sandkeeper.api.crd import POLICY, SANDBOX, Resource

Fields = Mapping[str, Any]

FOR_SANDBOX_AUTHORS: Final = {field.alias for field in SandboxContainer.model_fields.values()}


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A spec that is refused. The API server's answer contains each of the texts."""

    name: str
    resource: Resource
    spec: Fields | None
    says: tuple[str, ...]
    by_rule: bool = False
    """The last text is of a rule, which the models state in the same words."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """An update of a Sandbox that is refused."""

    name: str
    before: Fields
    after: Fields
    says: tuple[str, ...]


def _policy(name: str, section: Fields, field: str, *texts: str, by_rule: bool = False) -> Iterator[Refusal]:
    """Refuse what is wrong in a policy and in an agent's entry alike."""
    yield Refusal(
        name=f"policy: {name}",
        resource=POLICY,
        spec=section,
        says=(f"spec.{field}", *texts),
        by_rule=by_rule,
    )
    yield Refusal(
        name=f"policy's agent: {name}",
        resource=POLICY,
        spec={"agents": [{"id": "fine"}, {"id": "dev", **section}]},
        says=(f"spec.agents[1].{field}", *texts),
        by_rule=by_rule,
    )


def _container(
    name: str, container: Fields, field: str, *texts: str, by_rule: bool = False
) -> Iterator[Refusal]:
    """Refuse what is wrong in every container that may have these fields."""
    section = {"container": container}
    yield from _policy(name, section, f"container.{field}", *texts, by_rule=by_rule)
    if FOR_SANDBOX_AUTHORS.issuperset(container):
        yield Refusal(
            name=f"sandbox: {name}",
            resource=SANDBOX,
            spec={"agentId": "dev", "scope": "session", **section},
            says=(f"spec.container.{field}", *texts),
            by_rule=by_rule,
        )


def _sandbox(name: str, spec: Fields, *texts: str, by_rule: bool = False) -> Iterator[Refusal]:
    yield Refusal(
        name=f"sandbox: {name}",
        resource=SANDBOX,
        spec={"agentId": "dev", **spec},
        says=texts,
        by_rule=by_rule,
    )


def _levels() -> Iterator[Refusal]:
    yield from _policy("unknown mode", {"mode": "always"}, "mode", '"off", "non-main", "all"')
    yield from _policy("mode as YAML reads a bare off", {"mode": False}, "mode", "must be of type string")
    yield from _policy("unknown scope", {"scope": "team"}, "scope", '"session", "agent", "shared"')
    yield from _policy("unknown backend", {"backend": "podman"}, "backend", '"docker", "pod"')
    yield from _policy("empty main session", {"mainSessionKey": ""}, "mainSessionKey", "at least 1 chars")
    yield from _policy(
        "negative hot window", {"hotWindowSeconds": -1}, "hotWindowSeconds", "greater than or equal to 0"
    )
    for field in ("idleSeconds", "maxAgeSeconds", "deleteAfterSeconds"):
        yield from _policy(
            f"negative {field}", {"prune": {field: -1}}, f"prune.{field}", "greater than or equal to 0"
        )
    yield from _policy(
        "endless window", {"hotWindowSeconds": 10**9}, "hotWindowSeconds", "less than or equal to 315360000"
    )


def _policies() -> Iterator[Refusal]:
    def refuse(name: str, spec: Fields | None, *texts: str, by_rule: bool = False) -> Refusal:
        return Refusal(name=f"policy: {name}", resource=POLICY, spec=spec, says=texts, by_rule=by_rule)

    yield refuse("no spec", None, "spec", "Required value")
    yield refuse(
        "negative longest hold",
        {"limits": {"maxHoldSeconds": -1}},
        "spec.limits.maxHoldSeconds",
        "greater than or equal to 0",
    )
    yield refuse("malformed limit", {"limits": {"memory": "lots"}}, "spec.limits.memory", "should match")
    yield refuse(
        "star within an image name", {"limits": {"images": ["a*b"]}}, "spec.limits.images[0]", "should match"
    )
    yield refuse(
        "same agent twice", {"agents": [{"id": "a"}, {"id": "a"}]}, "spec.agents[1]", "Duplicate value"
    )
    yield refuse("agent without id", {"agents": [{"mode": "all"}]}, "spec.agents[0].id", "Required value")
    yield refuse("agent with a slash", {"agents": [{"id": "a/b"}]}, "spec.agents[0].id", "should match")
    yield refuse(
        "129 agents",
        {"agents": [{"id": f"a{number}"} for number in range(129)]},
        "spec.agents",
        "at most 128",
    )
    yield refuse(
        "swap without memory",
        {"container": {"memorySwap": "1g"}},
        "spec.container.memorySwap",
        "container.memorySwap is memory and swap together: set container.memory too",
        by_rule=True,
    )
    yield refuse(
        "an agent's swap without memory",
        {"agents": [{"id": "a"}, {"id": "b", "container": {"memorySwap": "1g"}}]},
        "spec.agents",
        "agents[].container.memorySwap is memory and swap together: set memory beside it or in spec.container",
        by_rule=True,
    )


def _resources() -> Iterator[Refusal]:
    for memory in ("", "lots", "0", "-1", "512 m", "1e9", "512mb", "0x10", "5Pi"):
        yield from _container(f"memory {memory!r}", {"memory": memory}, "memory", "should")
    for swap in ("", "-2", "unlimited", "1 g"):
        yield from _container(f"swap {swap!r}", {"memory": "1g", "memorySwap": swap}, "memorySwap", "should")
    yield from _container("memory as a number", {"memory": 512}, "memory", "must be of type string")
    yield from _container("no cpus", {"cpus": 0}, "cpus", "cpus must be at least 0.01")
    yield from _container("negative cpus", {"cpus": -1.5}, "cpus", "greater than or equal to 0.01")
    yield from _container("cpus as text", {"cpus": "two"}, "cpus", "must be of type number")
    yield from _container("too many cpus", {"cpus": 1025}, "cpus", "less than or equal to 1024")
    yield from _container("no processes", {"pidsLimit": 0}, "pidsLimit", "greater than or equal to 1")
    for gpus in ("some", "0", "device=", "device=0,", "-1"):
        yield from _container(f"gpus {gpus!r}", {"gpus": gpus}, "gpus", "should match")
    yield from _container(
        "no time for setup", {"setupTimeoutSeconds": 0}, "setupTimeoutSeconds", "greater than or equal to 1"
    )


def _ulimits() -> Iterator[Refusal]:
    yield from _container(
        "unknown ulimit",
        {"ulimits": {"as": {"soft": 1, "hard": 1}}},
        "ulimits",
        "ulimits knows the names core cpu data fsize",
    )
    for soft, hard in ((2, 1), (-1, 1)):
        yield from _container(
            f"ulimit {soft}:{hard}",
            {"ulimits": {"nofile": {"soft": soft, "hard": hard}}},
            "ulimits",
            "nofile",
            "soft must not be above hard (-1 is without a limit): lower soft or raise hard",
            by_rule=True,
        )
    yield from _container(
        "ulimit without hard", {"ulimits": {"nofile": {"soft": 1}}}, "ulimits.nofile.hard", "Required value"
    )
    yield from _container(
        "ulimit of -2",
        {"ulimits": {"nofile": {"soft": -2, "hard": 1}}},
        "ulimits.nofile.soft",
        "greater than or equal to -1",
    )


def _environment() -> Iterator[Refusal]:
    for name in ("", "1ST", "WITH SPACE", "WITH-DASH", "A=B", "ÜBER", "LINE\nBREAK", "A" * 257):
        yield from _container(
            f"env name {name[:16]!r}", {"env": {name: "x"}}, "env", "begin with a letter or underscore"
        )
    yield from _container("env value with NUL", {"env": {"A": "a\0b"}}, "env.A", "should match")
    yield from _container("env value too long", {"env": {"A": "x" * 32769}}, "env.A", "Too long")
    yield from _container("env value as a number", {"env": {"A": 1}}, "env.A", "must be of type string")
    yield from _container(
        "129 variables", {"env": {f"A{number}": "" for number in range(129)}}, "env", "at most 128"
    )
    yield from _container(
        "secret name with a dash", {"allowSecretEnv": ["MY-TOKEN"]}, "allowSecretEnv[0]", "should match"
    )


def _places() -> Iterator[Refusal]:
    images = ("", "-rm", "a b", "Debian", "debian:", "debian@sha256:12", "docker.io/Debian:12", "debian\n")
    for image in images:
        yield from _container(f"image {image!r}", {"image": image}, "image", "should")
    for workdir in ("", "workspace", "./x", "/a:b", "/a\nb"):
        yield from _container(f"workdir {workdir!r}", {"workdir": workdir}, "workdir", "should")
    for tmpfs in ("run", "/run:", "/run:size=1m,", "/run:size=1m:ro", "/a\nb"):
        yield from _container(f"tmpfs {tmpfs!r}", {"tmpfs": [tmpfs]}, "tmpfs[0]", "should match")
    binds = ("/srv", "srv:/srv", "./a:/b", "/srv:data", "volume:/data", "/a:/b:rx", "/a:/b:ro:z", "/a\n:/b")
    for bind in binds:
        yield from _container(f"bind {bind!r}", {"binds": [bind]}, "binds[0]", "should match")
    for prefix in ("-a", "A", "a.b", "a" * 21):
        yield from _container(f"prefix {prefix!r}", {"containerPrefix": prefix}, "containerPrefix", "")


def _isolation() -> Iterator[Refusal]:
    for network in ("host", "HOST"):
        yield from _container(
            f"network {network}",
            {"network": network, "dangerouslyAllowContainerNamespaceJoin": True},
            "network",
            "network must not be host, which would share the node's own network",
            by_rule=True,
        )
    for refused in ({}, {"dangerouslyAllowContainerNamespaceJoin": False}):
        yield from _container(
            f"another container's network {refused}",
            {"network": "container:web", **refused},
            "network",
            "unless dangerouslyAllowContainerNamespaceJoin: true is set beside it",
            by_rule=True,
        )
    for network in ("", "a b", "ns:/proc/1/ns/net", "Container:x", "container:", "-x"):
        yield from _container(f"network {network!r}", {"network": network}, "network", "should")
    for value in ("unconfined", "Unconfined", "UNCONFINED"):
        yield from _container(
            f"seccomp {value}",
            {"seccompProfile": value},
            "seccompProfile",
            "seccompProfile must not be unconfined unless dangerouslyAllowUnconfinedSeccomp: true",
            by_rule=True,
        )
        yield from _container(
            f"apparmor {value}",
            {"apparmorProfile": value},
            "apparmorProfile",
            "apparmorProfile must not be unconfined unless dangerouslyAllowUnconfinedApparmor: true",
            by_rule=True,
        )
    yield from _container(
        "apparmor, with the break-glass of seccomp",
        {"apparmorProfile": "unconfined", "dangerouslyAllowUnconfinedSeccomp": True},
        "apparmorProfile",
        "apparmorProfile must not be unconfined",
        by_rule=True,
    )
    for profile in ("../escape", "/etc/passwd", "a/b", ""):
        yield from _container(f"seccomp {profile!r}", {"seccompProfile": profile}, "seccompProfile", "should")
    for user in ("", "root", "1000:", "1000:1000:1000", "-1", "1000:users"):
        yield from _container(f"user {user!r}", {"user": user}, "user", "should")
    for user in ("2147483648", "0:9999999999"):
        yield from _container(
            f"user {user!r}",
            {"user": user},
            "user",
            "user must be auto, uid or uid:gid in numbers of at most 2147483647",
            by_rule=True,
        )
    for capability in ("", "all", "NET RAW", "-ALL"):
        yield from _container(f"capability {capability!r}", {"capDrop": [capability]}, "capDrop[0]", "should")


def _names() -> Iterator[Refusal]:
    for server in ("999.1.1.1", "dns.example", "192.0.2.53:53", "fe80::1%eth0"):
        yield from _container(
            f"dns {server!r}", {"dns": [server]}, "dns[0]", "dns must list IP addresses", by_rule=True
        )
    for line in ("db:not-an-address", "db:999.1.1.1", "db:host-gateway:1"):
        yield from _container(
            f"extra host {line!r}",
            {"extraHosts": [line]},
            "extraHosts[0]",
            "extraHosts must list name:address, with an IP address or host-gateway",
            by_rule=True,
        )
    for line in ("database", ":192.0.2.1", "a b:192.0.2.1"):
        yield from _container(f"extra host {line!r}", {"extraHosts": [line]}, "extraHosts[0]", "should match")


def _sandboxes() -> Iterator[Refusal]:
    yield Refusal(name="sandbox: no spec", resource=SANDBOX, spec=None, says=("spec", "Required value"))
    yield Refusal(
        name="sandbox: no agent", resource=SANDBOX, spec={}, says=("spec.agentId", "Required value")
    )
    for agent in ("", "-dev", ".dev", "a/b", "a:b", "a b", "a" * 129):
        yield from _sandbox(f"agent {agent[:8]!r}", {"agentId": agent}, "spec.agentId", "spec.agentId")
    for key in ("", "two\nlines", "k" * 513):
        yield from _sandbox(f"session {key[:12]!r}", {"sessionKey": key}, "spec.sessionKey", "")
    for name in ("", "A", "a_b", "-a", "a..b"):
        yield from _sandbox(
            f"policy {name!r}", {"policyRef": {"name": name}}, "spec.policyRef.name", "should"
        )
    yield from _sandbox("unknown scope", {"scope": "team"}, "spec.scope", '"session", "agent", "shared"')
    yield from _sandbox("unknown state", {"state": "Paused"}, "spec.state", '"Running", "Stopped"')
    yield from _sandbox(
        "unknown backend", {"scope": "session", "backend": "ssh"}, "spec.backend", '"docker", "pod"'
    )
    for scope in ({}, {"scope": "agent"}, {"scope": "shared"}):
        yield from _sandbox(
            f"backend with {scope}",
            {"backend": "docker", **scope},
            "spec.backend",
            "backend is for scope session only, where nobody else shares the runtime: "
            "set scope: session on this Sandbox, or leave backend out",
            by_rule=True,
        )
        yield from _sandbox(
            f"container with {scope}",
            {"container": {"memory": "1g"}, **scope},
            "spec.container",
            "container is for scope session only, where nobody else shares the runtime: "
            "set scope: session on this Sandbox, or leave container out",
            by_rule=True,
        )


REFUSALS: Final = tuple(
    refusal
    for table in (
        _levels,
        _policies,
        _resources,
        _ulimits,
        _environment,
        _places,
        _isolation,
        _names,
        _sandboxes,
    )
    for refusal in table()
)


def _immutable(field: str, before: Fields, after: Fields, *, name: str = "changed") -> Change:
    return Change(
        name=f"{field} {name}",
        before={"agentId": "dev", **before},
        after={"agentId": "dev", **after},
        says=(f"spec.{field}", f"{field} is immutable"),
    )


CHANGES: Final = (
    _immutable("agentId", {}, {"agentId": "main"}),
    _immutable("sessionKey", {"sessionKey": "a"}, {"sessionKey": "b"}),
    _immutable("sessionKey", {"sessionKey": "a"}, {}, name="removed"),
    _immutable("sessionKey", {}, {"sessionKey": "b"}, name="changed from the default"),
    _immutable("policyRef.name", {"policyRef": {"name": "a"}}, {"policyRef": {"name": "b"}}),
    _immutable("policyRef.name", {"policyRef": {"name": "a"}}, {"policyRef": {}}, name="removed"),
    _immutable("policyRef.name", {"policyRef": {"name": "a"}}, {}, name="removed with its section"),
    _immutable("policyRef.name", {}, {"policyRef": {"name": "b"}}, name="changed from the default"),
    _immutable("scope", {"scope": "agent"}, {"scope": "session"}),
    _immutable("scope", {"scope": "agent"}, {}, name="removed"),
    _immutable("scope", {"scope": "session", "backend": "pod"}, {"scope": "shared"}),
)
