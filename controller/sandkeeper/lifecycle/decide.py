"""The rules of life: one runtime key, one moment, one step.

:func:`decide` is a function of what is wanted, recorded and seen. It has no clock, does no I/O and remembers nothing,
so that it may be asked as often as one likes, by whichever process leads at the moment, and a crash between any two
steps changes nothing but the time it takes. docs/explanation/rules-of-life.md tells the same to users.
"""

from collections.abc import Callable
from typing import Final

from sandkeeper.lifecycle.at_rest import gone_elsewhere, paused, stopped, unclaimed, unreachable, unresolved
from sandkeeper.lifecycle.making import bury, create, finish, wait_until_gone
from sandkeeper.lifecycle.model import Plan, Situation
from sandkeeper.lifecycle.pruning import prune, stay_pruned
from sandkeeper.lifecycle.replacing import keep, replace_it, reuse
from sandkeeper.lifecycle.view import View, look

__all__ = ["POLICIES", "decide"]

POLICIES: Final[tuple[Callable[[View], Plan | None], ...]] = (
    unresolved,  # 0 what is wanted cannot be said: freeze
    unreachable,  #   nothing is known of the runtime: nothing is done
    unclaimed,  # 1 nobody claims it: remove
    paused,  #   hands off one Sandbox: hands off its runtime
    gone_elsewhere,  #   nothing wanted here, nothing left here: at rest
    stopped,  # 2 all say Stopped: stop and keep, never prune
    prune,  # 3 cold, not held, idle too long or too old: record, remove
    stay_pruned,  # 4 pruned and not used since: stay so, and delete in the end
    wait_until_gone,  # 5 on its way out: wait
    bury,  #   dead, not provably set up, or half made and not wanted: remove
    create,  #   missing: make it, now or when the back-off has passed
    finish,  #   half made: start it, wait, set it up once
    reuse,  # 6 as wanted: use it again, start it if it stopped
    keep,  # 7 different, but hot, held or held back: keep, and say so
    replace_it,  # 8 different and cold: check, announce, remove
)
"""In this order; the first that has something to say decides."""


def decide(situation: Situation) -> Plan:
    """Tell the next step for one runtime key, and what to say about it.

    Ask again after each step, with the world as it is then. Where several Sandboxes claim the runtime, the oldest of
    those that belong to the key rules; the records in the reports are what the next call expects to be given.
    """
    view = look(situation)
    for policy in POLICIES:
        plan = policy(view)
        if plan is not None:
            return plan
    message = f"no rule for {situation!r}"  # replace_it always has a plan
    raise AssertionError(message)
