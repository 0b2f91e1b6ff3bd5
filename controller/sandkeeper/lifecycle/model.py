"""The vocabulary of :func:`sandkeeper.lifecycle.decide`: what is known, and what is to be done.

Everything here is frozen and comparable, so that a table test can state a situation and the plan it must lead to. Times
are aware datetimes in UTC; lengths of time are timedeltas, and zero switches a rule off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sandkeeper.api.conditions import Phase, Reason
from sandkeeper.config.windows import Windows

__all__ = [
    "Claimant",
    "Create",
    "DeleteClaimants",
    "Desire",
    "Drift",
    "Effect",
    "Failure",
    "Hold",
    "Kept",
    "Moved",
    "Observed",
    "Plan",
    "Preflight",
    "PreflightCheck",
    "Pruned",
    "Readiness",
    "Record",
    "Remove",
    "Report",
    "RuntimeState",
    "Setup",
    "Situation",
    "Start",
    "Stop",
    "Transition",
    "Unreachable",
    "Unresolved",
    "Waiting",
    "Wanted",
    "Windows",
]


# --- what is wanted ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The claimant wants this runtime, made like this."""

    backend: str
    config_hash: str
    has_setup: bool
    windows: Windows
    most_sharers: int | None = None
    """How many Sandboxes such a runtime can belong to; None: any number."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """The claimant belongs elsewhere (``to`` is another key) or nowhere (``to`` is None: it is not sandboxed)."""

    to: str | None
    windows: Windows


@dataclass(frozen=True, kw_only=True)
class Unresolved:
    """What the claimant wants cannot be said: rule 0 freezes what is there."""

    reason: Reason
    message: str


Desire = Wanted | Moved | Unresolved


# --- what is recorded and seen ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The record of a prune. ``last_used`` is the raw annotation at that moment: another valid value is a use."""

    at: datetime
    reason: Reason
    last_used: str | None


@dataclass(frozen=True, kw_only=True)
class Hold:
    """When a value of hold-until was first seen, so that its length can be capped."""

    until: str
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Record:
    """What the status of one Sandbox says of its runtime: the registry's row. All None: nothing was ever recorded."""

    runtime_id: str | None = None
    backend: str | None = None
    node: str | None = None
    setup_complete: bool = False
    """The setupCommand of the runtime ``runtime_id`` completed."""
    config_hash: str | None = None
    last_used_at: datetime | None = None
    pruned: Pruned | None = None
    hold: Hold | None = None
    recreate: str | None = None
    """The value of the recreate annotation that was honoured last."""
    wipe: str | None = None
    """The value of the wipe annotation that was honoured last."""
    removing: str | None = None
    """The id of a runtime whose removal was announced."""
    stopped: bool = False
    """It was last reported Stopped (Ready has the reason Stopped): running it again is a use."""
    recoveries: int = 0


@dataclass(frozen=True, kw_only=True)
class Claimant:
    """One live Sandbox that resolves to the key, or holds its runtime by record."""

    uid: str
    name: str
    created_at: datetime
    desire: Desire
    stopped: bool = False
    """``spec.state: Stopped``."""
    paused: bool = False
    last_used: str | None = None
    """The raw last-used annotation."""
    hold_until: str | None = None
    """The raw hold-until annotation."""
    recreate: str | None = None
    wipe: str | None = None
    record: Record = Record()
    has_status: bool = False
    """False: the status is empty; the object is new, or its status was lost."""


class RuntimeState(StrEnum):
    """What a runtime does at the moment, in words that fit a container as well as a Pod."""

    CREATED = "Created"
    """It exists, and was never started."""
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPED = "Stopped"
    """It ended on request (SIGTERM) and can be started again as it is."""
    FAILED = "Failed"
    """It ended by itself, by a kill, for want of memory; it is not used again."""
    TERMINATING = "Terminating"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One runtime, proven ours, as its backend sees it now."""

    backend: str
    id: str
    name: str
    node: str
    """The Node's name, or the Docker engine's id."""
    state: RuntimeState
    created_at: datetime
    config_hash: str
    image: str
    has_setup: bool
    """It was made with a setupCommand, which has to complete before it is ready."""
    user: str = ""
    """``uid:gid`` that it runs as, where that is known."""
    wiped_for: frozenset[str] = frozenset()
    """The wipes that need not be done any more, as it was told when it was made (``Create.wiped_for``)."""
    in_use: bool = False
    """A command of a user runs in it at this moment."""
    ended: Reason | None = None
    """Why it FAILED, or is TERMINATING though nobody here asked for it: EXITED, OOM_KILLED, EVICTED, PREEMPTED."""
    waits_for: Reason | None = None
    """What keeps it STARTING: UNSCHEDULABLE, IMAGE_MISSING, ... None: nothing that is known of."""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Unreachable:
    """The backend cannot be asked, or is not the one that is recorded: nothing is known, so nothing is done."""

    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The last attempt at this key failed (or its runtime died), and the next is due at ``retry_at``."""

    reason: Reason
    message: str
    count: int
    """In a row."""
    retry_at: datetime


