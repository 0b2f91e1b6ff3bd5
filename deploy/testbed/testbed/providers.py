"""Which cluster it is going to be: a pure function of a few facts, and how the facts are found.

First that fits: the cluster that the caller names; kind, where an engine has or can get its node image;
the local one.
"""

from __future__ import annotations

import enum
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import yaml
from docker.errors import DockerException, ImageNotFound

from testbed import images
from testbed.engine import DEFAULT_SOCKET

if TYPE_CHECKING:
    from collections.abc import Mapping

KUBECONFIG_VARIABLE = "SANDKEEPER_TEST_KUBECONFIG"

NODE_IMAGE = "kindest/node:v1.34.0"

_TEST_CONTEXT = re.compile(r"kind-|k3d-|minikube|sandkeeper-|.*test", re.IGNORECASE)

_ENGINE_SECONDS = 10


class Provider(enum.Enum):
    """Where the cluster comes from."""

    KUBECONFIG = "kubeconfig"
    KIND = "kind"
    LOCAL = "local"


class RefusedError(RuntimeError):
    """No provider fits, or the one that was asked for is not to be used."""


@dataclass(frozen=True)
class Facts:
    """What the choice depends on."""

    kubeconfig: str | None
    """The file that the caller names."""
    context: str | None
    """The current context in that file; None if it has none or cannot be read."""
    engine: str | None
    """A Docker engine that is not ours and answers."""
    kind: str | None
    """The program of kind."""
    node_image: bool
    """Whether that engine has kind's node image or can get it."""
    root: bool
    linux: bool


def choose(facts: Facts) -> Provider:
    """Choose the first provider that fits."""
    if facts.kubeconfig:
        if facts.context is None:
            raise RefusedError(
                f"{KUBECONFIG_VARIABLE} names {facts.kubeconfig}, "
                "which has no current context or cannot be read",
            )
        if _TEST_CONTEXT.match(facts.context) is None:
            raise RefusedError(
                f"The context {facts.context!r} of {facts.kubeconfig} does not look like a test cluster. "
                "The tests create and delete whatever they like, so the name must begin with kind-, k3d-, "
                "minikube or sandkeeper-, or contain 'test'. Rename the context if it really is one.",
            )
        return Provider.KUBECONFIG
    if facts.kind and facts.engine and facts.node_image:
        return Provider.KIND
    if facts.linux and facts.root:
        return Provider.LOCAL
    raise RefusedError(
        "No cluster is to be had: the local one needs Linux and root, kind needs its program and a Docker "
        f"engine that can get {NODE_IMAGE}. Or name a test cluster's kubeconfig in {KUBECONFIG_VARIABLE}.",
    )


def find_facts(environ: Mapping[str, str], *, own_engine: str) -> Facts:
    """Look around; nothing is changed by it."""
    kubeconfig = environ.get(KUBECONFIG_VARIABLE) or None
    engine = callers_engine(environ, own_engine=own_engine)
    kind = shutil.which("kind", path=environ.get("PATH"))
    return Facts(
        kubeconfig=kubeconfig,
        context=None if kubeconfig is None else current_context(Path(kubeconfig)),
        engine=engine,
        kind=kind,
        # Asking a registry takes its time: only where the answer matters.
        node_image=bool(not kubeconfig and engine and kind and _has_node_image(engine)),
        root=os.geteuid() == 0,
        linux=sys.platform == "linux",
    )


def current_context(kubeconfig: Path) -> str | None:
    """Read the current context's name from a kubeconfig."""
    try:
        read = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return None
    name = read.get("current-context") if isinstance(read, dict) else None
    return name if isinstance(name, str) and name else None


def callers_engine(environ: Mapping[str, str], *, own_engine: str) -> str | None:
    """Find a Docker engine that answers and is not ours."""
    # A shell that took over our environment names our own engine.
    named = environ.get("DOCKER_HOST")
    for url in (named, DEFAULT_SOCKET):
        if url and url != own_engine and _answers(url):
            return url
    return None


def _answers(url: str) -> bool:
    try:
        client = docker.DockerClient(base_url=url, timeout=_ENGINE_SECONDS)
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except (DockerException, OSError):
        return False
    finally:
        client.close()


def _has_node_image(engine: str) -> bool:
    client = docker.DockerClient(base_url=engine, timeout=_ENGINE_SECONDS)
    try:
        client.images.get(NODE_IMAGE)
    except ImageNotFound:
        return images.registry_has(engine, NODE_IMAGE)
    except (DockerException, OSError):
        return False
    else:
        return True
    finally:
        client.close()
