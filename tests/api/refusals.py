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
    yield from _limits()
    for amount, text in (
        (0, "greater than or equal to 1"),
        (-1, "greater than or equal to 1"),
        ("0%", "should match"),
        ("101%", "should match"),
        ("25", "should match"),
        ("", "should match"),
        (True, "of type integer,string"),
        (2.5, "of type integer,string"),
    ):
        yield refuse(
            f"{amount!r} may be away",
            {"rollout": {"maxUnavailable": amount}},
            "spec.rollout.maxUnavailable",
            text,
        )
    yield refuse("no rate", {"rollout": {"perMinute": 0}}, "spec.rollout.perMinute", "than or equal to 1")
    yield refuse("less than none", {"rollout": {"maxFailed": -1}}, "spec.rollout.maxFailed", "or equal to 0")
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


def _limits() -> Iterator[Refusal]:
    def refuse(field: str, item: object, text: str, *, by_rule: bool = False) -> Refusal:
        return Refusal(
            name=f"policy: {item!r} in limits.{field}",
            resource=POLICY,
            spec={"limits": {field: [item]}},
            says=(f"spec.limits.{field}[0]", text),
            by_rule=by_rule,
        )

    for root in ("/", "srv", "/a:b", "/a\nb"):
        yield refuse("bindRoots", root, "should")
    for network in ("", "a b", "container:"):
        yield refuse("networks", network, "should")
    yield refuse("networks", "Host", "network must not be host", by_rule=True)
    for user in ("", "root", "1000:1000", "-1"):
        yield refuse("users", user, "should")
    yield refuse("users", 1000, "must be of type string")
    for capability in ("", "all", "NET RAW"):
        yield refuse("capabilities", capability, "should")
    yield refuse("breakGlass", "everything", '"containerNamespaceJoin", "unconfinedSeccomp"')


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


def _pods() -> Iterator[Refusal]:
    def refuse(name: str, pod: Fields, field: str, *texts: str, by_rule: bool = False) -> Iterator[Refusal]:
        return _policy(name, {"pod": pod}, f"pod.{field}", *texts, by_rule=by_rule)

    for field in ("runtimeClassName", "priorityClassName"):
        for name in ("", "Gvisor", "a_b", "-a", "a..b"):
            yield from refuse(f"{field} {name!r}", {field: name}, field, "should")
    for name in ("system-node-critical", "system-cluster-critical", "system-x"):
        yield from refuse(
            f"priority {name}",
            {"priorityClassName": name},
            "priorityClassName",
            "priorityClassName must not begin with system-",
            by_rule=True,
        )
    yield from refuse("secret's name", {"imagePullSecrets": ["A"]}, "imagePullSecrets[0]", "should match")
    yield from refuse(
        "secret as an object", {"imagePullSecrets": [{"name": "a"}]}, "imagePullSecrets[0]", "of type string"
    )
    yield from refuse("nine secrets", {"imagePullSecrets": ["a"] * 9}, "imagePullSecrets", "at most 8")
    yield from refuse(
        "pull policy", {"imagePullPolicy": "Once"}, "imagePullPolicy", '"Always", "IfNotPresent"'
    )
    for size in ("", "0", "lots", "-1"):
        yield from refuse(f"disk {size!r}", {"ephemeralStorage": size}, "ephemeralStorage", "should")
    for resource in ("gpu", "/gpu", "nvidia.com/", "Nvidia.com/gpu", "a/b/c"):
        yield from refuse(f"GPUs as {resource!r}", {"gpuResource": resource}, "gpuResource", "should match")
    for resource in ("kubernetes.io/gpu", "x.kubernetes.io/gpu"):
        yield from refuse(
            f"GPUs as {resource}",
            {"gpuResource": resource},
            "gpuResource",
            "gpuResource must be what a device plugin offers",
            by_rule=True,
        )
    tolerations: tuple[tuple[Fields, str, str], ...] = (
        ({}, "operator", "operator must be Exists where key is absent"),
        ({"operator": "Equal", "value": "x"}, "operator", "operator must be Exists where key is absent"),
        (
            {"key": "a", "operator": "Exists", "value": "x"},
            "value",
            "value must be absent with operator Exists",
        ),
        (
            {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1},
            "tolerationSeconds",
            "tolerationSeconds is for the effect NoExecute",
        ),
        ({"key": "a", "tolerationSeconds": 1}, "tolerationSeconds", "tolerationSeconds is for the effect"),
    )
    for toleration, field, text in tolerations:
        yield from refuse(
            f"toleration {toleration}",
            {"tolerations": [toleration]},
            f"tolerations[0].{field}",
            text,
            by_rule=True,
        )
    yield from refuse(
        "taint's effect",
        {"tolerations": [{"key": "a", "effect": "x"}]},
        "tolerations[0].effect",
        '"NoSchedule"',
    )
    yield from refuse(
        "no longer than never",
        {"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": -1}]},
        "tolerations[0].tolerationSeconds",
        "greater than or equal to 0",
    )


