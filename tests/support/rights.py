"""The operator of the tests has the rights that the chart gives, no more; and of these, none that it never uses.

Each process of a test run makes a service account of its own with the chart's rights, for all operators of its tests.
So what is missing fails the tests that need it. The API server writes down what these accounts ask for; when all tests
have been run, what was asked for is compared with what was granted. What was refused and what was granted and never
used both fail the run.
"""

import json
import secrets
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from support.cluster import Cluster
from support.helm import Helm
from support.manifests import to_json
from support.waiting import wait_for
from testbed.control_plane import AUDITED_NAMESPACE
from testbed.providers import Provider

__all__ = [
    "EXCUSED",
    "Record",
    "Right",
    "account_with",
    "complaints",
    "granted_by",
    "roles_of_the_operator",
]

Object = dict[str, Any]


class Right(NamedTuple):
    """One verb on one resource, a subresource after a slash."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        """Write it as one would look for it in the chart."""
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


EXCUSED: Mapping[Right, str] = {
    Right("", "pods/exec", "create"): "asked for since Kubernetes 1.35; the test bed has an older one",
}
"""What is granted and may never be used here, with the reason."""


_KINDS = ("granted", "used", "refused")
_NOBODY = "No process of the run told what its operators asked for: what is granted was compared with nothing"
_SILENT = (
    "The API server wrote down no request of the operators: take the test bed down (make cluster-down), for it was "
    "started by older sources"
)


@dataclass(frozen=True)
class Record:
    """What was granted to the operators of a run, what they used, and what they were refused."""

    granted: frozenset[Right] = frozenset()
    used: frozenset[Right] = frozenset()
    refused: frozenset[Right] = frozenset()

    def __or__(self, other: "Record") -> "Record":
        """Put together what two processes have seen."""
        return Record(
            self.granted | other.granted,
            self.used | other.used,
            self.refused | other.refused,
        )

    def to_json(self) -> dict[str, Any]:
        """Write it as one process tells it another, which takes nothing but plain lists."""
        return {name: [list(right) for right in sorted(getattr(self, name))] for name in _KINDS}

    @classmethod
    def parse(cls, read: Mapping[str, Any]) -> "Record":
        """Read what :meth:`to_json` wrote."""
        granted, used, refused = (frozenset(Right(*each) for each in read[name]) for name in _KINDS)
        return cls(granted, used, refused)


def granted_by(roles: Iterable[Object]) -> frozenset[Right]:
    """Return the rights that Roles and ClusterRoles give."""
    return frozenset(
        Right(group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def complaints(record: Record | None, *, excused: Collection[Right] = EXCUSED) -> list[str]:
    """Compare what was granted with what was asked for; return what is wrong, in words. None: nobody told anything."""
    if record is None:
        return [_NOBODY]
    if not record.granted:
        return []  # another's cluster, whose API server tells nobody what it was asked for
    if not record.used:
        return [_SILENT]
    unused = record.granted - record.used - frozenset(excused)
    refused = sorted(record.refused)
    needless = frozenset(excused) & record.used
    return [
        *(
            f"Granted and never used in the whole run: {each}; take it out of the chart"
            for each in sorted(unused)
        ),
        *(f"Asked for and not granted: {each}; the operator needs it, or must not ask" for each in refused),
        *(
            f"Used, and excused all the same: {each}; it needs no excuse any more"
            for each in sorted(needless)
        ),
    ]


def read_log(lines: Iterable[str], *, user: str) -> tuple[frozenset[Right], frozenset[Right]]:
    """Return what a user asked for by an audit log and was given, and what it was refused for want of a right."""
    allowed: set[Right] = set()
    refused: set[Right] = set()
    for line in lines:
        if user not in line:
            continue
        event = json.loads(line)
        target = event.get("objectRef")
        if target is None or event["user"]["username"] != user:
            continue
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        right = Right(target.get("apiGroup", ""), resource, event["verb"])
        decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
        # Admission refuses too, say in a namespace that is on its way out: that is no want of rights.
        (refused if decision == "forbid" else allowed).add(right)
    return frozenset(allowed), frozenset(refused)


def roles_of_the_operator(helm: Helm, *, release: str, **settings: Any) -> list[Object]:
    """Render what the chart lets an operator do that serves both backends in all namespaces."""
    values: dict[str, Any] = {
        "config.backends": ["docker", "pod"],
        "rbac.aggregate": False,
        "crds.enabled": False,
    }
    rendered = helm.template(release=release, **values, **settings)
    return [
        one
        for one in rendered
        if one["kind"] in {"Role", "ClusterRole"}
        and "helm.sh/hook" not in one["metadata"].get("annotations", {})
    ]


_RECORD = pytest.StashKey[Record]()


@pytest.fixture(scope="session")
def operator_kubeconfig(
    cluster: Cluster,
    crds: None,
    renderer: Helm,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Path]:
    """A kubeconfig of a service account that may do what the chart lets the operator do."""
    # The release's name is that of `support.operator`: rights on the lease are by name.
    roles = roles_of_the_operator(renderer, release="test")
    with account_with(cluster, roles, tmp_path_factory.mktemp("operator"), pytestconfig) as kubeconfig:
        yield kubeconfig


@contextmanager
def account_with(
    cluster: Cluster, roles: Sequence[Object], folder: Path, config: pytest.Config
) -> Iterator[Path]:
    """Make a service account with these rights in every namespace, and give its kubeconfig; note what it used."""
    name = f"operator-{secrets.token_hex(4)}"
    cluster.kubectl("apply", "-f", "-", stdin=to_json(*_account(name, roles)))
    try:
        kubeconfig = _kubeconfig(cluster, name, folder)
        theirs = replace(cluster, kubeconfig=kubeconfig)
        wait_for(lambda: all(_is_in_force(theirs, role) for role in roles), what="the rights are in force")
        yield kubeconfig
        ours = cluster.known.provider is Provider.LOCAL
        _note(config, _looked_up(cluster, name, granted_by(roles)) if ours else Record())
    finally:
        selector = f"sandkeeper.dev/tests={name}"
        cluster.kubectl("delete", "clusterroles,clusterrolebindings", "-l", selector)
        cluster.kubectl("-n", AUDITED_NAMESPACE, "delete", "serviceaccount", name)


def _account(name: str, roles: Iterable[Object]) -> Iterator[Object]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": AUDITED_NAMESPACE}}
    account = {"kind": "ServiceAccount", "name": name, "namespace": AUDITED_NAMESPACE}
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": AUDITED_NAMESPACE},
    }
    for role in roles:
        # Each test's operator is in a namespace of its own: what a Role gives it there, the account has in all.
        metadata = {
            "name": f"{name}-{role['metadata']['name']}",
            "labels": {"sandkeeper.dev/tests": name},
        }
        kind = "ClusterRole"
        api = "rbac.authorization.k8s.io"
        yield {"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata, "rules": role["rules"]}
        yield {
            "apiVersion": f"{api}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": kind, "name": metadata["name"]},
            "subjects": [account],
        }


def _kubeconfig(cluster: Cluster, account: str, folder: Path) -> Path:
    config = json.loads(cluster.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "json"))
    token = cluster.kubectl("-n", AUDITED_NAMESPACE, "create", "token", account, "--duration=24h").strip()
    config["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def _is_in_force(theirs: Cluster, role: Object) -> bool:
    """Whether the API server knows of a role and its binding, which is a moment after they were made."""
    right = min(granted_by([role]))
    resource = ".".join(filter(None, (right.resource.partition("/")[0], right.group)))
    subresource = right.resource.partition("/")[2]
    names = role["rules"][0].get("resourceNames", [])
    what = "/".join([resource, *names])
    asked = ["auth", "can-i", right.verb, what, "--all-namespaces", f"--subresource={subresource}"]
    try:
        return theirs.kubectl(*asked).strip() == "yes"
    except subprocess.CalledProcessError:
        return False  # that is how it says no


def _looked_up(cluster: Cluster, account: str, granted: frozenset[Right]) -> Record:
    user = f"system:serviceaccount:{AUDITED_NAMESPACE}:{account}"
    used: set[Right] = set()
    refused: set[Right] = set()
    # A log that became too large has its time in its name.
    for path in sorted(cluster.layout.logs.glob("audit*.log")):
        with path.open(encoding="utf-8") as lines:
            allowed, denied = read_log(lines, user=user)
        used |= allowed
        refused |= denied
    return Record(granted, frozenset(used), frozenset(refused))


def _note(config: pytest.Config, record: Record) -> None:
    config.stash[_RECORD] = config.stash.get(_RECORD, Record()) | record


def is_whole(config: pytest.Config) -> bool:
    """Whether all tests are run but for the nightly ones, and none was chosen."""
    options = config.option
    chosen = (options.keyword, options.deselect, options.ignore, options.ignore_glob, options.collectonly)
    return (
        config.args_source is config.ArgsSource.TESTPATHS
        and options.markexpr in {"", "not nightly"}
        and not any(chosen)
        and not getattr(options, "lf", False)
    )


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take in what a process of a distributed run has seen."""
    told = getattr(node, "workeroutput", {}).get("rights")
    if told is not None:
        _note(node.config, Record.parse(told))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tell whoever distributes the run what was seen here; where it all comes together, judge."""
    config = session.config
    record = config.stash.get(_RECORD, None)
    if hasattr(config, "workeroutput"):
        if record is not None:
            cast("dict[str, Any]", config.workeroutput)["rights"] = record.to_json()
    elif exitstatus == pytest.ExitCode.OK and is_whole(config) and complaints(record):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Say what is wrong with the rights."""
    found = complaints(config.stash.get(_RECORD, None)) if is_whole(config) else []
    if found:
        terminalreporter.section("rights of the operator", red=True, bold=True)
        for complaint in found:
            terminalreporter.line(complaint)
