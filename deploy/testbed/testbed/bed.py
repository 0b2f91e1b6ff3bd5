"""One test bed as its user sees it: up, status, env, down, whoever provides the cluster.

And what tests do to a cluster of our own that nobody else is using: they restart its API server and let
its etcd forget.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import binaries, files, images, kind, kwok, local, locks, probes, progress, providers
from testbed import instance as instances
from testbed.engine import Engine
from testbed.providers import Provider, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from testbed.instance import Instance
    from testbed.paths import Layout

_CLUSTER_SECONDS = 60.0


@dataclass(frozen=True)
class Bed:
    """What ``up`` made, and so what ``down`` takes away."""

    provider: Provider
    source: str | None
    """The kubeconfig that the caller named."""
    kubeconfig: str
    docker_host: str
    """Empty where there is no engine, that is with a control plane alone."""
    own_engine: bool
    """Whether we started it; another's is never stopped."""
    made_base: bool
    """Whether we put the base image there."""
    bin_dir: str | None
    """The folder with kubectl and the rest, if we built them."""
    kind: str | None
    nodeless: bool = False
    """Whether the cluster is a control plane and nothing else."""

    def environment(self) -> dict[str, str]:
        """Say what a shell needs to use it; PATH is what is to be put in front."""
        found = {"KUBECONFIG": self.kubeconfig}
        if self.docker_host:
            found["DOCKER_HOST"] = self.docker_host
        if self.bin_dir:
            # Tools written for envtest look there for the API server and etcd.
            found |= {"KUBEBUILDER_ASSETS": self.bin_dir, "PATH": self.bin_dir}
        return found


@dataclass(frozen=True)
class Health:
    """How one part is."""

    name: str
    pid: int | None
    trouble: str | None