_MALFORMED_KEYS: Final = ("", "-a", "a-", "a b", "a/b/c", "A/b", "/a", "a/", "a..b/c", "-a/b", "a" * 64, "Ä")


def _metadata() -> Iterator[Refusal]:
    for key in (*_MALFORMED_KEYS, f"{'a' * 250}/abc"):
        for field in ("nodeSelector", "labels", "annotations"):
            yield from _policy(
                f"{field} {key[:9]!r} of {len(key)}",
                {"pod": {field: {"fine": "1", key: "1"}}},
                f"pod.{field}",
                f"keys in {field} must be label keys: domain/name or name",
            )
    others = ("kubernetes.io/x", "k8s.io/x", "node.kubernetes.io/x", "pod-security.kubernetes.io/enforce",
              "container.apparmor.security.beta.kubernetes.io/sandbox", "cdi.k8s.io/x", "sandkeeper.dev/key-hash",
              "x.sandkeeper.dev/y",
        "node.kubernetes.io")  # fmt: skip
    for key in others:
        for field in ("labels", "annotations"):
            yield from _policy(
                f"{field} of others: {key}",
                {"pod": {field: {"fine": "1", key: "1"}}},
                f"pod.{field}",
                f"{field} must not have keys of kubernetes.io, k8s.io or sandkeeper.dev",
                by_rule=True,
            )
    rewiring = ("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network", "k8s.ovn.org/x", "ovn.org/x",
                "cni.projectcalico.org/ipAddrs", "policy.cilium.io/no-track-port", "sidecar.istio.io/inject",
                "linkerd.io/inject", "seccomp-profile.kubernetes.cri-o.io", "cpu-quota.crio.io/x",
                "dev.gvisor.flag.network", "io.katacontainers.config.hypervisor.kernel_params",
                "io.kubernetes.cri-o.Devices", "run.oci.hooks.stderr")  # fmt: skip
    for key in rewiring:
        yield from _policy(
            f"annotations that open a Pod: {key}",
            {"pod": {"annotations": {"fine": "1", key: "1"}}},
            "pod.annotations",
            "nor of network plugins, service meshes and runtimes",
            by_rule=True,
        )
    for value in ("-a", "a b", "a" * 64, "ä"):
        for field in ("nodeSelector", "labels"):
            yield from _policy(
                f"{field}'s value {value[:9]!r}", {"pod": {field: {"a": value}}}, f"pod.{field}.a", ""
            )
    yield from _policy(
        "annotation with NUL", {"pod": {"annotations": {"a": "\0"}}}, "pod.annotations.a", "should match"
    )
    yield from _policy(
        "annotation too long", {"pod": {"annotations": {"a": "x" * 4097}}}, "pod.annotations.a", "Too long"
    )
    for field in ("nodeSelector", "labels", "annotations"):
        yield from _policy(
            f"17 {field}", {"pod": {field: {f"a{n}": "" for n in range(17)}}}, f"pod.{field}", "at most 16"
        )


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _nodes(term: Fields) -> Fields:
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}


