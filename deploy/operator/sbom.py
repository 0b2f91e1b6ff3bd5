"""Write a bill of materials of a root file system, as CycloneDX: its Debian packages and its Python packages."""

import json
import sys
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import distributions
from pathlib import Path

PYTHON_PACKAGES = "usr/local/lib/python3.11/dist-packages"


def debian(image: Path) -> Iterator[dict[str, object]]:
    """Tell of the packages that Debian's records in the image name."""
    for path in sorted((image / "var/lib/dpkg/status.d").iterdir()):
        read = HeaderParser().parsestr(path.read_text(encoding="utf-8"))
        name, version = read["Package"], read["Version"]
        url = f"pkg:deb/debian/{name}@{version}?arch={read['Architecture']}&distro=debian-12"
        yield component(name, version, url)


def python(image: Path) -> Iterator[dict[str, object]]:
    """Tell of the packages that Python finds in the image."""
    found = distributions(path=[str(image / PYTHON_PACKAGES)])
    for each in sorted(found, key=lambda one: one.metadata["Name"].lower()):
        name = each.metadata["Name"].lower().replace("_", "-")
        yield component(name, each.version, f"pkg:pypi/{name}@{each.version}")


def component(name: str, version: str, url: str) -> dict[str, object]:
    """Tell of one package."""
    return {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}


def own_version(image: Path) -> str:
    """Read which version of the operator it is."""
    told: dict[str, str] = {}
    exec((image / PYTHON_PACKAGES / "sandkeeper/__init__.py").read_text(encoding="utf-8"), told)  # noqa: S102 - ours
    return told["__version__"]


def bill(image: Path) -> dict[str, object]:
    """Tell of everything."""
    version = own_version(image)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/sandkeeper@{version}",
                "name": "sandkeeper",
                "version": version,
                "purl": f"pkg:pypi/sandkeeper@{version}",
            }
        },
        "components": [*debian(image), *python(image)],
    }


if __name__ == "__main__":
    json.dump(bill(Path(sys.argv[1])), sys.stdout, indent=1)
