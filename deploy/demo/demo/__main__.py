"""The command: ``python -m demo up|down``."""

import argparse
import os
import subprocess
import sys

from demo import scene, story
from demo.narration import NotSoError, say
from demo.places import Places
from sandkeeper.api.policy import Backend


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="demo", description="The life of sandboxes, on a real cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser(
        "up", help="set the scene, walk through the life of sandboxes, leave everything up"
    )
    up.add_argument("--backend", type=Backend, choices=list(Backend), default=Backend.DOCKER)
    commands.add_parser("down", help="remove all that the demo made")
    arguments = parser.parse_args()
    places = Places.from_environment(os.environ)
    try:
        if arguments.command == "up":
            story.tell(scene.set_up(places, arguments.backend))
        else:
            scene.take_down(places)
    except NotSoError as error:
        say(f"\nNot so: {error}")
    except subprocess.CalledProcessError as error:
        say(f"\n{error}\n{error.stderr or ''}")
    except (RuntimeError, OSError) as error:
        say(f"\n{error}")
    except KeyboardInterrupt:
        say("\nBroken off. `up` begins again, `down` removes what there is.")
        return 130
    else:
        return 0
    say(f"The operator's log: {places.log}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