def _placed(name: str, affinity: Fields, field: str, *texts: str, by_rule: bool = False) -> Iterator[Refusal]:
    section = {"pod": {"affinity": affinity}}
    return _policy(f"affinity: {name}", section, f"pod.affinity.{field}", *texts, by_rule=by_rule)


_TERMS: Final = f"nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def _values() -> Iterator[Refusal]:
    for operator, values in (
        ("In", []),
        ("NotIn", None),
        ("Gt", None),
        ("Exists", ["a"]),
        ("DoesNotExist", ["a"]),
    ):
        requirement = {"key": "a", "operator": operator} | ({} if values is None else {"values": values})
        yield from _placed(
            f"node {operator} {values}",
            _nodes({"matchExpressions": [requirement]}),
            f"{_TERMS}[0].matchExpressions[0].values",
            "values must go with In, NotIn, Gt and Lt, and with no other operator",
            by_rule=True,
        )
        if operator != "Gt":
            for kind in ("podAffinity", "podAntiAffinity"):
                term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [requirement]}}
                yield from _placed(
                    f"{kind} {operator} {values}",
                    {kind: {_REQUIRED: [term]}},
                    f"{kind}.{_REQUIRED}[0].labelSelector.matchExpressions[0].values",
                    "values must go with In, NotIn, Gt and Lt, and with no other operator",
                    by_rule=True,
                )
    for values in (["1", "2"], ["a"], ["1.5"]):
        yield from _placed(
            f"node Lt {values}",
            _nodes({"matchExpressions": [{"key": "a", "operator": "Lt", "values": values}]}),
            f"{_TERMS}[0].matchExpressions[0].values",
            "values must be one whole number with the operators Gt and Lt",
            by_rule=True,
        )


