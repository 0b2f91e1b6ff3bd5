"""``sandkeeper run``: the operator."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandkeeper.cli.configuration import load
from sandkeeper.cli.failures import Failure
from sandkeeper.telemetry.logs import LogFormat, set_up_logging
from sandkeeper.telemetry.tracing import is_installed

if TYPE_CHECKING:
    from sandkeeper.config.operator import OperatorConfig

__all__ = ["command"]

logger = logging.getLogger(__name__)


@click.command("run")
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The operator's configuration; by default everything that a host could be harmed by is forbidden.",
)
@click.option(
    "--leader-election/--no-leader-election",
    default=True,
    help="Work only while holding the Lease. Without it, see to it that no other operator runs.",
)
@click.option("--health-host", default="0.0.0.0", show_default=True)  # noqa: S104 - the kubelet asks from outside
@click.option("--health-port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@click.option(
    "--grace-seconds",
    type=click.FloatRange(min=1),
    default=20,
    show_default=True,
    help="After SIGTERM, finish what is in hand for so long at most.",
)
@click.option(
    "--log-format",
    type=click.Choice([form.value for form in LogFormat]),
    default=LogFormat.TEXT.value,
    show_default=True,
    help="Lines for a person, or a JSON object each.",
)
@click.option("--verbose", is_flag=True, help="Log what is decided, too.")
def command(
    path: Path | None,
    health_host: str,
    health_port: int,
    grace_seconds: float,
    log_format: str,
    *,
    leader_election: bool,
    verbose: bool,
) -> None:
    """Run the operator until SIGTERM."""
    config = load(path)
    if config.tracing.enabled and not is_installed():
        raise Failure(
            "tracing.enabled needs what is not installed: install sandkeeper[tracing], or set it to false."
        )
    set_up_logging(verbose=verbose, form=LogFormat(log_format))
    try:
        with asyncio.Runner(loop_factory=_event_loop) as runner:
            runner.run(
                _run(
                    config,
                    leader_election=leader_election,
                    health=(health_host, health_port),
                    grace=grace_seconds,
                )
            )
    except Exception as error:
        # What a user can mend is said in a line; of anything else the trace is wanted.
        logger.critical("Ending: %s", error, exc_info=None if _is_expected(error) else error)
        sys.exit(1)


def _is_expected(error: Exception) -> bool:
    from kopf import LoginError  # noqa: PLC0415 - slow to import; who gets here has it already

    return isinstance(error, (OSError, LoginError))


def _event_loop() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415 - no other command needs it

    return uvloop.new_event_loop()


async def _run(
    config: "OperatorConfig", *, leader_election: bool, health: tuple[str, int], grace: float
) -> None:
    from sandkeeper.cli.punctual import PunctualOperator  # noqa: PLC0415 - imports kopf and docker

    operator = PunctualOperator(config, leader_election=leader_election, health=health, grace=grace)
    try:
        await operator.run(grace=grace)
    finally:
        # However it ended: what hangs must not keep the process from ending, too.
        operator.stop()
