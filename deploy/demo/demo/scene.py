"""What the story needs, set up on a bare machine or where it is already; and all of it taken away."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from demo import household, image, narration, operator_process
from demo.belongings import Belongings
from demo.in_pods import InPods
from demo.on_docker import OnDocker
from demo.operator_process import SYSTEM_NAMESPACE
from demo.places import SOURCE, Places
from demo.stage import NAMESPACE, Stage
from demo.world import World
from sandkeeper.api.crd import POLICY, SANDBOX
from sandkeeper.api.policy import Backend
from testbed import bed, probes, progress

_BED: Final = "test bed"
_CRDS: Final = "CRDs"
_KINDS: Final = (SANDBOX, POLICY)
_DEFINITIONS: Final = tuple(f"crd/{resource.definition_name}" for resource in _KINDS)


_WORLDS: Final[Mapping[Backend, Callable[[Stage], World]]] = {Backend.DOCKER: OnDocker, Backend.POD: InPods}


def set_up(places: Places, backend: Backend) -> World:
    """Bring up cluster, engine, image and operator, and start with an empty household."""
    with narration.chapter("Setting the scene"):
        made = Belongings(places.made)
        if bed.load(places.layout) is None:
            made.add(_BED)
        known = bed.up(places.layout, os.environ)
        stage = _stage(places, known, backend)
        world = _WORLDS[backend](stage)
        image.ensure(known.docker_host, places.layout)
        household.ensure(places.household)
        world.equip(known)
        _install(stage, made)
        operator_process.start(stage)
        if _exists(stage, f"namespace/{NAMESPACE}"):
            # What an earlier run left ends in order before the story begins again.
            stage.kubectl("delete", "sbx,asp", "--all", aloud=False)
    return world


def _stage(places: Places, known: bed.Bed, backend: Backend) -> Stage:
    return Stage(places=places, variables=known.environment(), user=household.owner(), backend=backend)


def _install(stage: Stage, made: Belongings) -> None:
    if not _exists(stage, *_DEFINITIONS):
        made.add(_CRDS)
    stage.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(SOURCE / "crds"), aloud=False)
    probes.wait("the API server, for both kinds,", lambda: _why_not_served(stage), seconds=60)
    if not _exists(stage, f"namespace/{SYSTEM_NAMESPACE}"):
        made.add(SYSTEM_NAMESPACE)
        stage.kubectl("create", "namespace", SYSTEM_NAMESPACE, aloud=False)


def _why_not_served(stage: Stage) -> str | None:
    """Ask for the objects themselves: of a definition without conditions as yet, `kubectl wait` says that it failed."""
    try:
        stage.kubectl("get", ",".join(resource.definition_name for resource in _KINDS), aloud=False)
    except subprocess.CalledProcessError as error:
        return str(error.stderr)
    return None


def _exists(stage: Stage, *objects: str) -> bool:
    try:
        stage.kubectl("get", *objects, "-o", "name", aloud=False)
    except subprocess.CalledProcessError as error:
        if "NotFound" not in error.stderr:
            raise
        return False
    return True


def take_down(places: Places) -> None:
    """Remove what the demo made. The sandboxes go by the operator's hand, so it goes after them."""
    made = Belongings(places.made)
    known = bed.load(places.layout)
    if known is None:
        operator_process.stop(places)
    else:
        stage = _stage(places, known, Backend.DOCKER)  # it serves either
        try:
            _empty(stage)
        except subprocess.CalledProcessError as error:
            if _BED not in made:
                raise
            # After a restart of the machine, for example. What would be left goes with the test bed.
            progress.say(f"The cluster does not answer: {error.stderr.strip()}")
        operator_process.stop(places)
        if _BED not in made:
            image.unload(places, known)
        if not (_BED in made and known.own_engine):
            image.remove(known.docker_host)
        if _BED in made:
            bed.down(places.layout)
        else:
            _uninstall(stage, made)
            progress.say("The test bed was up before the demo, and stays")
    household.remove(places.household)
    shutil.rmtree(places.state, ignore_errors=True)


def _empty(stage: Stage) -> None:
    if not _exists(stage, f"namespace/{NAMESPACE}"):
        return
    if not operator_process.runs(stage.places):
        # A Sandbox of a container waits for the operator to say that it is gone.
        operator_process.start(stage)
    with progress.step("Deleting the household", aloud=False):
        stage.kubectl("delete", "namespace", NAMESPACE, aloud=False)


def _uninstall(stage: Stage, made: Belongings) -> None:
    if SYSTEM_NAMESPACE in made:
        stage.kubectl("delete", "namespace", SYSTEM_NAMESPACE, "--ignore-not-found", aloud=False)
    if _CRDS in made:
        stage.kubectl("delete", "--ignore-not-found", *_DEFINITIONS, aloud=False)
