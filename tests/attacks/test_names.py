"""Names and values that break out of their quotes.

What people write reaches programs: an engine's API, the API server, a shell where it is meant to be one, logs, tables
and terminals. Nothing of it may become another field, another option, another line.
"""

import json
import subprocess
import sys
from typing import Final

import pytest

from attacks.register import attack
from attacks.stage import Stage
from support.waiting import wait_for

pytestmark = pytest.mark.cluster

VALUES: Final = {
    "OPTIONS": "--privileged -v /:/host --pid=host",
    "SUBSTITUTED": "$(id) `id` ${HOME} $HOME $$ $(HOME)",
    "EXPANDED": "$(OPTIONS) $$(OPTIONS) $$$(OPTIONS)",
    "QUOTED": "'\"\\ '; id; echo \" ; id",
    "LINES": "one\ntwo\r\n--privileged\nEVIL=1\n",
    "FIELDS": "a=b,c=d:e;f|g&h<i>j{k}[l]#m%n",
    "UNSEEN": "\u202e\ufeff\x1b[31m\x07",
    "EMPTY": "",
}
DIRECTORY: Final = "a b,ro=false;$(id)'\"`id`\\ --privileged{}*?#%s"
"""A directory's name can be nearly anything."""
LARGE: Final = "x" * 240_000
"""All annotations of an object may have 256 KiB."""
FORGED: Final = "\nlevel=info forged by an annotation\n\x1b[2Jforged\r"


@attack(
    "variables whose values look like options, substitutions, further variables, other lines, or nothing to see",
    stopped_by="no shell and no file is in between, and `$` is doubled for the kubelet: each arrives as it was written",
)
def test_values_of_variables(stage: Stage) -> None:
    policy, name = stage.name("quotes"), stage.name("quoted")
    setup = 'printf "%s" "$LINES$QUOTED" > "/tmp/it\'s \\"here\\""'
    stage.sandboxes.apply(
        stage.sandboxes.policy(policy, scope="session", container={"env": {"OF_THE_POLICY": "$(LINES)"}}),
        stage.claim(
            name,
            policy,
            scope="session",
            sessionKey="'; $(id) `id` \" --privileged -v /:/host \u202e ../../tio-claude",
            container={"env": VALUES, "setupCommand": setup, "tmpfs": ["/tmp"]},  # noqa: S108 - in the sandbox
        ),
    )
    stage.sandboxes.wait(name, "Running")
    show = "print({name: os.environ.get(name) for name in ast.literal_eval(sys.argv[1])})"
    wanted = {**VALUES, "OF_THE_POLICY": "$(LINES)"}
    seen = stage.world.python(name, f"import ast, os, sys\n{show}", repr(list(wanted)))
    assert seen.output.strip() == repr(wanted)
    assert stage.read(name, '/tmp/it\'s "here"') == {'/tmp/it\'s "here"': VALUES["LINES"] + VALUES["QUOTED"]}  # noqa: S108
    # What is said on the one stream may come before what is said on the other, whichever was first.
    seen = stage.sh(name, "grep CapBnd /proc/self/status; ls -d /host")
    assert "CapBnd:\t0000000000000000\n" in seen.output
    assert seen.code != 0


@attack(
    "directories called like options, lists and substitutions, as a bind's source, its target and `workdir`",
    stopped_by="paths are fields of their own in what is sent; only colons part a bind, and no path may have one",
)
def test_names_of_directories(stage: Stage) -> None:
    directory = stage.world.directory(f"shared/{DIRECTORY}")
    stage.world.file(directory / DIRECTORY, "found")
    (stage.root / "named").mkdir(exist_ok=True)
    source = stage.world.directory(f"named/{DIRECTORY}")
    stage.world.file(source / "note", "found")
    target = f"/mnt/{DIRECTORY}"
    name = stage.make(
        stage.name("named"),
        {"container": {"binds": [f"{source}:{target}:ro"], "workdir": f"/work/{DIRECTORY}"}},
    )
    assert stage.sh(name, "pwd").output == f"/work/{DIRECTORY}\n"
    assert stage.read(name, f"{target}/note") == {f"{target}/note": "found"}
    assert stage.attempt(name, f"write({target + '/note'!r})") == {f"write({target + '/note'!r})": "EROFS"}
    rain = f"/workspace/shared/{DIRECTORY}/{DIRECTORY}"
    assert stage.read("rain", rain) == {rain: "found"}