def load(layout: Layout) -> Bed | None:
    """Read what ``up`` made, if it did."""
    try:
        read = json.loads(layout.bed.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Bed(**{**read, "provider": Provider(read["provider"])})


def _save(layout: Layout, bed: Bed) -> None:
    files.ensure(layout.bed, json.dumps({**asdict(bed), "provider": bed.provider.value}, indent=1))


def _lock_file(layout: Layout) -> Path:
    return layout.state.with_name(f"{layout.state.name}.lock")


def up(layout: Layout, environ: Mapping[str, str], *, nodeless: bool = False) -> Bed:
    """Bring everything up that is not; what is well already is left alone.

    A nodeless one is the control plane of our own, in seconds and without a Docker engine.
    """
    with locks.exclusive(_lock_file(layout)):
        known = load(layout)
        if known is not None:
            _refuse_another(known, environ, nodeless=nodeless)
            if known.bin_dir is not None and known.bin_dir != str(binaries.path(layout)):
                progress.say("What runs was built from other modules than these: starting over")
                _take_down(layout, known)
                known = None
            elif all(part.trouble is None for part in _checks(layout, known)):
                progress.say("Already up")
                return known
        bed = known or (_choose_nodeless(layout) if nodeless else _choose(layout, environ))
        # Before anything is made, so that a start that is broken off can be taken down.
        _save(layout, bed)
        engine = "our own" if bed.own_engine else bed.docker_host or "none"
        progress.say(f"Cluster: {bed.provider.value}; Docker engine: {engine}")
        bed = _make(layout, bed)
        _save(layout, bed)
        progress.say("Up")
        return bed


def _refuse_another(known: Bed, environ: Mapping[str, str], *, nodeless: bool) -> None:
    if nodeless or known.nodeless:
        if nodeless != known.nodeless:
            what = "without" if known.nodeless else "with"
            raise RefusedError(f"a test bed {what} a node is up: take it down first")
        return
    named = environ.get(providers.KUBECONFIG_VARIABLE)
    if named and named != known.source:
        raise RefusedError(
            f"{providers.KUBECONFIG_VARIABLE} names {named}, but a test bed with another cluster "
            f"({known.source or known.provider.value}) is up: take it down first",
        )


def _choose(layout: Layout, environ: Mapping[str, str]) -> Bed:
    own_url = Engine(layout.engine).url
    facts = providers.find_facts(environ, own_engine=own_url)
    provider = providers.choose(facts)
    if provider is Provider.KUBECONFIG and facts.kubeconfig and facts.context:
        # A copy with nothing but this context: whatever the file's current one is going to be, the
        # tests stay in the cluster that was looked at.
        view = ("config", "view", "--minify", "--flatten", "--raw", "--context", facts.context)
        files.ensure(layout.kubeconfig, _kubectl(facts.kubeconfig, *view))
    return Bed(
        provider=provider,
        source=facts.kubeconfig,
        kubeconfig=str(layout.kubeconfig),
        docker_host=facts.engine or own_url,
        own_engine=facts.engine is None,
        made_base=False,
        bin_dir=str(binaries.path(layout)) if provider is Provider.LOCAL else None,
        kind=facts.kind,
    )


def _choose_nodeless(layout: Layout) -> Bed:
    facts = providers.find_facts({}, own_engine="")
    if not (facts.linux and facts.root):
        raise RefusedError("a control plane of our own needs Linux and root")
    return Bed(
        provider=Provider.LOCAL,
        source=None,
        kubeconfig=str(layout.kubeconfig),
        docker_host="",
        own_engine=False,
        made_base=False,
        bin_dir=str(binaries.path(layout)),
        kind=None,
        nodeless=True,
    )


def _make(layout: Layout, bed: Bed) -> Bed:
    if bed.nodeless:
        local.up_without_node(layout)
        return bed
    instance = local.ensure_host(layout) if bed.own_engine or bed.provider is Provider.LOCAL else None
    with ThreadPoolExecutor(max_workers=1) as pool:
        based = pool.submit(_ensure_engine, layout, bed)
        if bed.provider is Provider.LOCAL and instance is not None:
            local.up(layout, instance, engine_url=bed.docker_host, base=based)
        elif bed.provider is Provider.KIND and bed.kind:
            kind.up(layout, bed.kind)
        else:
            probes.wait("the cluster", lambda: _check_external(bed), seconds=_CLUSTER_SECONDS)
        made_base = based.result()
    if bed.provider is Provider.KIND:
        load_image(layout, bed, images.BASE)
    return Bed(**{**vars(bed), "made_base": made_base or bed.made_base})


def load_image(layout: Layout, bed: Bed, image: str) -> None:
    """Copy an image from the engine to where Pods run."""
    if bed.provider is Provider.LOCAL and not bed.nodeless:
        images.load_into_node(bed.docker_host, image, layout)
    elif bed.provider is Provider.KIND and bed.kind:
        kind.load(layout, bed.kind, image)
    else:
        raise RefusedError(f"nobody knows how to load {image} into the cluster of {bed.kubeconfig}")


def unload_image(layout: Layout, bed: Bed, image: str) -> None:
    """Take an image away again from where Pods run; a node of kind's goes whole, with all its images."""
    if bed.provider is Provider.LOCAL and not bed.nodeless:
        images.remove_from_node(image, layout)


def stop_api_server(layout: Layout, bed: Bed, *, crash: bool = False) -> None:
    """Stop the API server of a cluster of our own, or kill it; `start_api_server` brings it back."""
    _instance(layout, bed)
    local.stop_api_server(layout, crash=crash)


def start_api_server(layout: Layout, bed: Bed) -> None:
    """Start the API server of a cluster of our own, and wait until it is ready."""
    local.start_api_server(layout, _instance(layout, bed), binaries.ensure(layout))


def compact_etcd(layout: Layout, bed: Bed) -> int:
    """Let the etcd of a cluster of our own forget the past; the present revision is returned."""
    return local.compact_etcd(_instance(layout, bed))


def _instance(layout: Layout, bed: Bed) -> Instance:
    instance = instances.load(layout)
    if bed.provider is not Provider.LOCAL or instance is None:
        raise RefusedError(f"the cluster of {bed.kubeconfig} is not of our own making")
    return instance


def _ensure_engine(layout: Layout, bed: Bed) -> bool:
    instance = instances.load(layout)
    if bed.own_engine and instance is not None:
        local.ensure_engine(layout, instance)
    return images.ensure_base(bed.docker_host, layout)


def _check_external(bed: Bed) -> str | None:
    try:
        _kubectl(bed.kubeconfig, "--request-timeout=5s", "get", "--raw", "/readyz")
    except subprocess.CalledProcessError as error:
        return str(error.stderr).strip() or "not ready"
    return None


def _kubectl(kubeconfig: str, *arguments: str) -> str:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise RefusedError("kubectl is needed to speak to this cluster, and is not on PATH")
    return subprocess.run(
        [kubectl, "--kubeconfig", kubeconfig, *arguments],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def _checks(layout: Layout, bed: Bed) -> Iterable[Health]:
    instance = instances.load(layout)
    if not bed.nodeless:
        yield from _check_engine(layout, bed)
    if bed.provider is not Provider.LOCAL:
        yield Health(f"cluster ({bed.provider.value})", None, _check_external(bed))
    elif instance is None or bed.bin_dir is None:
        yield Health("cluster", None, "was not started")
    else:
        found = local.checks(layout, instance, Path(bed.bin_dir), with_node=not bed.nodeless)
        yield from starmap(Health, found)


def _check_engine(layout: Layout, bed: Bed) -> Iterable[Health]:
    own = Engine(layout.engine)
    if bed.own_engine:
        yield Health("dockerd", own.pid, own.check())
    else:
        answers = providers.callers_engine({"DOCKER_HOST": bed.docker_host}, own_engine=own.url)
        yield Health("docker engine", None, None if answers == bed.docker_host else "does not answer")
    yield Health("base image", None, images.check_base(bed.docker_host))


def status(layout: Layout) -> list[Health]:
    """Say how every part is; nothing is listed where nothing was made."""
    bed = load(layout)
    return [] if bed is None else list(_checks(layout, bed))


def down(layout: Layout) -> None:
    """Take away what ``up`` made, and nothing else."""
    with locks.exclusive(_lock_file(layout)):
        bed = load(layout)
        if bed is None:
            progress.say("Nothing is up")
            return
        _take_down(layout, bed)
        progress.say("Down")


def _take_down(layout: Layout, bed: Bed) -> None:
    _end_kwok(layout, bed)
    if not bed.own_engine and bed.made_base:
        images.remove_base(bed.docker_host)
    if bed.provider is Provider.KIND and bed.kind:
        kind.down(layout, bed.kind)
    instance = instances.load(layout)
    if instance is not None:
        elsewhere = providers.callers_engine({}, own_engine=Engine(layout.engine).url) is not None
        with progress.step("Taking everything down", aloud=False):
            local.down(layout, instance, engine_answers_elsewhere=elsewhere)
    shutil.rmtree(layout.state, ignore_errors=True)


def _end_kwok(layout: Layout, bed: Bed) -> None:
    """End what plays fake nodes for tests that were killed, or that are still at it."""
    for run in kwok.runs(layout):
        kwok.stop(layout, run)
        if bed.provider is not Provider.LOCAL:
            # The cluster stays. Its own garbage collector takes the Pods.
            with suppress(subprocess.CalledProcessError):
                selector = f"{kwok.PLAYED_LABEL}={run.group}"
                _kubectl(bed.kubeconfig, "delete", "nodes", "--wait=false", "-l", selector)
