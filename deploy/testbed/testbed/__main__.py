"""The command: ``python -m testbed up|status|env|down|build|images|prometheus``."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from testbed import bed, binaries, helm, kwok, operator_image, packages, progress, shipped_images
from testbed.paths import Layout, StatePathTooLongError

if TYPE_CHECKING:
    from testbed.bed import Bed


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="testbed",
        description="A real cluster and a real Docker engine for tests.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    made = {}
    for name, text in (
        ("up", "bring everything up that is not, and print the environment"),
        ("status", "say how every part is; the exit code is 0 if all are well"),
        ("env", 'print the environment for a shell: eval "$(... env)"'),
        ("down", "take away what up made, and nothing else"),
        ("build", "only build the programs: the local cluster's, kwok for fake nodes, and Helm"),
        (
            "images",
            "build the images of sandboxes and of the operator into the cache; the tests load them from there",
        ),
        ("prometheus", "install Debian's Prometheus, which tests start themselves"),
    ):
        made[name] = commands.add_parser(name, help=text, description=text)
    made["up"].add_argument(
        "--nodeless",
        action="store_true",
        help="only a control plane of our own: no node, no Docker engine",
    )
    arguments = parser.parse_args()
    try:
        return _run(arguments, Layout.from_environment(os.environ))
    except subprocess.CalledProcessError as error:
        progress.say(f"{error}\n{error.stderr or ''}")
    except (RuntimeError, StatePathTooLongError) as error:
        progress.say(str(error))
    return 1


def _run(arguments: argparse.Namespace, layout: Layout) -> int:
    command = arguments.command
    if command == "up":
        _print_environment(bed.up(layout, os.environ, nodeless=arguments.nodeless))
    elif command == "status":
        return _status(layout)
    elif command == "env":
        known = bed.load(layout)
        if known is None:
            progress.say("Nothing is up")
            return 1
        _print_environment(known)
    elif command == "down":
        bed.down(layout)
    elif command == "images":
        _build_images(layout)
    elif command == "prometheus":
        packages.ensure(packages.PROMETHEUS)
    else:
        print(binaries.ensure(layout))
        print(kwok.ensure(layout))
        print(helm.ensure(layout))
    return 0


def _build_images(layout: Layout) -> None:
    if not shipped_images.can_build():
        progress.say("The images are not built: an engine of our own needs Linux and root")
        return
    shipped_images.ensure(layout, os.environ)
    for name in shipped_images.TARGETS:
        print(shipped_images.archive(layout, name))
    print(operator_image.ensure(layout, os.environ))


def _print_environment(known: Bed) -> None:
    for name, value in known.environment().items():
        print(f"export {name}={shlex.quote(value)}" + (":$PATH" if name == "PATH" else ""))


def _status(layout: Layout) -> int:
    found = bed.status(layout)
    if not found:
        progress.say("Nothing is up")
        return 1
    for part in found:
        print(f"{part.name:<24} {part.pid or '-':>8}  {part.trouble or 'well'}")
    return 1 if any(part.trouble for part in found) else 0


if __name__ == "__main__":
    sys.exit(main())
