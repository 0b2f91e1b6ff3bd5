"""Runtimes as containers of a Docker engine.

:mod:`backend` does what the protocol asks for. It speaks to the engine through :mod:`engine`, which gives up on one
that hangs; it knows what is there from :mod:`watch`. What a container is made from (:mod:`arguments`), what an
inspection means (:mod:`inspection`) and what an error means (:mod:`failures`) are pure functions. :mod:`setup` runs the
setupCommand.

What a sandbox has of the engine's host :mod:`workspaces` sees to: it is found and checked (:mod:`layout`,
:mod:`sources`), made and filled (:mod:`preparing`), and kept from whoever could swap it (:mod:`places`), provided that
the operator sees that host (:mod:`sight`). Where it has nothing there, :mod:`volumes` gives it a volume.
"""

from sandkeeper.runtimes.docker.backend import DockerRuntimes

__all__ = ["DockerRuntimes"]
