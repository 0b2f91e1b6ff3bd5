"""``sandkeeper hold``: work goes on, so neither replace nor prune."""

from datetime import UTC, datetime, timedelta

import click

from sandkeeper.api.names import Annotation
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.options import speaks_to_cluster
from sandkeeper.cli.sandboxes import ready_of, timestamp

__all__ = ["command"]


class _Instant(click.ParamType[datetime]):
    """A time with an offset: without one it would be another moment for the operator than for the caller."""

    name = "time"

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None:
            self.fail(f"{value!r} is not a time with an offset, for example 2026-01-02T03:04:05Z", param, ctx)
        return at


@click.command("hold")
@click.argument("name")
@click.option(
    "--for", "seconds", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="From now on."
)
@click.option("--until", "until", type=_Instant(), metavar="TIME", help="RFC 3339, with an offset.")
@click.option("--release", is_flag=True, help="End the hold.")
@speaks_to_cluster
def command(
    cluster: Cluster, name: str, seconds: float | None, until: datetime | None, *, release: bool
) -> None:
    """Hold the Sandbox NAME: neither replace nor prune its runtime meanwhile.

    The policy's limits.maxHoldSeconds caps it. Holding counts as a use, and so does letting go.
    """
    if sum((seconds is not None, until is not None, release)) != 1:
        raise click.UsageError("Say one of --for SECONDS, --until TIME and --release.")
    now = datetime.now(UTC)
    if seconds is not None:
        try:
            until = now + timedelta(seconds=seconds)
        except OverflowError:
            raise click.UsageError(f"--for {seconds:g} is beyond the end of the calendar.") from None
    if until is not None and until <= now:
        raise click.UsageError(f"{timestamp(until)} has passed already; --release ends a hold.")
    value = None if until is None else timestamp(until)
    sandbox = cluster.touch(name, {Annotation.HOLD_UNTIL.value: value})
    said = f"held until {value}" if value else "not held"
    click.echo(f"{sandbox['metadata']['namespace']}/{name}: {said}, {ready_of(sandbox)}")
