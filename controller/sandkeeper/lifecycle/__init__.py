"""What is to be done about one runtime key, now: pure functions over frozen values.

``model``      the words: what is wanted, recorded and seen; what is to be done and said
``decide``     the rules of life, in order
``binding``    to which key a Sandbox belongs while it moves
``backoff``    when to try again
``churn``      what becomes of runtimes, for those who count
``rollout``    how many of a policy's runtimes may be replaced at once
``use``, ``view``, ``drift``, ``reports``                   what the rules are made of
``at_rest``, ``pruning``, ``making``, ``replacing``         the rules
"""

from sandkeeper.lifecycle.backoff import STEADY, next_failure
from sandkeeper.lifecycle.binding import bound_key, rebound, relies
from sandkeeper.lifecycle.decide import decide
from sandkeeper.lifecycle.model import (
    Claimant,
    Create,
    DeleteClaimants,
    Desire,
    Drift,
    Effect,
    Failure,
    Hold,
    Moved,
    Observed,
    Plan,
    Preflight,
    PreflightCheck,
    Pruned,
    Readiness,
    Record,
    Removal,
    Remove,
    Report,
    RuntimeState,
    Setup,
    Situation,
    Start,
    Stop,
    Transition,
    Unreachable,
    Unresolved,
    Waiting,
    Wanted,
)
from sandkeeper.lifecycle.rollout import Counts, Failed, Member, Standing, is_stopped, room
from sandkeeper.lifecycle.use import mark_of

__all__ = [
    "STEADY",
    "Claimant",
    "Counts",
    "Create",
    "DeleteClaimants",
    "Desire",
    "Drift",
    "Effect",
    "Failed",
    "Failure",
    "Hold",
    "Member",
    "Moved",
    "Observed",
    "Plan",
    "Preflight",
    "PreflightCheck",
    "Pruned",
    "Readiness",
    "Record",
    "Removal",
    "Remove",
    "Report",
    "RuntimeState",
    "Setup",
    "Situation",
    "Standing",
    "Start",
    "Stop",
    "Transition",
    "Unreachable",
    "Unresolved",
    "Waiting",
    "Wanted",
    "bound_key",
    "decide",
    "is_stopped",
    "mark_of",
    "next_failure",
    "rebound",
    "relies",
    "room",
]
