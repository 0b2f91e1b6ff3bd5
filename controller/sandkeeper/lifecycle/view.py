"""One situation, understood: who rules, who counts, how hot it is, and when that changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.config.windows import Windows
from sandkeeper.lifecycle.instants import BEGINNING, after
from sandkeeper.lifecycle.model import (
    Claimant,
    Moved,
    Observed,
    RuntimeState,
    Situation,
    Unreachable,
    Unresolved,
    Waiting,
    Wanted,
)
from sandkeeper.lifecycle.use import ALIVE, Claim, is_busy, is_hot, read_claim, wipe_digest

__all__ = ["View", "look", "ruler_of"]

_ZERO: Final = timedelta()
_OFF: Final = Windows(hot=_ZERO, idle=_ZERO, max_age=_ZERO, delete_after=_ZERO, max_hold=_ZERO)
"""For a situation that is frozen: no rule that looks at a window gets a say."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What the rules look at."""

    situation: Situation
    ruler: Claimant | None
    """The oldest that wants the runtime; among claimants that all belong elsewhere, the oldest of these."""
    windows: Windows
    """The ruler's: sharers of a runtime share its policy, and one measure must hold for all."""
    claims: tuple[Claim, ...]
    """Those who count, oldest first."""
    conflicting: tuple[Claim, ...]
    """Those who want something else than the ruler, and claim nothing."""
    surplus: tuple[Claim, ...] = ()
    """The youngest of those who agree, where there are more than such a runtime can belong to: they claim nothing."""
    leaving: tuple[Claim, ...] = ()
    """Those who belong elsewhere and no longer use what stays here for others: they are let go."""

    @property
    def now(self) -> datetime:
        """The moment."""
        return self.situation.now

    @property
    def observed(self) -> Observed | None:
        """The runtime, if one is known to be there."""
        return self.situation.observed if isinstance(self.situation.observed, Observed) else None

    @property
    def unreachable(self) -> Unreachable | None:
        """Why nothing is known of a runtime."""
        return self.situation.observed if isinstance(self.situation.observed, Unreachable) else None

    @property
    def wanted(self) -> Wanted | None:
        """What the ruler wants; None: every claimant belongs elsewhere, or what it wants cannot be said."""
        if self.ruler is not None and isinstance(self.ruler.desire, Wanted):
            return self.ruler.desire
        return None

    @property
    def all_stopped(self) -> bool:
        """Stopped only if all say so; whoever is let go has a say until it was told, for a stop is not announced."""
        asked = (*self.claims, *self.leaving) if self.is_in(*ALIVE) else self.claims
        return all(claim.claimant.stopped for claim in asked)

    @property
    def all_pruned(self) -> bool:
        """Every one was pruned, and nobody used it since."""
        return all(claim.record.pruned is not None and not claim.woken for claim in self.claims)

    @property
    def replaces(self) -> bool:
        """The removal of the runtime last known was announced, and no other has come since."""
        return any(claim.record.removing is not None for claim in self.claims)

    @property
    def recovers(self) -> bool:
        """Some record knew a runtime whose removal nobody announced: a new one is a recovery."""
        return any(
            claim.record.runtime_id is not None and claim.record.runtime_id != claim.record.removing
            for claim in self.claims
        )

    # --- wipes --------------------------------------------------------------------------------------------------------

    @property
    def wipes(self) -> bool:
        """Everybody who shares the workspace asks for a fresh copy, and did not get it yet."""
        return self.wanted is not None and all(claim.wipe_asked for claim in self.claims)

    @property
    def wiped_for(self) -> tuple[str, ...]:
        """The wipes that nobody has to do any more once the next runtime is made."""
        done = (wipe_digest(claim.claimant) for claim in self.claims if self.wipes or not claim.wipe_asked)
        return tuple(sorted(digest for digest in done if digest is not None))

    # --- set-up -------------------------------------------------------------------------------------------------------

    @property
    def is_recorded(self) -> bool:
        """Some record names the runtime that is there: it was Ready once."""
        return self.observed is not None and any(
            claim.record.runtime_id == self.observed.id for claim in self.claims
        )

    @property
    def is_set_up(self) -> bool:
        """Its setupCommand provably completed, or it has none."""
        runtime = self.observed
        if runtime is None:
            return False
        if not runtime.has_setup or self.situation.setup_done == runtime.id:
            return True
        return any(
            claim.record.runtime_id == runtime.id and claim.record.setup_complete for claim in self.claims
        )

    # --- use ----------------------------------------------------------------------------------------------------------

    @property
    def last_use(self) -> datetime:
        """Together, the last use is the maximum."""
        return max(claim.last_use for claim in self.claims)

    @property
    def held_until(self) -> datetime | None:
        """Held if any holds."""
        return max((claim.held_until for claim in self.claims if claim.held_until is not None), default=None)

    @property
    def is_busy(self) -> bool:
        """Hot or held: neither replaced nor pruned now."""
        return self.held_until is not None or is_hot(
            self.observed, last_use=self.last_use, now=self.now, hot=self.windows.hot
        )

    @property
    def may_remove(self) -> bool:
        """Whether a prune or a replacement may be now: the clock can be trusted, and it is this key's turn."""
        turn = self.situation.removals_from
        return self.situation.clock_trusted and (turn is None or turn <= self.now)

    @property
    def is_asked_for(self) -> bool:
        """Somebody asked for a new runtime in place of the one that is there."""
        runtime = self.observed
        return runtime is not None and (
            self.wipes
            or any(claim.recreate_asked and claim.record.runtime_id == runtime.id for claim in self.claims)
        )

    @property
    def is_forbidden(self) -> bool:
        """Whether nothing that is there may be removed, for nobody but us wants that."""
        return self.situation.removals_forbidden and not self.is_asked_for

    @property
    def is_held_back(self) -> bool:
        """Whether no replacement is to be, however long it waits."""
        return self.windows.rollout_paused or self.is_forbidden

    @property
    def waiting(self) -> Waiting | None:
        """Why others are replaced first. What somebody asked for waits for no rollout."""
        return None if self.is_asked_for else self.situation.rollout

    @property
    def may_replace(self) -> bool:
        """Whether a replacement may be now."""
        return self.may_remove and not self.is_held_back and self.waiting is None

    def cold_at(self, last_use: datetime) -> datetime:
        """Tell since or from when it is neither hot nor held, given the last use."""
        hot_until = BEGINNING
        if self.observed is not None and self.observed.state in ALIVE:
            hot_until = after(last_use, self.windows.hot)
        return max(hot_until, self.held_until or BEGINNING)

    # --- prune --------------------------------------------------------------------------------------------------------

    @property
    def overdue(self) -> Reason | None:
        """Why it is to be pruned by now, hot or not: IDLE or TOO_OLD. Strictly later than the limit; zero is off."""
        if _ZERO < self.windows.idle < self.now - self.last_use:
            return Reason.IDLE
        if self.observed is not None and _ZERO < self.windows.max_age < self.now - self.observed.created_at:
            return Reason.TOO_OLD
        return None

    def prune_at(self, last_use: datetime) -> datetime | None:
        """Tell after which moment it is pruned, given the last use; None: never."""
        deadlines: list[datetime] = []
        if self.windows.idle > _ZERO:
            deadlines.append(after(last_use, self.windows.idle))
        if self.windows.max_age > _ZERO and self.observed is not None:
            deadlines.append(after(self.observed.created_at, self.windows.max_age))
        return max(min(deadlines), self.cold_at(last_use)) if deadlines else None

    def is_in(self, *states: RuntimeState) -> bool:
        """Whether a runtime is there and does one of these."""
        return self.observed is not None and self.observed.state in states