@dataclass(frozen=True, kw_only=True)
class PreflightCheck:
    """What a preflight found: ``problem`` None means that the wanted runtime can be made."""

    config_hash: str
    """For which configuration it was asked."""
    problem: Reason | None = None
    message: str = ""
    retry_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Why a replacement that nobody asked for is not for now: others of the same policy come first."""

    message: str
    """Of one sentence, the same for as long as it holds."""
    reason: Reason | None = None
    """ROLLOUT_BLOCKED: it waits for one that failed. None: for its turn."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that :func:`decide` may look at. One key, one moment."""

    claimants: tuple[Claimant, ...]
    observed: Observed | Unreachable | None
    now: datetime
    clock_trusted: bool = True
    """The clock is within 30 s of the API server's; otherwise no removal for reasons of time."""
    removals_from: datetime | None = None
    """Others come first: no prune and no replacement before this moment, which is this key's turn."""
    rollout: Waiting | None = None
    """The rollout of the policy lets others go first; None: nothing of that kind is known."""
    removals_forbidden: bool = False
    """The operator's configuration forbids all removals that nobody asked for."""
    was_deleted: bool = False
    """Somebody deleted a Sandbox that had the runtime, and that Sandbox waits for it to go."""
    setup_done: str | None = None
    """The id of a runtime whose setupCommand completed in this process and may not be recorded yet."""
    fresh: str | None = None
    """The id of a runtime whose setupCommand has certainly not begun: this process made it, or saw it before it ever
    ran (CREATED, or STARTING for the first time). Not set any more once the setup began, whatever came of it."""
    failure: Failure | None = None
    preflight: PreflightCheck | None = None
    epoch: int = 1
    """The hash epoch of this operator (``v<epoch>-...``)."""


# --- what is to be done -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Create:
    """Make and start the runtime that the ruling claimant wants."""

    ruler: str
    """UID of the claimant whose configuration counts."""
    recovery: bool = False
    """The record knew a runtime that nobody removed on purpose: count it."""
    wipe: bool = False
    """With a fresh copy of the workspace: everybody who shares it asks for one."""
    wiped_for: tuple[str, ...] = ()
    """Digests of the wipes that are honoured with this runtime, or were before it. The runtime carries them, so that
    whoever finds it knows them, whatever became of the process that made it and of the statuses. Once it has run they
    are done: a backend may leave it to the runtime to wipe before anything else."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Start the runtime again as it is."""

    id: str


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Stop the runtime and keep it."""

    id: str


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Run the setupCommand in the new runtime, once."""

    id: str
    ruler: str


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """Find out whether the wanted runtime could be made, before the one that runs is removed."""

    ruler: str
    by_request: bool = False
    """See :class:`Remove`."""


class Removal(StrEnum):
    """Why a runtime goes."""

    UNCLAIMED = "Unclaimed"
    PRUNE = "Prune"
    REPLACE = "Replace"
    DEAD = "Dead"
    """It failed, or its setup did not complete; it serves nobody."""


@dataclass(frozen=True, kw_only=True)
class Remove:
    """Remove the runtime with this id.

    ``announced``: the reports are written to every claimant first, each with its resourceVersion, and a conflict
    cancels. ``limited``: it counts against the rate of prunes and replacements. ``by_request``: somebody asked for a
    new runtime, so it waits for no rollout.
    """

    id: str
    removal: Removal
    announced: bool = False
    limited: bool = False
    by_request: bool = False
    reason: Reason | None = field(default=None, compare=False)
    """Why, in a word: for logs and metrics, and no part of what is done."""


@dataclass(frozen=True, kw_only=True)
class DeleteClaimants:
    """Delete these Sandboxes (UIDs): they stayed pruned for deleteAfterSeconds."""

    uids: tuple[str, ...]


Effect = Create | Start | Stop | Setup | Preflight | Remove | DeleteClaimants


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """The value of the Ready condition. ``ready`` None is Unknown."""

    ready: bool | None
    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The value of the Drifted condition, which is there only while it is true."""

    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class Transition:
    """What happens next by itself, and when."""

    at: datetime
    what: str
    """Prune, Replace, Delete, Retry, Refresh: one word."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one claimant's status is to say. None of ``record`` unchanged means: keep what was recorded."""

    phase: Phase
    readiness: Readiness
    record: Record
    drift: Drift | None = None
    next: Transition | None = None
    wipe_pending: str | None = None
    """Why a wipe that was asked for is not done: who else shares the workspace and did not ask."""
    withheld: str | None = None
    """What would be removed by now, were it not forbidden."""
    invalid_annotations: tuple[str, ...] = ()
    """One sentence for each annotation that was ignored."""


class Kept(StrEnum):
    """Why a runtime stays that was to be replaced or pruned."""

    HOT = "hot"
    """It is in use, or was less than the hot window ago."""
    HELD = "held"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One step, and what to say about it.

    ``effect`` None means that the key is settled until ``wake_at`` or until something changes. With an effect, the pass
    carries it out, observes again and asks :func:`decide` again: every step can be the last before a crash.
    """

    rule: str
    """The name of the rule that matched, for logs and tests."""
    effect: Effect | None
    reports: Mapping[str, Report] = field(default_factory=dict)
    """By the claimant's UID. A paused claimant has none: hands off."""
    wake_at: datetime | None = None
    sharers: tuple[str, ...] = ()
    """UIDs of the claimants that have the runtime in common, the one that rules first."""
    passing: bool = False
    """What is said will soon be out of date: worth a write only where it lasts."""
    last_use: datetime | None = field(default=None, compare=False)
    """Of all who count, together; like ``kept`` it is told for those who count what happens."""
    kept: Kept | None = field(default=None, compare=False)
    """The hot window keeps what would otherwise be replaced or pruned."""
