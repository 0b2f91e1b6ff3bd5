"""An operator whose process ends in time, whatever hangs."""

import logging
import os
import threading

from sandkeeper.config.operator import OperatorConfig
from sandkeeper.reconcile.operator import Operator

__all__ = ["PunctualOperator"]

logger = logging.getLogger(__name__)


class PunctualOperator(Operator):
    """The operator of one process: it takes the process with it.

    Winding down has its own time limits. But after it, asyncio and the interpreter wait for threads without any: a
    look-up of a host name, or a library's thread in a call to an engine that hangs. The kubelet would kill us in the
    end, and whoever else runs us would wait; so a thread that nobody waits for counts the seconds.
    """

    def __init__(
        self, config: OperatorConfig, *, leader_election: bool, health: tuple[str, int], grace: float
    ) -> None:
        super().__init__(config, leader_election=leader_election, health=health)
        self._alarm = threading.Timer(grace, _give_up, [grace])
        self._alarm.daemon = True
        self._armed = False

    def stop(self) -> None:
        """Begin to end, and to count."""
        if not self._armed:
            self._armed = True
            self._alarm.start()
        super().stop()


def _give_up(grace: float) -> None:
    logger.critical("Ending by force: still here %g s after being told to stop", grace)
    logging.shutdown()
    # sys.exit would end this thread alone, and every orderly way out of the process waits for the thread that hangs.
    os._exit(1)