def look(situation: Situation) -> View:
    """Understand a situation."""
    ruler = ruler_of(situation.claimants)
    windows = _OFF if ruler is None or isinstance(ruler.desire, Unresolved) else ruler.desire.windows
    observed = situation.observed if isinstance(situation.observed, Observed) else None
    counting: list[Claim] = []
    conflicting: list[Claim] = []
    leaving: list[Claim] = []
    for claimant in sorted(situation.claimants, key=_age):
        claim = read_claim(
            claimant,
            observed=observed,
            now=situation.now,
            max_hold=windows.max_hold,
            clock_trusted=situation.clock_trusted,
        )
        if ruler is not None and not _agree(claimant, ruler):
            conflicting.append(claim)
        elif ruler is not None and _is_leaving(claim, ruler, situation, windows):
            leaving.append(claim)
        else:
            counting.append(claim)
    most = _most_sharers(ruler, observed)
    return View(
        situation=situation,
        ruler=ruler,
        windows=windows,
        claims=tuple(counting[:most]),
        surplus=tuple(counting[len(counting) if most is None else most :]),
        conflicting=tuple(conflicting),
        leaving=tuple(leaving),
    )


def _most_sharers(ruler: Claimant | None, observed: Observed | None) -> int | None:
    """Tell how many the runtime can belong to; what is there of another backend belongs to as many as it does."""
    if ruler is None or not isinstance(ruler.desire, Wanted):
        return None
    if observed is not None and observed.backend != ruler.desire.backend:
        return None
    return ruler.desire.most_sharers


def ruler_of(claimants: Sequence[Claimant]) -> Claimant | None:
    """Find whose word counts: the oldest that belongs here (creation time, then UID), else the oldest of all."""
    resident = [claimant for claimant in claimants if not isinstance(claimant.desire, Moved)]
    return min(resident or claimants, key=_age, default=None)


def _age(claimant: Claimant) -> tuple[datetime, str]:
    return claimant.created_at, claimant.uid


def _agree(claimant: Claimant, ruler: Claimant) -> bool:
    """Whether a claimant counts: it wants what the ruler wants, or is on its way elsewhere and uses what is there.

    Under a ruler that cannot be resolved all count, for all are frozen.
    """
    mine, theirs = claimant.desire, ruler.desire
    if claimant.uid == ruler.uid or isinstance(mine, Moved) or isinstance(theirs, Unresolved):
        return True
    return (
        isinstance(mine, Wanted)
        and isinstance(theirs, Wanted)
        and (mine.backend, mine.config_hash) == (theirs.backend, theirs.config_hash)
    )


def _is_leaving(claim: Claim, ruler: Claimant, situation: Situation, windows: Windows) -> bool:
    """Whether a claimant that belongs elsewhere is to be let go, for others stay and it is cold by itself.

    It is told so before it stops counting, like anybody whose runtime is removed. One that is paused cannot be told;
    and by a clock that is wrong, one that holds or has just used the runtime may look cold.
    """
    if not isinstance(claim.claimant.desire, Moved) or not isinstance(ruler.desire, Wanted):
        return False
    if claim.claimant.paused or isinstance(situation.observed, Unreachable):
        return False
    if situation.observed is None:
        return True
    busy = is_busy(claim, observed=situation.observed, now=situation.now, hot=windows.hot)
    return situation.clock_trusted and not busy
