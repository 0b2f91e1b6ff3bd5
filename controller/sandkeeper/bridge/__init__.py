"""Files of a running sandbox, for a gateway that acts for an agent from outside of it.

:class:`FileBridge` reads, writes, lists and moves them (:mod:`files`); :class:`MountTable` tells which mount a path
lies in, and which directory of the host that shows (:mod:`table`). The work is done in the sandbox by a small program
that is sent there with each request (:mod:`helper`, :mod:`protocol`), through a command in a container
(:mod:`containers`) or in a Pod (:mod:`pods`). :class:`Bridges` finds the one that a Sandbox runs in (:mod:`opening`).
"""

from sandkeeper.bridge.files import FileBridge
from sandkeeper.bridge.opening import Bridges
from sandkeeper.bridge.table import MountTable

__all__ = ["Bridges", "FileBridge", "MountTable"]
