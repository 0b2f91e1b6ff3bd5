"""What the documents say is true: commands run, links lead somewhere, targets are there."""

import re
import subprocess
from pathlib import Path

import pytest

from support.operator import OperatorProcess, Sandboxes

ROOT = Path(__file__).parents[2]
AT_THE_TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
DOCUMENTS = [*AT_THE_TOP, *sorted((ROOT / "docs").rglob("*.md"))]

README = (ROOT / "README.md").read_text()
APPLY, WAIT = re.search(
    r"    (kubectl apply -f - <<EOF.*?\n    EOF)\n    (kubectl wait .*?)\n", README, re.DOTALL
).groups()  # type: ignore[union-attr]
ONE_LINERS = re.findall(
    r"`((?:kubectl|sandkeeper|docker) [^`]*rain[^`]*|sandkeeper get|kubectl get sbx -o wide)`", README
)


@pytest.mark.parametrize("document", AT_THE_TOP, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    # `make docs` follows those of all other documents.
    prose = re.sub(r"`[^`]*`", "", document.read_text())
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


def test_every_target_that_is_named_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets |= set(
        " ".join(re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)).split()
    )
    for document in DOCUMENTS:
        for named in re.findall(r"`make ([a-z-]+)", document.read_text()):
            assert named in targets, f"{document.name}: make {named}"


@pytest.mark.cluster
@pytest.mark.engine
def test_the_readmes_commands_work(
    operator: OperatorProcess, sandboxes: Sandboxes, shell_env: dict[str, str]
) -> None:
    sandboxes.apply(sandboxes.policy())
    run_the_commands(shell_env, but_not="kubectl exec")


@pytest.mark.cluster
def test_the_readmes_commands_work_on_pods(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, shell_env: dict[str, str]
) -> None:
    pod_sandboxes.apply(pod_sandboxes.policy())
    run_the_commands(shell_env, but_not="docker exec")


def run_the_commands(shell_env: dict[str, str], *, but_not: str) -> None:
    assert len(ONE_LINERS) >= 11
    stop = next(line for line in ONE_LINERS if "Stopped" in line)
    for command in [
        re.sub(r"^    ", "", APPLY, flags=re.MULTILINE),
        f"{WAIT} --timeout=80s",
        *(c for c in ONE_LINERS if c != stop and not c.startswith(but_not)),
        stop,
    ]:
        done = subprocess.run(
            ["bash", "-euc", command], env=shell_env, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
