"""The setupCommand in a Pod: one command, with a limit of time, and the end of its output if it fails.

There is no call that ends a command in a Pod. One that takes too long is left running: its runtime counts as failed, is
removed, and takes the command along.
"""

import asyncio
from typing import Final

from sandkeeper.cluster.api import ApiError
from sandkeeper.cluster.commands import CommandFailed, run_command
from sandkeeper.cluster.connection import Connection
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.output import Tail, setup_failed
from sandkeeper.runtimes.pod.desired import CONTAINER
from sandkeeper.runtimes.pod.view import PodView

__all__ = ["run_setup"]

_SHELL: Final = ("/bin/sh", "-lc")


async def run_setup(connection: Connection, pod: PodView, config: RuntimeConfig) -> None:
    """Run it; Permanent with SETUP_FAILED where it fails, takes too long or cannot be seen to complete."""
    tail = Tail(config.env)
    try:
        async with asyncio.timeout(config.setup_timeout_seconds):
            await run_command(
                connection,
                namespace=pod.namespace,
                pod=pod.name,
                container=CONTAINER,
                command=(*_SHELL, config.setup_command or ":"),
                on_output=tail.add,
            )
    except TimeoutError:
        raise setup_failed(f"took longer than {config.setup_timeout_seconds} seconds", tail, config) from None
    except CommandFailed as error:
        how = "could not be run" if error.code is None else f"ended with exit code {error.code}"
        raise setup_failed(
            how if error.code is not None else f"{how}: {error.message}", tail, config
        ) from error
    except ApiError as error:
        # It may have begun, and is never run twice.
        raise setup_failed(f"cannot be proven to have completed: {error.message}", tail, config) from error
