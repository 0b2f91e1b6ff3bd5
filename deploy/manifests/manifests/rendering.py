"""Manifests for those who do without Helm: what the chart makes of values, without what is Helm's own.

Run as a program (``python -m manifests.rendering``), it takes ``--write`` or ``--check`` and the folder ``deploy``.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from sandkeeper.api import crd, generated
from testbed import helm
from testbed.paths import Layout

__all__ = ["NAMESPACE", "OVERLAYS", "files", "objects"]

Object = dict[str, Any]

NAMESPACE: Final = "sandkeeper-system"
_RELEASE: Final = "sandkeeper"
_CHART: Final = Path(__file__).resolve().parents[3] / "charts/sandkeeper"

_BASE: Final[Object] = {"crds": {"enabled": False}}
OVERLAYS: Final[Mapping[str, Object]] = {
    "docker-socket": {
        "config": {"backends": ["pod", "docker"]},
        "docker": {"socket": {"enabled": True, "group": 999}},
    },
    "monitoring": {
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "single": {"replicaCount": 1},
}
"""Values of the chart by the name of the overlay that has the same effect."""

_HEADER: Final = "# Generated from charts/sandkeeper: change that, then run `make manifests`.\n"
_HELMS_LABELS: Final = ("helm.sh/chart", "app.kubernetes.io/managed-by")


def objects(values: Object) -> list[Object]:
    """Return what the chart makes of values, and the namespace for it."""
    done = subprocess.run(
        [
            *(helm.ensure(Layout.from_environment(os.environ)), "template", _RELEASE, str(_CHART)),
            *("--namespace", NAMESPACE, "--values", "-"),
        ],
        input=yaml.safe_dump({**_BASE, **values}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the chart cannot be rendered:\n{done.stderr}")
    rendered = [one for one in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if one]
    plain = [_without_helm(one) for one in rendered if not _is_hook(one)]
    return [_namespace(plain), *plain]


def _is_hook(one: Object) -> bool:
    return "helm.sh/hook" in one["metadata"].get("annotations", {})


def _without_helm(one: Object) -> Object:
    found = [one["metadata"]]
    if one["kind"] == "Deployment":
        found.append(one["spec"]["template"]["metadata"])
    for metadata in found:
        for label in _HELMS_LABELS:
            metadata.get("labels", {}).pop(label, None)
    return one


def _namespace(rendered: Iterable[Object]) -> Object:
    """Return the namespace, in which nothing may run that is less restricted than the operator."""
    pods = [one["spec"]["template"]["spec"] for one in rendered if one["kind"] == "Deployment"]
    on_host = any("hostPath" in volume for pod in pods for volume in pod["volumes"])
    level = "privileged" if on_host else "restricted"
    labels = {"pod-security.kubernetes.io/enforce": level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _identity(one: Object) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def _operations(old: Any, new: Any, path: str = "") -> Iterator[Object]:  # noqa: ANN401 - JSON
    """Yield what turns one value into another, as JSON patches have it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            place = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in new:
                yield {"op": "remove", "path": place}
            elif name not in old:
                yield {"op": "add", "path": place, "value": new[name]}
            else:
                yield from _operations(old[name], new[name], place)
    elif isinstance(old, list) and isinstance(new, list) and len(old) <= len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from _operations(before, after, f"{path}/{index}")
        for added in new[len(old) :]:
            yield {"op": "add", "path": f"{path}/-", "value": added}
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}


def _overlay(base: Iterable[Object], wanted: Iterable[Object]) -> tuple[list[Object], list[Object]]:
    """Return what an overlay is made of: resources that come in addition, and patches for what differs."""
    known = {_identity(one): one for one in base}
    more = [one for one in wanted if _identity(one) not in known]
    patches = [
        {"target": {"kind": one["kind"], "name": one["metadata"]["name"]}, "patch": _text(operations)}
        for one in wanted
        if (operations := [list(_operations(known.get(_identity(one), one), one))]) != [[]]
    ]
    for kind, _namespace, name in sorted(set(known) - set(map(_identity, wanted))):
        gone = {"apiVersion": "*", "kind": kind, "metadata": {"name": name}, "$patch": "delete"}
        patches.append({"target": {"kind": kind, "name": name}, "patch": _text([gone])})
    return more, patches


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as such."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def _text(documents: Iterable[object]) -> str:
    return "---\n".join(
        yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True) for one in documents
    )


def _kustomization(**fields: Any) -> str:
    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return _HEADER + _text([{**kind, **{name: value for name, value in fields.items() if value}}])


def files() -> Mapping[str, str]:
    """Return what is generated below ``deploy``: file names, and the text of each."""
    base = objects({})
    crds = crd.files()
    made = {
        "install.yaml": _HEADER + _text([base[0], *map(yaml.safe_load, crds.values()), *base[1:]]),
        "kustomize/base/operator.yaml": _HEADER + _text(base),
        **{f"kustomize/base/crds/{name}": text for name, text in crds.items()},
        "kustomize/base/kustomization.yaml": _kustomization(
            resources=[*(f"crds/{name}" for name in crds), "operator.yaml"]
        ),
    }
    for overlay, values in OVERLAYS.items():
        folder = f"kustomize/overlays/{overlay}"
        more, patches = _overlay(base, objects(values))
        if more:
            made[f"{folder}/more.yaml"] = _HEADER + _text(more)
        made[f"{folder}/kustomization.yaml"] = _kustomization(
            resources=["../../base", *(["more.yaml"] if more else [])], patches=patches
        )
    return made


if __name__ == "__main__":
    sys.exit(generated.main(files(), program="manifests.rendering", arguments=sys.argv[1:]))