@attack(
    "annotations as large as the API server takes them, in each of ours and in a strange one, and after each other",
    stopped_by="a value that is recorded is short, or a digest of it; the operator goes on, and so do other sandboxes",
)
def test_huge_annotations(stage: Stage) -> None:
    name = stage.make(stage.name("huge"), {"hotWindowSeconds": 1})
    runtime = stage.sandboxes.status(name)["runtime"]["id"]
    for annotation in ("last-used", "hold-until", "paused", "example", "wipe", "recreate"):
        values = {
            f"sandkeeper.dev/{each}": None
            for each in ("last-used", "hold-until", "paused", "example", "wipe")
        }
        patch = {"metadata": {"annotations": {**values, f"sandkeeper.dev/{annotation}": LARGE}}}
        stage.sandboxes.kubectl(
            "patch", "sandbox", name, "--type=merge", "--patch-file=/dev/stdin", stdin=json.dumps(patch)
        )
        if annotation in {"last-used", "hold-until"}:
            stage.sandboxes.wait(name, "AnnotationInvalid", kind="AnnotationInvalid")
    stage.world.replaced(name, runtime)
    assert len(json.dumps(stage.sandboxes.status(name))) < 8192
    other = stage.make(stage.name("after"), {})
    assert stage.sh(other, "echo here").output == "here\n"
    assert LARGE not in stage.log.read_text(encoding="utf-8")


@attack(
    "line breaks and terminals' control sequences in annotations and session keys: forged lines in logs and tables",
    stopped_by="what people wrote is quoted, with escapes, wherever it is logged or shown",
)
def test_forged_lines(stage: Stage) -> None:
    name = stage.name("forger")
    stage.sandboxes.apply(stage.sandboxes.policy(name, hotWindowSeconds=1))
    claim = stage.claim(name, name, sessionKey="key\u009b2J\u009b31m\u202eforged")
    claim["metadata"]["annotations"] = {
        f"sandkeeper.dev/{each}": FORGED for each in ("last-used", "recreate", "wipe")
    }
    stage.sandboxes.apply(claim)
    stage.sandboxes.wait(name, "Running")
    stage.sandboxes.wait(name, "AnnotationInvalid", kind="AnnotationInvalid")
    told = [condition["message"] for condition in stage.sandboxes.status(name)["conditions"]]
    assert "forged by an annotation" in str(told)
    assert all(message.isprintable() for message in told)
    stage.sandboxes.annotate(name, recreate=f"again{FORGED}")
    wait_for(
        lambda: "again" in stage.sandboxes.status(name).get("recreate", ""), what="the annotation was read"
    )
    stage.sandboxes.wait(name, "Running")
    assert not [
        line
        for line in stage.log.read_text(encoding="utf-8").splitlines()
        if line.startswith(("level=", "forged", "\x1b"))
    ]
    where = ["--kubeconfig", str(stage.kubeconfig), "--namespace", stage.sandboxes.namespace]
    table = subprocess.run(
        [sys.executable, "-m", "sandkeeper", "get", *where], capture_output=True, text=True, check=True
    ).stdout
    assert name in table
    assert not [character for character in table if not character.isprintable() and character != "\n"]


@attack(
    "session keys that are to give another's directory in the sandbox root, or one outside of it: `..`, slashes, "
    "the same beginning, the same characters that a name can show, another key's very name",
    stopped_by="the name ends in a hash of namespace, policy, agent and key; what the key says only decorates it",
)
def test_session_keys_for_anothers_directory(stage: Stage) -> None:
    policy = stage.name("keys")
    copies = {"access": "none", "agent": stage.agent, "volume": stage.copies}
    stage.sandboxes.apply(
        stage.sandboxes.policy(policy, scope="session", workspace=copies, hotWindowSeconds=1)
    )
    stage.home("keyed")
    victim = stage.name("victim")
    stage.sandboxes.apply(stage.claim(victim, policy, agentId="keyed", sessionKey="main"))
    runtime = stage.sandboxes.wait(victim, "Running")["runtime"]["name"]
    assert stage.sh(victim, "echo mine > /workspace/secret").code == 0
    keys = ["MAIN", "..", "../main", f"../{runtime}", runtime]
    names = [stage.name("keyed") for _ in keys]
    stage.sandboxes.apply(
        *(
            stage.claim(name, policy, agentId="keyed", sessionKey=key)
            for name, key in zip(names, keys, strict=True)
        )
    )
    for name in names:
        stage.sandboxes.wait(name, "Running", timeout=120)
        assert stage.read(name, "/workspace/secret") == {"/workspace/secret": None}
        assert stage.sh(name, "echo theirs > /workspace/secret").code == 0
    assert stage.read(victim, "/workspace/secret") == {"/workspace/secret": "mine\n"}
    found = sorted(
        path.relative_to(stage.root / "copies") for path in (stage.root / "copies").rglob("secret")
    )
    assert len(found) == len(keys) + 1
    assert not list(stage.root.glob("secret"))