def _near_nodes() -> Iterator[Refusal]:
    yield from _placed(
        "no terms", {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": []}}}, _TERMS, "at least 1"
    )
    by_name = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    for change, field, text in (
        ({"key": "metadata_name"}, "key", "should match"),
        ({"operator": "Exists"}, "operator", '"In", "NotIn"'),
        ({"values": []}, "values", "at least 1"),
        ({"values": ["a", "b"]}, "values", "at most 1"),
    ):
        yield from _placed(
            f"node's field {change}",
            _nodes({"matchFields": [{**by_name, **change}]}),
            f"{_TERMS}[0].matchFields[0].{field}",
            text,
        )
    for weight in (0, 101):
        yield from _placed(
            f"weight {weight}",
            {"nodeAffinity": {_PREFERRED: [{"weight": weight, "preference": {}}]}},
            f"nodeAffinity.{_PREFERRED}[0].weight",
            "than or equal to",
        )


def _near_pods() -> Iterator[Refusal]:
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _placed(
            f"{kind} nowhere",
            {kind: {_REQUIRED: [{}]}},
            f"{kind}.{_REQUIRED}[0].topologyKey",
            "Required value",
        )
        yield from _placed(
            f"{kind} to a label that is none",
            {kind: {_REQUIRED: [{"topologyKey": "a", "labelSelector": {"matchLabels": {"a b": ""}}}]}},
            f"{kind}.{_REQUIRED}[0].labelSelector.matchLabels",
            "keys in matchLabels must be label keys",
        )
        yield from _placed(
            f"{kind} to nine Pods",
            {kind: {_REQUIRED: [{"topologyKey": "a"}] * 9}},
            f"{kind}.{_REQUIRED}",
            "at most 8",
        )
    for key in _MALFORMED_KEYS:
        yield from _placed(
            f"topology {key[:9]!r}",
            {"podAffinity": {_REQUIRED: [{"topologyKey": key}]}},
            f"podAffinity.{_REQUIRED}[0].topologyKey",
            "should",
        )


def _egress() -> Iterator[Refusal]:
    def refuse(
        name: str, target: Fields, field: str, *texts: str, by_rule: bool = False
    ) -> Iterator[Refusal]:
        section = {"pod": {"egress": {"to": [target]}}}
        return _policy(f"egress {name}", section, f"pod.egress.to[0].{field}", *texts, by_rule=by_rule)

    for cidr in (
        "",
        "192.0.2.1",
        "example.com/24",
        "192.0.2.0/255.255.255.0",
        "192.0.2.0/024",
        "fe80::%e/64",
    ):
        yield from refuse(f"to {cidr!r}", {"cidr": cidr}, "cidr", "should")
    for cidr in ("192.0.2.1/24", "2001:db8::1/32", "192.0.2.0/33", "999.0.2.0/24", "192.0.2/24", "::/129",
                 "::ffff:192.0.2.0/120", "192.0.02.0/24", "2001:0db8::/32", "2001:db8:0:0::/64", ":::/8"):  # fmt: skip
        yield from refuse(
            f"to {cidr!r}",
            {"cidr": cidr},
            "cidr",
            "cidr must be a network such as 192.0.2.0/24",
            by_rule=True,
        )
    yield from refuse("to nowhere", {"ports": [{"port": 1}]}, "cidr", "Required value")
    port: Fields
    for port, field, text in (
        ({"port": 0}, "port", "greater than or equal to 1"),
        ({"port": 65536}, "port", "less than or equal to 65535"),
        ({"port": "http"}, "port", "must be of type integer"),
        ({"endPort": 1}, "port", "Required value"),
        ({"port": 1, "protocol": "ICMP"}, "protocol", '"TCP", "UDP", "SCTP"'),
    ):
        yield from refuse(f"at {port}", {"cidr": "192.0.2.0/24", "ports": [port]}, f"ports[0].{field}", text)
    yield from refuse(
        "at ports backwards",
        {"cidr": "192.0.2.0/24", "ports": [{"port": 2, "endPort": 1}]},
        "ports[0].endPort",
        "endPort must not be below port",
        by_rule=True,
    )
    yield from refuse("at no ports", {"cidr": "192.0.2.0/24", "ports": []}, "ports", "at least 1")
    yield from _policy(
        "egress to 33 networks",
        {"pod": {"egress": {"to": [{"cidr": "192.0.2.0/24"}] * 33}}},
        "pod.egress.to",
        "at most 32",
    )


def _workspaces() -> Iterator[Refusal]:
    def refuse(
        name: str, volume: Fields, field: str, *texts: str, by_rule: bool = False
    ) -> Iterator[Refusal]:
        section = {"workspace": {"volume": volume}}
        return _policy(f"workspace {name}", section, f"workspace.volume{field}", *texts, by_rule=by_rule)

    several: tuple[Fields, ...] = (
        {},
        {"emptyDir": {}, "claim": {"name": "a"}},
        {"template": {"size": "1g"}, "hostPath": {"path": "/srv"}},
        {"emptyDir": {}, "claim": {"name": "a"}, "template": {"size": "1g"}, "hostPath": {"path": "/srv"}},
    )
    for volume in several:
        yield from refuse(
            f"in {len(volume)}: {', '.join(volume)}",
            volume,
            "",
            "workspace.volume must be exactly one of emptyDir, claim, template and hostPath",
            by_rule=True,
        )
    for size in ("", "0", "lots", "-1g"):
        yield from refuse(f"of {size!r}", {"emptyDir": {"sizeLimit": size}}, ".emptyDir.sizeLimit", "should")
        yield from refuse(f"made of {size!r}", {"template": {"size": size}}, ".template.size", "should")
    for name in ("", "A", "a/b", "a" * 254):
        yield from refuse(f"in the claim {name[:9]!r}", {"claim": {"name": name}}, ".claim.name", "")
    yield from refuse("in a claim without a name", {"claim": {}}, ".claim.name", "Required value")
    yield from refuse("made of nothing", {"template": {}}, ".template.size", "Required value")
    for path in ("", "/", "srv", "./srv", "/srv:ro", "/a\nb", "/srv/{agentid}", "/srv/{agentId}}"):
        yield from refuse(f"at {path!r}", {"hostPath": {"path": path}}, ".hostPath.path", "should")
    made: tuple[tuple[Fields, str, str], ...] = (
        ({"storageClassName": "Fast"}, "storageClassName", "should match"),
        ({"accessModes": []}, "accessModes", "at least 1"),
        ({"accessModes": ["ReadOnlyMany"]}, "accessModes[0]", '"ReadWriteOnce", "ReadWriteOncePod"'),
        ({"retention": "Keep"}, "retention", '"Retain", "Delete"'),
    )
    for fields, field, text in made:
        yield from refuse(
            f"made with {fields}", {"template": {"size": "1g", **fields}}, f".template.{field}", text
        )


def _agents_workspaces() -> Iterator[Refusal]:
    def refuse(name: str, agent: Fields, field: str, *texts: str, by_rule: bool = False) -> Iterator[Refusal]:
        section = {"workspace": {"agent": agent}}
        return _policy(
            f"agent's workspace {name}", section, f"workspace.agent{field}", *texts, by_rule=by_rule
        )

    several: tuple[Fields, ...] = (
        {},
        {"hostPath": {"path": "/srv"}, "claim": {"name": "a"}},
        {"claim": {"name": "a"}, "configMap": {"name": "a"}},
    )
    for agent in several:
        yield from refuse(
            f"in {len(agent)}: {', '.join(agent)}",
            agent,
            "",
            "workspace.agent must be exactly one of hostPath, claim and configMap",
            by_rule=True,
        )
    for path in ("", "/", "srv", "/srv:ro", "/a\nb", "/srv/{agent}", "/srv/{", "/srv/}"):
        yield from refuse(f"at {path!r}", {"hostPath": {"path": path}}, ".hostPath.path", "should")
    for name in ("", "A", "a/b", "{agent}", "a{", "a" * 254):
        yield from refuse(f"in the claim {name[:9]!r}", {"claim": {"name": name}}, ".claim.name", "")
        yield from refuse(f"in {name[:9]!r}", {"configMap": {"name": name}}, ".configMap.name", "")
    for path in (*_NOT_BELOW, "{agent}", "a/{", ".{agentId}"):
        claim = {"claim": {"name": "a", "subPath": path}}
        yield from refuse(f"in a claim at {path[:9]!r}", claim, ".claim.subPath", "")
    yield from _policy(
        "unknown access", {"workspace": {"access": "write"}}, "workspace.access", '"none", "ro", "rw"'
    )


_NOT_BELOW: Final = ("", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a:b", "a\nb", "a" * 513)


def _mounts() -> Iterator[Refusal]:
    claim: Fields = {"claim": {"name": "a"}}

    def refuse(name: str, mount: Fields, field: str, *texts: str, by_rule: bool = False) -> Iterator[Refusal]:
        section = {"pod": {"mounts": [mount]}}
        return _policy(f"mount {name}", section, f"pod.mounts[0]{field}", *texts, by_rule=by_rule)

    for path in ("", "/", "a", "/a:b", "/a\nb"):
        yield from refuse(f"at {path!r}", {"path": path, **claim}, ".path", "should")
    yield from refuse("nowhere", claim, ".path", "Required value")
    for path in _NOT_BELOW:
        mount = {"path": "/a", "claim": {"name": "a", "subPath": path}}
        yield from refuse(f"of {path[:9]!r}", mount, ".claim.subPath", "")
    one = "a mount must be exactly one of claim and configMap"
    yield from refuse("of nothing", {"path": "/a"}, "", one, by_rule=True)
    both = {"path": "/a", **claim, "configMap": {"name": "a"}}
    yield from refuse("of two", both, "", one, by_rule=True)
    written = {"path": "/a", "configMap": {"name": "a"}, "readOnly": False}
    yield from refuse(
        "to write to a ConfigMap",
        written,
        ".readOnly",
        "readOnly must not be false for a configMap",
        by_rule=True,
    )
    yield from _policy(
        "17 mounts", {"pod": {"mounts": [{"path": "/a", **claim}] * 17}}, "pod.mounts", "at most 16"
    )
    yield from _policy(
        "browser's bind", {"browser": {"binds": ["volume:/a"]}}, "browser.binds[0]", "should match"
    )


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
        _pods,
        _metadata,
        _values,
        _near_nodes,
        _near_pods,
        _egress,
        _workspaces,
        _agents_workspaces,
        _mounts,
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
